"""Geometries of released models for a replay: bytes of a page and a StateImage, and the work of a prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ninfer.base.errors import BadInput
from ninfer.base.pools import Pool
from ninfer.config.geometry import ModelGeometry, NumericFormat, parse_geometry

NUMERIC_FORMAT: NumericFormat = "bfloat16"
"""Of KV pages and conv columns; recurrent states are FP32 (C1)."""

_ROPE = {
    "mrope_interleaved": True,
    "mrope_section": [11, 11, 10],
    "partial_rotary_factor": 0.25,
    "rope_theta": 10000000,
    "rope_type": "default",
}


@dataclass(frozen=True, slots=True)
class _Released:
    """What differs between the models of the family."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    value_heads: int
    mlp_inner: int
    tied_head: bool


_MODELS = {
    "qwen3.5-0.8b": _Released(1024, 24, 8, 2, 16, 3584, True),
    "qwen3.5-4b": _Released(2560, 32, 16, 4, 32, 9216, True),
    "qwen3.5-9b": _Released(4096, 32, 16, 4, 32, 12288, False),
    "qwen3.5-27b": _Released(5120, 64, 24, 4, 48, 17408, False),
    "qwen3.5-35b-a3b": _Released(2048, 40, 16, 2, 32, 0, False),
}
GEOMETRY_NAMES = tuple(_MODELS)


def find_geometry(name: str) -> ModelGeometry:
    """By name. Raises BadInput with the known ones."""
    model = _MODELS.get(name)
    if model is None:
        raise BadInput(f"geometry {name!r} is not known; known are {', '.join(GEOMETRY_NAMES)}", param="geometry")
    return parse_geometry(_config_of(model), name)


def page_bytes(geometry: ModelGeometry) -> int:
    """Of one Main KV page."""
    return geometry.kv_page_bytes(Pool.MAIN_KV, NUMERIC_FORMAT)


def kv_token_bytes(geometry: ModelGeometry) -> int:
    """Keys and values of one token in all layers."""
    return geometry.kv_token_bytes(Pool.MAIN_KV, NUMERIC_FORMAT)


def image_bytes(geometry: ModelGeometry) -> int:
    """Of one StateImage."""
    return geometry.state_bytes(NUMERIC_FORMAT)


def prefill_flops(geometry: ModelGeometry, start: int, stop: int) -> float:
    """Operations of prefilling [start, stop) behind `start` tokens: each token attends to all before it.

    The head runs once, not for each token.
    """
    count = stop - start
    if count <= 0:
        return 0.0
    head = 2.0 * geometry.vocab_rows * geometry.hidden
    alone = geometry.token_flops(0) - head
    pairs = geometry.token_flops(1) - geometry.token_flops(0)
    return count * alone + head + pairs * (count * start + count * (count + 1) / 2)


def _config_of(model: _Released) -> dict[str, Any]:
    """The values of `config.json` as published."""
    config: dict[str, Any] = {
        "architectures": ["Qwen3_5ForCausalLM" if model.mlp_inner else "Qwen3_5MoeForCausalLM"],
        "model_type": "qwen3_5_text" if model.mlp_inner else "qwen3_5_moe_text",
        "vocab_size": 248320,
        "hidden_size": model.hidden,
        "num_hidden_layers": model.layers,
        "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
        * (model.layers // 4),
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": model.value_heads,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_parameters": _ROPE,
        "tie_word_embeddings": model.tied_head,
        "max_position_embeddings": 262144,
        "mamba_ssm_dtype": "float32",
    }
    if model.mlp_inner:
        return {**config, "intermediate_size": model.mlp_inner}
    return {
        **config,
        "num_experts": 256,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
    }
