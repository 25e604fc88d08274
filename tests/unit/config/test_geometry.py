"""Geometry from config.json: the published sizes to the byte, and refusals that name file and field."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from ninfer.base.errors import ModelFileError
from ninfer.base.pools import Pool
from ninfer.config.geometry import LayerKind, ModelGeometry, parse_geometry, read_geometry

DATA = Path(__file__).resolve().parents[2] / "data"
MODELS: dict[str, Any] = json.loads((DATA / "model_configs.json").read_text())["models"]

# name: GDN and full layers; parameters of text, MTP, vision; active per token; recurrent + conv bytes; KV bytes of a
# token, main and MTP; GFLOP per decoded token and per 1,000 tokens of context.
PUBLISHED = {
    "Qwen3.5-0.8B": (18, 6, 752393024, 20452864, 100592896, 752393024, 19537920, 12288, 2048, 1.54, 0.049),
    "Qwen3.5-2B": (18, 6, 1881825088, 60828160, 331416576, 1881825088, 19537920, 12288, 2048, 3.80, 0.049),
    "Qwen3.5-4B": (24, 8, 4205751296, 120599552, 333514240, 4205751296, 51511296, 32768, 4096, 8.50, 0.131),
    "Qwen3.5-9B": (24, 8, 8953803264, 243290624, 456010480, 7936684544, 51511296, 32768, 4096, 15.96, 0.131),
    "Qwen3.6-27B": (48, 16, 26895998464, 424699392, 460730096, 25624600064, 153944064, 65536, 4096, 51.51, 0.393),
    "Qwen3.6-35B-A3B": (30, 10, 34660610688, 844640768, 446571248, 2946429568, 64389120, 20480, 2048, 6.00, 0.164),
    "Qwen3.5-122B-A10B": (
        36,
        12,
        122111526912,
        2523679232,
        451290864,
        9008449536,
        153649152,
        24576,
        2048,
        18.28,
        0.393,
    ),
    "Qwen3.5-397B-A17B": (
        45,
        15,
        396346350336,
        6595568128,
        456010480,
        16331922176,
        192061440,
        30720,
        2048,
        32.99,
        0.492,
    ),
}


def published_config(name: str) -> dict[str, Any]:
    """A multimodal config.json of a released model, from its values."""
    text = dict(MODELS[name])
    vision = text.pop("vision")
    moe = "num_experts" in text
    text["model_type"] = "qwen3_5_moe_text" if moe else "qwen3_5_text"
    text["rope_parameters"] = {
        "rope_type": "default",
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.25,
        "mrope_interleaved": True,
        "mrope_section": [11, 11, 10],
    }
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration" if moe else "Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5_moe" if moe else "qwen3_5",
        "tie_word_embeddings": text["tie_word_embeddings"],
        "text_config": text,
        "vision_config": vision,
    }


def text_config() -> dict[str, Any]:
    values: dict[str, Any] = json.loads((DATA / "fixtures" / "dense_text" / "config.json").read_text())
    return values


def multimodal_config() -> dict[str, Any]:
    values: dict[str, Any] = json.loads((DATA / "fixtures" / "moe_vision" / "config.json").read_text())
    return values


def find_name(name: str) -> str:
    """The file names equal models together."""
    return next(key for key in MODELS if name in key.split(", "))


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes(name: str) -> None:
    """Bytes per page and StateImage follow layers, geometry and format [C1]."""
    linear, full, text, mtp, vision, active, state, kv, mtp_kv, gflop, context_gflop = PUBLISHED[name]
    geometry = parse_geometry(published_config(find_name(name)))
    assert (geometry.linear_layers, geometry.full_layers) == (linear, full)
    assert (geometry.text_parameters, geometry.mtp_parameters, geometry.vision_parameters) == (text, mtp, vision)
    assert geometry.active_parameters == active
    assert geometry.recurrent_bytes("bfloat16") + geometry.conv_bytes("bfloat16") == state
    assert geometry.kv_page_bytes(Pool.MAIN_KV, "bfloat16") == 64 * kv
    assert geometry.kv_page_bytes(Pool.MTP_KV, "bfloat16") == 64 * mtp_kv
    assert geometry.token_flops(0) / 1e9 == pytest.approx(gflop, abs=0.006)
    assert (geometry.token_flops(1000) - geometry.token_flops(0)) / 1e9 == pytest.approx(context_gflop, abs=0.0006)


@pytest.mark.parametrize(
    ("numeric_format", "element", "fine"), [("bfloat16", 2, 4), ("float32", 4, 4), ("float64", 8, 8)]
)
def test_a_state_image_is_three_aligned_sections(numeric_format: Any, element: int, fine: int) -> None:
    """Recurrent matrices stay in full precision; the tail hidden row belongs to the image [D7]."""
    geometry = parse_geometry(text_config())
    recurrent, conv, tail, end = geometry.state_sections(numeric_format)
    assert recurrent == 0
    assert conv == 6 * 2 * 32 * 32 * fine
    assert tail - conv == 6 * 192 * 3 * element
    assert end - tail == -(-64 * element // 64) * 64
    assert geometry.state_bytes(numeric_format) == end
    assert all(offset % 64 == 0 for offset in (conv, tail, end))


@pytest.mark.parametrize("folder", ["dense_text", "moe_text", "dense_vision", "moe_vision"])
def test_fixture_configs_are_read(folder: str) -> None:
    """[issue A 2] the four architectures."""
    geometry = read_geometry(DATA / "fixtures" / folder)
    assert (geometry.moe is not None) == folder.startswith("moe")
    assert (geometry.vision is not None) == folder.endswith("vision")
    assert geometry.tensor_root == ("model.language_model." if folder.endswith("vision") else "model.")
    assert geometry.layers[:4] == (LayerKind.LINEAR,) * 3 + (LayerKind.FULL,)


def test_layer_types_win_over_the_interval() -> None:
    values = text_config()
    values["layer_types"] = ["full_attention"] + ["linear_attention"] * 7
    assert parse_geometry(values).layers[0] is LayerKind.FULL
    del values["layer_types"]
    assert [kind is LayerKind.FULL for kind in parse_geometry(values).layers] == [False, False, False, True] * 2


def test_the_outer_tie_flag_rules() -> None:
    values = multimodal_config()
    values["text_config"]["tie_word_embeddings"] = True
    assert not parse_geometry(values).tied_head
    values["tie_word_embeddings"] = True
    values["text_config"]["tie_word_embeddings"] = False
    assert parse_geometry(values).tied_head
    del values["tie_word_embeddings"]
    assert not parse_geometry(values).tied_head


def test_the_inner_rotary_factor_wins() -> None:
    values = text_config()
    values["partial_rotary_factor"] = 0.5
    assert parse_geometry(values).rope.width == 16
    del values["rope_parameters"]["partial_rotary_factor"]
    values["partial_rotary_factor"] = 0.25
    assert parse_geometry(values).rope.width == 16


FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
REFUSED: list[tuple[str, Any, str]] = [
    ("architectures", ["Qwen4ExpForCausalLM"], "architectures"),
    ("architectures", ["Qwen3NextForCausalLM"], "architectures"),
    ("architectures", None, "architectures"),
    ("model_type", "qwen4_exp", "model_type"),
    ("quantization_config", {"quant_method": "awq", "bits": 4}, "quantization_config.quant_method"),
    ("quantization_config", {"quant_method": "compressed-tensors"}, "quantization_config.quant_method"),
    ("quantization_config", {"fmt": "e4m3"}, "quantization_config.quant_method"),
    ("quantization_config", {"quant_method": "fp8"}, "quantization_config.weight_block_size"),
    ("quantization_config", {**FP8, "weight_block_size": [128]}, "quantization_config.weight_block_size"),
    ("quantization_config", {**FP8, "weight_block_size": [0, 128]}, "quantization_config.weight_block_size"),
    ("quantization_config", {**FP8, "fmt": "e5m2"}, "quantization_config.fmt"),
    ("quantization_config", {**FP8, "activation_scheme": "static"}, "quantization_config.activation_scheme"),
    ("quantization_config", {**FP8, "modules_to_not_convert": "gate"}, "quantization_config.modules_to_not_convert"),
    ("quantization_config", "fp8", "quantization_config"),
    ("text_config.quantization_config", {"quant_method": "gptq"}, "text_config.quantization_config.quant_method"),
    ("text_config.model_type", "qwen3_5_text", "text_config.model_type"),
    ("text_config.hidden_act", "gelu", "text_config.hidden_act"),
    ("text_config.attention_bias", True, "text_config.attention_bias"),
    ("text_config.attn_output_gate", False, "text_config.attn_output_gate"),
    ("text_config.output_gate_type", "sigmoid", "text_config.output_gate_type"),
    ("text_config.mamba_ssm_dtype", "bfloat16", "text_config.mamba_ssm_dtype"),
    ("text_config.mtp_num_hidden_layers", 2, "text_config.mtp_num_hidden_layers"),
    ("text_config.hidden_size", None, "text_config.hidden_size"),
    ("text_config.hidden_size", "64", "text_config.hidden_size"),
    ("text_config.num_hidden_layers", 0, "text_config.num_hidden_layers"),
    ("text_config.layer_types", ["sliding_attention"] * 4, "text_config.layer_types"),
    ("text_config.num_key_value_heads", 3, "text_config.num_attention_heads"),
    ("text_config.num_experts_per_tok", 9, "text_config.num_experts_per_tok"),
    ("text_config.rope_parameters", None, "text_config.rope_parameters"),
    ("text_config.rope_parameters.rope_type", "yarn", "text_config.rope_parameters.rope_type"),
    ("text_config.rope_parameters.mrope_interleaved", False, "text_config.rope_parameters.mrope_interleaved"),
    ("text_config.rope_parameters.mrope_section", [3, 3, 3], "text_config.rope_parameters.mrope_section"),
    ("vision_config", None, "vision_config"),
    ("vision_config.depth", -1, "vision_config.depth"),
]


@pytest.mark.parametrize(("path", "value", "named"), REFUSED)
def test_other_families_and_values_are_refused_by_name(tmp_path: Path, path: str, value: Any, named: str) -> None:
    """[issue A bad input] one line that names file and field."""
    values = copy.deepcopy(multimodal_config())
    *outer, last = path.split(".")
    target = values
    for key in outer:
        target = target[key]
    if value is None:
        target.pop(last, None)
    else:
        target[last] = value
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ModelFileError) as caught:
        read_geometry(tmp_path)
    message = str(caught.value)
    assert str(tmp_path / "config.json") in message
    assert f" {named} " in message
    assert "\n" not in message


@pytest.mark.parametrize("content", [None, b"{", b"[]", b"\xff\xfe"])
def test_an_unreadable_config_is_one_error(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ModelFileError, match=r"config\.json"):
        read_geometry(tmp_path)


def test_geometry_is_a_value() -> None:
    assert isinstance(parse_geometry(text_config()), ModelGeometry)
    assert parse_geometry(text_config()) == parse_geometry(text_config())
    assert hash(parse_geometry(text_config())) == hash(parse_geometry(text_config()))


def test_block_quantization_is_read_from_either_section() -> None:
    """[issue E 4] Which modules stay: by name, by one around them, by the end of a name."""
    named = ["lm_head", "model.visual", "mlp.gate", "model.layers.0.linear_attn.in_proj_a"]
    given = {**FP8, "fmt": "e4m3", "activation_scheme": "dynamic", "modules_to_not_convert": named}
    outer, inner = copy.deepcopy(multimodal_config()), copy.deepcopy(multimodal_config())
    outer["quantization_config"] = given
    inner["text_config"]["quantization_config"] = given
    block = parse_geometry(outer).quantization
    assert block is not None
    assert block == parse_geometry(inner).quantization
    assert (block.rows, block.columns) == (128, 128)
    kept = ["lm_head", "model.visual.blocks.0.mlp", "model.layers.3.mlp.gate", "model.layers.0.linear_attn.in_proj_a"]
    assert all(block.is_kept(module) for module in kept)
    others = ["model.layers.3.mlp.gate_proj", "model.layers.10.linear_attn.in_proj_a", "model.lm_heads"]
    assert not any(block.is_kept(module) for module in others)
    assert parse_geometry(multimodal_config()).quantization is None
