"""What a model directory's `config.json` says: layers, widths, rotary, experts, and the bytes and work they cost.

Knows the field names of the Qwen3.5 family and refuses everything else by file and field. Knows no tensor, no
memory and no device; a numeric format is a name with a width.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from ninfer.base.errors import ModelFileError
from ninfer.base.pools import PAGE_TOKENS, Pool

NumericFormat = Literal["bfloat16", "float32", "float64"]
"""Format of weights, activations and conv columns, and of KV pages unless they have one of their own."""
KvFormat = Literal["bfloat16", "float32", "float64", "fp8", "int8"]
"""Format of Main KV pages: the model's, or one byte a number (FP8: E4M3) and an FP32 scale a head of a token."""

ELEMENT_BYTES: dict[str, int] = {"bfloat16": 2, "float32": 4, "float64": 8}
_SCALE_BYTES = 4
_BLOCK_ALIGN_BYTES = 64

_OUTER_TYPES = {
    "Qwen3_5ForCausalLM": "qwen3_5_text",
    "Qwen3_5MoeForCausalLM": "qwen3_5_moe_text",
    "Qwen3_5ForConditionalGeneration": "qwen3_5",
    "Qwen3_5MoeForConditionalGeneration": "qwen3_5_moe",
}


class LayerKind(Enum):
    """Which mixer a decoder layer has; the values are the words of `layer_types`."""

    LINEAR = "linear_attention"
    FULL = "full_attention"


@dataclass(frozen=True, slots=True)
class AttentionGeometry:
    """Full attention: query heads, KV heads, width of one head."""

    heads: int
    kv_heads: int
    head_dim: int


@dataclass(frozen=True, slots=True)
class RopeGeometry:
    """The first `width` dimensions of a head turn; `sections`: frequency pairs of the time, height, width axes."""

    theta: float
    width: int
    sections: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class GdnGeometry:
    """Gated DeltaNet: heads and head widths of keys and values, taps of the causal convolution."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_taps: int

    @property
    def key_width(self) -> int:
        return self.key_heads * self.key_dim

    @property
    def value_width(self) -> int:
        return self.value_heads * self.value_dim

    @property
    def conv_channels(self) -> int:
        """Channels of the convolution: all queries, all keys, all values."""
        return 2 * self.key_width + self.value_width

    @property
    def state_elements(self) -> int:
        """Numbers in the recurrent state of one layer."""
        return self.value_heads * self.key_dim * self.value_dim


@dataclass(frozen=True, slots=True)
class MoeGeometry:
    """Sparse MLP: routed experts, how many a token takes, inner widths of a routed and of the shared expert."""

    experts: int
    top_k: int
    inner: int
    shared_inner: int


@dataclass(frozen=True, slots=True)
class VisionGeometry:
    """The vision tower, as far as sizes need it."""

    depth: int
    hidden: int
    inner: int
    position_rows: int
    patch_elements: int
    merged_patches: int


@dataclass(frozen=True, slots=True)
class BlockQuantization:
    """FP8 weights (E4M3) with one scale for each block of `rows` x `columns`; modules in `kept` stay as they are."""

    rows: int
    columns: int
    kept: tuple[str, ...]

    def is_kept(self, module: str) -> bool:
        """A module is named by itself, by one around it, or by the end of its name."""
        return any(module == name or module.startswith(name + ".") or module.endswith("." + name) for name in self.kept)


@dataclass(frozen=True, slots=True)
class ModelGeometry:
    """Everything about a model that follows from its config alone."""

    architecture: str
    vocab_rows: int
    """Rows of embedding and head; the tokenizer may write fewer ids."""
    hidden: int
    mlp_inner: int
    """Inner width of the dense MLP; 0 with `moe`."""
    layers: tuple[LayerKind, ...]
    attention: AttentionGeometry
    rope: RopeGeometry
    gdn: GdnGeometry
    moe: MoeGeometry | None
    vision: VisionGeometry | None
    norm_eps: float
    tied_head: bool
    mtp_layers: int
    max_positions: int
    quantization: BlockQuantization | None = None
    """Of the weights in the files."""

    @property
    def full_layers(self) -> int:
        return sum(kind is LayerKind.FULL for kind in self.layers)

    @property
    def linear_layers(self) -> int:
        return len(self.layers) - self.full_layers

    @property
    def tensor_root(self) -> str:
        """Prefix of the text model's tensor names."""
        return "model." if self.vision is None else "model.language_model."

    # ---- bytes ------------------------------------------------------------------------------------------------

    def kv_token_bytes(self, pool: Pool, kv_format: KvFormat) -> int:
        """Keys and values of one token in all layers of a KV pool, scales included (C1)."""
        match pool:
            case Pool.MAIN_KV:
                layers = self.full_layers
            case Pool.MTP_KV:
                layers = self.mtp_layers
            case _:
                raise AssertionError(f"{pool} holds no KV of this model")
        width = self.attention.head_dim
        row = width * ELEMENT_BYTES.get(kv_format, 1) + (0 if kv_format in ELEMENT_BYTES else _SCALE_BYTES)
        return layers * 2 * self.attention.kv_heads * row

    def kv_page_bytes(self, pool: Pool, kv_format: KvFormat) -> int:
        """One page of a KV pool: one contiguous block [layers, K/V, kv_heads, 64 tokens] (C1)."""
        return PAGE_TOKENS * self.kv_token_bytes(pool, kv_format)

    def recurrent_bytes(self, numeric_format: NumericFormat) -> int:
        """Recurrent matrices of one StateImage: FP32, and FP64 only where everything is FP64."""
        return self.linear_layers * self.gdn.state_elements * (8 if numeric_format == "float64" else 4)

    def conv_bytes(self, numeric_format: NumericFormat) -> int:
        """The last raw convolution columns of one StateImage."""
        columns = self.gdn.conv_channels * (self.gdn.conv_taps - 1)
        return self.linear_layers * columns * ELEMENT_BYTES[numeric_format]

    def tail_hidden_bytes(self, numeric_format: NumericFormat) -> int:
        """The final-normed hidden row of one StateImage."""
        return self.hidden * ELEMENT_BYTES[numeric_format]

    def state_sections(self, numeric_format: NumericFormat) -> tuple[int, int, int, int]:
        """Byte offsets of recurrent, conv and tail hidden row in a StateImage, and its size; each 64-byte aligned."""
        conv = _align(self.recurrent_bytes(numeric_format))
        tail = conv + _align(self.conv_bytes(numeric_format))
        return 0, conv, tail, tail + _align(self.tail_hidden_bytes(numeric_format))

    def state_bytes(self, numeric_format: NumericFormat) -> int:
        """One StateImage: one contiguous block (D7)."""
        return self.state_sections(numeric_format)[3]

    # ---- parameters and work ------------------------------------------------------------------------------------

    @property
    def text_parameters(self) -> int:
        """All weights of the text model, head included."""
        head = self.vocab_rows * self.hidden * (1 if self.tied_head else 2)
        return head + self.hidden + sum(self._layer_parameters(kind, active=False) for kind in self.layers)

    @property
    def active_parameters(self) -> int:
        """Weights that one decoded token touches, head included, embedding row not."""
        head = self.vocab_rows * self.hidden
        return head + self.hidden + sum(self._layer_parameters(kind, active=True) for kind in self.layers)

    @property
    def mtp_parameters(self) -> int:
        """All weights under `mtp.`."""
        per_layer = self._layer_parameters(LayerKind.FULL, active=False) + 2 * self.hidden**2 + 3 * self.hidden
        return self.mtp_layers * per_layer

    @property
    def vision_parameters(self) -> int:
        """All weights of the vision tower."""
        if self.vision is None:
            return 0
        tower, merged = self.vision, self.vision.hidden * self.vision.merged_patches
        width = tower.hidden
        block = 4 * width + 4 * (width * width + width) + 2 * width * tower.inner + tower.inner + width
        merger = 2 * width + merged * merged + merged + merged * self.hidden + self.hidden
        return tower.patch_elements * width + width + tower.position_rows * width + tower.depth * block + merger

    def token_flops(self, context_tokens: int) -> int:
        """Floating-point operations of one decoded token that attends to `context_tokens` tokens."""
        scan = 7 * self.linear_layers * self.gdn.state_elements
        attention = 4 * self.full_layers * self.attention.heads * self.attention.head_dim * context_tokens
        return 2 * self.active_parameters + scan + attention

    def _layer_parameters(self, kind: LayerKind, *, active: bool) -> int:
        hidden, gdn, attention = self.hidden, self.gdn, self.attention
        match kind:
            case LayerKind.FULL:
                width = attention.heads * attention.head_dim
                kv_width = attention.kv_heads * attention.head_dim
                mixer = hidden * (2 * width + 2 * kv_width) + width * hidden + 2 * attention.head_dim
            case LayerKind.LINEAR:
                projections = hidden * (gdn.conv_channels + gdn.value_width + 2 * gdn.value_heads)
                small = gdn.conv_channels * gdn.conv_taps + 2 * gdn.value_heads + gdn.value_dim
                mixer = projections + small + gdn.value_width * hidden
        return mixer + self._mlp_parameters(active=active) + 2 * hidden

    def _mlp_parameters(self, *, active: bool) -> int:
        if self.moe is None:
            return 3 * self.hidden * self.mlp_inner
        experts = self.moe.top_k if active else self.moe.experts
        shared = 3 * self.hidden * self.moe.shared_inner + self.hidden
        return experts * 3 * self.hidden * self.moe.inner + shared + self.hidden * self.moe.experts


def read_geometry(model_dir: Path) -> ModelGeometry:
    """Parse `config.json` of a model directory. Raises ModelFileError naming file and field."""
    if not model_dir.is_dir():
        raise ModelFileError(f"{model_dir} is not a directory")
    path = model_dir / "config.json"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ModelFileError(f"{path}: file not found") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{path}: cannot be read: {error}") from None
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ModelFileError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise ModelFileError(f"{path}: must be a JSON object")
    return parse_geometry(values, str(path))


def parse_geometry(values: dict[str, Any], source: str = "config.json") -> ModelGeometry:
    """The geometry in already decoded config values; `source` names them in errors."""
    outer = _Fields(values, source)
    architecture = _parse_architecture(outer)
    conditional = architecture.endswith("ForConditionalGeneration")
    inner = outer.section("text_config") if conditional else outer
    inner.expect("model_type", (_OUTER_TYPES[architecture].removesuffix("_text") + "_text",))
    _refuse_unbuilt_values(inner)
    layers = _parse_layers(inner)
    moe = _parse_moe(inner) if "Moe" in architecture else None
    head_dim = inner.count("head_dim")
    attention = AttentionGeometry(inner.count("num_attention_heads"), inner.count("num_key_value_heads"), head_dim)
    if attention.heads % attention.kv_heads:
        raise inner.error("num_attention_heads", "must be a multiple of num_key_value_heads")
    return ModelGeometry(
        architecture=architecture,
        vocab_rows=inner.count("vocab_size"),
        hidden=inner.count("hidden_size"),
        mlp_inner=0 if moe else inner.count("intermediate_size"),
        layers=layers,
        attention=attention,
        rope=_parse_rope(inner, head_dim),
        gdn=_parse_gdn(inner),
        moe=moe,
        vision=_parse_vision(outer.section("vision_config")) if conditional else None,
        norm_eps=inner.number("rms_norm_eps", 1e-6),
        tied_head=outer.flag("tie_word_embeddings", inner.flag("tie_word_embeddings", False)),
        mtp_layers=inner.count("mtp_num_hidden_layers", 0, least=0),
        max_positions=inner.count("max_position_embeddings"),
        quantization=_parse_quantization(outer if inner.find("quantization_config") is None else inner),
    )


class _Fields:
    """One JSON object of the config; every refusal names the file and the field's full path."""

    def __init__(self, values: dict[str, Any], source: str, prefix: str = "") -> None:
        self._values, self._source, self._prefix = values, source, prefix

    def error(self, name: str, rule: str) -> ModelFileError:
        return ModelFileError(f"{self._source}: {self._prefix}{name} {rule}")

    def find(self, name: str) -> Any:
        return self._values.get(name)

    def section(self, name: str) -> _Fields:
        value = self._values.get(name)
        if not isinstance(value, dict):
            raise self.error(name, "is missing" if value is None else "must be an object")
        return _Fields(value, self._source, f"{self._prefix}{name}.")

    def count(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        value = self._values.get(name, default)
        if value is None:
            raise self.error(name, "is missing")
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.error(name, f"must be an integer of at least {least}, not {value!r}")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        value = self._values.get(name, default)
        if value is None:
            raise self.error(name, "is missing")
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
            raise self.error(name, f"must be a positive number, not {value!r}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, f"must be true or false, not {value!r}")
        return value

    def expect(self, name: str, allowed: tuple[Any, ...]) -> None:
        """Refuse every other value, absence included unless None is allowed."""
        value = self._values.get(name)
        if value not in allowed:
            words = " or ".join(repr(choice) for choice in allowed if choice is not None)
            raise self.error(name, f"must be {words}, not {value!r}")


def _parse_architecture(outer: _Fields) -> str:
    names = outer.find("architectures")
    if not isinstance(names, list) or len(names) != 1 or names[0] not in _OUTER_TYPES:
        raise outer.error("architectures", f"must be one of {', '.join(_OUTER_TYPES)}, not {names!r}")
    architecture: str = names[0]
    outer.expect("model_type", (_OUTER_TYPES[architecture],))
    return architecture


def _refuse_unbuilt_values(inner: _Fields) -> None:
    """Values that would change the mathematics into something not built here."""
    inner.expect("hidden_act", ("silu", None))
    inner.expect("attention_bias", (False, None))
    inner.expect("attn_output_gate", (True, None))
    inner.expect("output_gate_type", ("swish", "silu", None))
    inner.expect("mamba_ssm_dtype", ("float32", None))
    inner.expect("norm_topk_prob", (True, None))
    inner.expect("mtp_use_dedicated_embeddings", (False, None))
    inner.expect("mtp_num_hidden_layers", (0, 1, None))


def _parse_layers(inner: _Fields) -> tuple[LayerKind, ...]:
    """`layer_types` wins; `full_attention_interval` counts only when it is missing."""
    count = inner.count("num_hidden_layers")
    words = inner.find("layer_types")
    if words is None:
        interval = inner.count("full_attention_interval", 4)
        return tuple(LayerKind.LINEAR if (i + 1) % interval else LayerKind.FULL for i in range(count))
    known = {kind.value for kind in LayerKind}
    if not isinstance(words, list) or len(words) != count or any(word not in known for word in words):
        raise inner.error("layer_types", f"must list {count} layers of {' or '.join(sorted(known))}")
    return tuple(LayerKind(word) for word in words)


def _parse_gdn(inner: _Fields) -> GdnGeometry:
    gdn = GdnGeometry(
        key_heads=inner.count("linear_num_key_heads"),
        value_heads=inner.count("linear_num_value_heads"),
        key_dim=inner.count("linear_key_head_dim"),
        value_dim=inner.count("linear_value_head_dim"),
        conv_taps=inner.count("linear_conv_kernel_dim", least=2),
    )
    if gdn.value_heads % gdn.key_heads:
        raise inner.error("linear_num_value_heads", "must be a multiple of linear_num_key_heads")
    return gdn


def _parse_rope(inner: _Fields, head_dim: int) -> RopeGeometry:
    """The factor inside `rope_parameters` wins over the one beside it; position scaling is refused."""
    rope = inner.section("rope_parameters")
    rope.expect("rope_type", ("default", None))
    rope.expect("mrope_interleaved", (True,))
    factor = rope.number("partial_rotary_factor", inner.number("partial_rotary_factor", 0.25))
    width = int(head_dim * factor)
    sections = rope.find("mrope_section")
    whole = isinstance(sections, list) and len(sections) == 3 and all(isinstance(n, int) and n >= 0 for n in sections)
    if not whole or 2 * sum(sections) != width:
        raise rope.error("mrope_section", f"must be three counts with sum {width // 2}, not {sections!r}")
    if width > head_dim or width % 2:
        raise rope.error("partial_rotary_factor", f"must turn an even number of the {head_dim} dimensions")
    return RopeGeometry(rope.number("rope_theta"), width, (sections[0], sections[1], sections[2]))


def _parse_moe(inner: _Fields) -> MoeGeometry:
    moe = MoeGeometry(
        experts=inner.count("num_experts"),
        top_k=inner.count("num_experts_per_tok"),
        inner=inner.count("moe_intermediate_size"),
        shared_inner=inner.count("shared_expert_intermediate_size"),
    )
    if moe.top_k > moe.experts:
        raise inner.error("num_experts_per_tok", "must not exceed num_experts")
    return moe


def _parse_quantization(fields: _Fields) -> BlockQuantization | None:
    """FP8 by blocks, activations as they come; every other method is refused by its field."""
    if fields.find("quantization_config") is None:
        return None
    given = fields.section("quantization_config")
    given.expect("quant_method", ("fp8",))
    given.expect("fmt", ("e4m3", None))
    given.expect("activation_scheme", ("dynamic", None))
    size = given.find("weight_block_size")
    if not isinstance(size, list) or len(size) != 2 or not all(type(n) is int and n > 0 for n in size):
        raise given.error("weight_block_size", f"must be two positive integers, not {size!r}")
    kept = given.find("modules_to_not_convert") or []
    if not isinstance(kept, list) or not all(isinstance(name, str) for name in kept):
        raise given.error("modules_to_not_convert", "must list names of modules")
    return BlockQuantization(size[0], size[1], tuple(kept))


def _parse_vision(tower: _Fields) -> VisionGeometry:
    patch = tower.count("patch_size", 16)
    return VisionGeometry(
        depth=tower.count("depth"),
        hidden=tower.count("hidden_size"),
        inner=tower.count("intermediate_size"),
        position_rows=tower.count("num_position_embeddings"),
        patch_elements=tower.count("in_channels", 3) * tower.count("temporal_patch_size", 2) * patch * patch,
        merged_patches=tower.count("spatial_merge_size", 2) ** 2,
    )


def _align(byte_count: int) -> int:
    return -(-byte_count // _BLOCK_ALIGN_BYTES) * _BLOCK_ALIGN_BYTES
