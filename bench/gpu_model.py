"""Random-weight models of published geometries on a GPU, and the bytes and FLOPs their steps cannot do without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ninfer.config.geometry import ModelGeometry, parse_geometry
from ninfer.config.options import ContextCacheOptions, EngineOptions
from ninfer.device.capacity import MemoryBudget, plan_capacity
from ninfer.device.cuda import CudaDevice
from ninfer.models.weights import fill_weights

HIDDEN, LAYERS, HEADS, KV_HEADS, VALUE_HEADS, INNER, TIED = range(7)
DENSE: dict[str, tuple[int, int, int, int, int, int, bool]] = {
    "tiny": (128, 4, 4, 2, 4, 256, True),
    "0.8b": (1024, 24, 8, 2, 16, 3584, True),
    "4b": (2560, 32, 16, 4, 32, 9216, True),
    "9b": (4096, 32, 16, 4, 32, 12288, False),
    "27b": (5120, 64, 24, 4, 48, 17408, False),
}
SPARSE: dict[str, tuple[int, int, int, int, int, dict[str, int]]] = {
    "tiny-moe": (128, 4, 4, 2, 4, {"experts": 8, "top_k": 2, "inner": 32}),
    "35b-a3b": (2048, 40, 16, 2, 32, {"experts": 256, "top_k": 8, "inner": 512}),
}
NAMES = (*DENSE, *SPARSE)
_VOCAB = 248_320


def make_config(name: str) -> dict[str, Any]:
    """The text config of a published geometry, or of a tiny one for rehearsals."""
    tiny = name.startswith("tiny")
    if name in DENSE:
        hidden, layers, heads, kv_heads, value_heads, inner, tied = DENSE[name]
        extra: dict[str, Any] = {"intermediate_size": inner}
    else:
        hidden, layers, heads, kv_heads, value_heads, moe = SPARSE[name]
        tied = False
        extra = {
            "num_experts": moe["experts"],
            "num_experts_per_tok": moe["top_k"],
            "moe_intermediate_size": moe["inner"],
            "shared_expert_intermediate_size": moe["inner"],
        }
    sparse = name in SPARSE
    return {
        "architectures": ["Qwen3_5MoeForCausalLM" if sparse else "Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_moe_text" if sparse else "qwen3_5_text",
        "vocab_size": 512 if tiny else _VOCAB,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": 64 if tiny else 256,
        "full_attention_interval": 4,
        "linear_num_key_heads": 2 if tiny else 16,
        "linear_num_value_heads": value_heads,
        "linear_key_head_dim": 32 if tiny else 128,
        "linear_value_head_dim": 32 if tiny else 128,
        "linear_conv_kernel_dim": 4,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 262_144,
        "tie_word_embeddings": tied,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000_000,
            "partial_rotary_factor": 0.25,
            "mrope_interleaved": True,
            "mrope_section": [3, 3, 2] if tiny else [11, 11, 10],
        },
        **extra,
    }


def read_named_geometry(name: str) -> ModelGeometry:
    """By name from NAMES."""
    return parse_geometry(make_config(name), name)


def open_random(
    name: str,
    where: torch.device,
    *,
    lanes: int,
    max_context: int,
    host_bytes: int,
    chunk_tokens: int,
    vocab_tokens: int | None = None,
) -> CudaDevice:
    """A device with random weights, states and pages. On a CPU in FP32: a rehearsal of the same code."""
    geometry = read_named_geometry(name)
    numeric = "bfloat16" if where.type == "cuda" else "float32"
    options = EngineOptions(
        model_dir=Path(name),
        device="cuda",
        dtype=numeric,  # type: ignore[arg-type]
        max_concurrency=lanes,
        max_context=max_context,
        context_cache=ContextCacheOptions(device_state_slots=2, host_capacity_bytes=host_bytes),
        prefill_chunk_tokens=chunk_tokens,
    )
    plan = plan_capacity(geometry, numeric, options, MemoryBudget())  # type: ignore[arg-type]
    dtype = torch.bfloat16 if where.type == "cuda" else torch.float32

    def make(tensor_name: str, shape: tuple[int, ...]) -> torch.Tensor:
        if tensor_name.endswith(("A_log", "dt_bias")):
            return torch.rand(shape)
        scale = 0.02 if len(shape) > 1 else 0.1
        return torch.empty(shape, dtype=dtype).normal_().mul_(scale)

    with torch.inference_mode(), where:
        torch.manual_seed(0)
        loaded = fill_weights(geometry, dtype, make)
    device = CudaDevice(
        loaded, plan, bytes(32), vocab_tokens, device=where, fused=True, chunk_tokens=min(chunk_tokens, max_context)
    )
    with torch.inference_mode():
        for pool in device.arena.kv.values():
            pool.normal_()
        device.arena.states.recurrent.normal_().mul_(0.05)
        device.arena.states.conv.normal_()
        device.arena.states.tail.normal_()
    if where.type == "cuda":
        torch.cuda.synchronize()
    return device


def step_bytes(geometry: ModelGeometry, batch: int, context: int) -> float:
    """BF16 weights read once, KV of every row read, FP32 states read and written; routing uniform and independent."""
    weights = geometry.active_parameters
    if geometry.moe is not None:
        moe = geometry.moe
        expert = 3 * geometry.hidden * moe.inner * len(geometry.layers)
        used = moe.experts * (1 - (1 - moe.top_k / moe.experts) ** batch)
        weights += int(expert * (used - moe.top_k))
    attention = geometry.attention
    kv = geometry.full_layers * 2 * attention.kv_heads * attention.head_dim * 2
    state = geometry.recurrent_bytes("bfloat16") + geometry.conv_bytes("bfloat16")
    return 2 * weights + batch * (context * kv + 2 * state)


def prefill_flops(geometry: ModelGeometry, tokens: int, start: int = 0) -> float:
    """Matrix products, causal attention and the recurrence's own minimum (6 Dk Dv a head and token)."""
    head = geometry.vocab_rows * geometry.hidden
    products = 2 * (geometry.active_parameters - head) * tokens + 2 * head
    attention = geometry.attention
    pairs = tokens * start + tokens * tokens / 2
    mixed = 4 * geometry.full_layers * attention.heads * attention.head_dim * pairs
    return products + mixed + 6 * geometry.linear_layers * geometry.gdn.state_elements * tokens
