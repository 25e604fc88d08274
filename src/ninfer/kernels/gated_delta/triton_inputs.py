"""Triton: from the fused projection of T tokens of one sequence to the inputs of the delta rule, one pass.

Causal convolution over the kept columns and the new ones, silu, unit vectors (q scaled by 1 / sqrt(Dk)), gates. The
results lie by chunks of the scan: row i of chunk c is row 64 c + i, zeros where the chunk is shorter.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ninfer.kernels.span import CHUNK_TOKENS, SpanNumbers

from .inputs import DeltaInputs

_TILE = 16


def scan_inputs(
    y: Tensor,
    conv: Tensor,
    columns: Tensor,
    span: SpanNumbers,
    decay_rate: Tensor,
    dt_bias: Tensor,
    key_heads: int,
    key_dim: int,
) -> DeltaInputs:
    """y [>= T, q | k | v | z | b | a], conv [taps, C]; `columns` [slots, taps - 1, C]: the read slot has those ahead.

    q, k, v in y's format, log_decay and beta FP32, 64 rows a chunk. q is scaled already.
    """
    rows, value_heads = span.chunks.shape[0] * CHUNK_TOKENS, decay_rate.shape[0]
    q, k = (y.new_empty(rows, key_heads, key_dim) for _ in range(2))
    v = y.new_empty(rows, value_heads, key_dim)
    log_decay, beta = (y.new_empty(rows, value_heads, dtype=torch.float32) for _ in range(2))
    assert conv.shape[1] == (2 * key_heads + value_heads) * key_dim, "keys and values are equally wide"
    _inputs[(rows // _TILE, 2 * key_heads + value_heads)](
        y,
        y.stride(0),
        conv,
        columns,
        columns.stride(0),
        span.head,
        span.chunks,
        decay_rate,
        dt_bias,
        q,
        k,
        v,
        log_decay,
        beta,
        key_dim**-0.5,
        KEY_HEADS=key_heads,
        VALUE_HEADS=value_heads,
        WIDTH=key_dim,
        TAPS=conv.shape[0],
        TILE=_TILE,
        CHUNK=CHUNK_TOKENS,
        num_warps=4,
    )
    return DeltaInputs(q, k, v, log_decay, beta)


@triton.jit
def _inputs(
    y,
    y_stride,
    conv,
    columns,
    slot_stride,
    span,
    chunks,
    decay_rate,
    dt_bias,
    q_out,
    k_out,
    v_out,
    log_decay,
    beta,
    scale,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    TAPS: tl.constexpr,
    TILE: tl.constexpr,
    CHUNK: tl.constexpr,
):
    CHANNELS: tl.constexpr = (2 * KEY_HEADS + VALUE_HEADS) * WIDTH
    row = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    chunk = tl.program_id(0) * TILE // CHUNK
    inside = row - chunk * CHUNK
    token = tl.load(chunks + 4 * chunk) + inside
    live = inside < tl.load(chunks + 4 * chunk + 1)
    read = tl.load(span + 2)
    before = columns + tl.maximum(read, 0).to(tl.int64) * slot_stride
    head = tl.program_id(1)
    at = tl.arange(0, WIDTH)
    channel = head * WIDTH + at
    total = tl.zeros([TILE, WIDTH], tl.float32)
    for tap in tl.static_range(TAPS):
        source = token - (TAPS - 1) + tap
        here = (source >= 0) & live
        m = tl.load(y + source[:, None] * y_stride + channel[None, :], mask=here[:, None], other=0.0).to(tl.float32)
        old = (source < 0) & live & (read >= 0)
        place = (source + TAPS - 1)[:, None] * CHANNELS + channel[None, :]
        m += tl.load(before + place, mask=old[:, None], other=0.0).to(tl.float32)
        total += m * tl.load(conv + tap * CHANNELS + channel)[None, :]
    value = total / (1.0 + tl.exp(-total))
    if head < 2 * KEY_HEADS:
        value = value / tl.sqrt(tl.sum(value * value, 1) + 1e-6)[:, None]
        if head < KEY_HEADS:
            value = value * scale
            place = (row[:, None] * KEY_HEADS + head) * WIDTH + at[None, :]
            tl.store(q_out + place, value.to(q_out.dtype.element_ty))
        else:
            place = (row[:, None] * KEY_HEADS + head - KEY_HEADS) * WIDTH + at[None, :]
            tl.store(k_out + place, value.to(k_out.dtype.element_ty))
    else:
        mine = head - 2 * KEY_HEADS
        place = (row[:, None] * VALUE_HEADS + mine) * WIDTH + at[None, :]
        tl.store(v_out + place, value.to(v_out.dtype.element_ty))
        gates = y + token * y_stride + CHANNELS + VALUE_HEADS * WIDTH + mine
        strength = tl.load(gates, mask=live, other=0.0).to(tl.float32)
        strength = tl.where(live, 1.0 / (1.0 + tl.exp(-strength)), 0.0)
        tl.store(beta + row * VALUE_HEADS + mine, strength)
        raw = tl.load(gates + VALUE_HEADS, mask=live, other=0.0).to(tl.float32) + tl.load(dt_bias + mine)
        softplus = tl.maximum(raw, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(raw)))
        fade = tl.where(live, softplus * tl.load(decay_rate + mine), 0.0)
        tl.store(log_decay + row * VALUE_HEADS + mine, fade)
