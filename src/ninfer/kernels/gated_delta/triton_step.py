"""Triton route of a step: everything between the two projections of the mixer in two kernels, for one token of each
row or for several whose states are all kept.

One program a row, value head and part of the head's columns: convolution of its channels over the kept columns and the
new one, silu, unit vectors, gates, delta rule on its part of the matrix from read slot to write slot. The gated norm
needs whole heads and follows. The kept columns are only read here, since several programs share a key head's;
`kernels.conv1d.triton_shift` moves them when all layers are done.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from ninfer.kernels.rmsnorm import RmsNorm
from ninfer.kernels.rmsnorm.triton_norm import norm_gated


@dataclass(frozen=True, slots=True)
class StepTiles:
    """Columns of a head's matrix that one program carries, warps."""

    part: int = 32
    warps: int = 4


def mix_step(
    y: Tensor,
    conv: Tensor,
    columns: Tensor,
    states: Tensor,
    decay_rate: Tensor,
    dt_bias: Tensor,
    norm: RmsNorm,
    key_heads: int,
    read: Tensor,
    write: Tensor,
    tiles: StepTiles | None = None,
) -> Tensor:
    """y [N, q | k | v | z | b | a] -> [N, Hv * Dv] in y's format, ready for the output projection.

    conv [taps, C], columns [slots, taps - 1, C] and states FP32 [slots, Hv, Dk, Dv] (views of one layer). read int32
    [B]: slots of the rows; write int32 [N]: where the state after each token goes, negative: nowhere. N / B tokens of
    each row follow each other; with more than one no write slot is a read slot.
    """
    batch, tokens = read.shape[0], y.shape[0] // read.shape[0]
    _, value_heads, key_dim, value_dim = states.shape
    chosen = tiles or StepTiles()
    part = min(chosen.part, value_dim)
    out = torch.empty(y.shape[0], value_heads, value_dim, dtype=torch.float32, device=y.device)
    _mix[(batch, value_heads, value_dim // part)](
        y,
        y.stride(0),
        conv,
        columns,
        columns.stride(0),
        states,
        states.stride(0),
        decay_rate,
        dt_bias,
        read,
        write,
        out,
        key_dim**-0.5,
        KEY_HEADS=key_heads,
        VALUE_HEADS=value_heads,
        KEY_DIM=key_dim,
        VALUE_DIM=value_dim,
        PART=part,
        TAPS=conv.shape[0],
        TOKENS=tokens,
        num_warps=chosen.warps,
    )
    channels = conv.shape[1]
    return norm_gated(out, y[:, channels : channels + value_heads * value_dim], norm, y.dtype)


@triton.jit
def _convolve(y, y_stride, columns, conv, channel, t: tl.constexpr, CHANNELS: tl.constexpr, TAPS: tl.constexpr):
    """silu of the causal convolution of some channels at the t-th of the new tokens; FP32."""
    total = tl.load(y + t * y_stride + channel).to(tl.float32) * tl.load(conv + (TAPS - 1) * CHANNELS + channel)
    for tap in tl.static_range(TAPS - 1):
        if t + tap < TAPS - 1:
            kept = tl.load(columns + (t + tap) * CHANNELS + channel).to(tl.float32)
        else:
            kept = tl.load(y + (t + tap - TAPS + 1) * y_stride + channel).to(tl.float32)
        total += kept * tl.load(conv + tap * CHANNELS + channel)
    return total / (1.0 + tl.exp(-total))


@triton.jit
def _mix(
    y,
    y_stride,
    conv,
    columns,
    column_stride,
    states,
    state_stride,
    decay_rate,
    dt_bias,
    read_slots,
    write_slots,
    out,
    scale,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    PART: tl.constexpr,
    TAPS: tl.constexpr,
    TOKENS: tl.constexpr,
):
    KEYS: tl.constexpr = KEY_HEADS * KEY_DIM
    VALUES: tl.constexpr = VALUE_HEADS * VALUE_DIM
    CHANNELS: tl.constexpr = 2 * KEYS + VALUES
    row, head = tl.program_id(0), tl.program_id(1)
    key_head = head // (VALUE_HEADS // KEY_HEADS)
    read = tl.load(read_slots + row).to(tl.int64)
    key_at, value_at = tl.arange(0, KEY_DIM), tl.program_id(2) * PART + tl.arange(0, PART)
    inside = head * KEY_DIM * VALUE_DIM + key_at[:, None] * VALUE_DIM + value_at[None, :]
    state = tl.load(states + read * state_stride + inside)
    first, kept = y + row * TOKENS * y_stride, columns + read * column_stride
    for t in tl.static_range(TOKENS):
        q = _convolve(first, y_stride, kept, conv, key_head * KEY_DIM + key_at, t, CHANNELS, TAPS)
        k = _convolve(first, y_stride, kept, conv, KEYS + key_head * KEY_DIM + key_at, t, CHANNELS, TAPS)
        v = _convolve(first, y_stride, kept, conv, 2 * KEYS + head * VALUE_DIM + value_at, t, CHANNELS, TAPS)
        q = q * (scale / tl.sqrt(tl.sum(q * q, 0) + 1e-6))
        k = k * (1.0 / tl.sqrt(tl.sum(k * k, 0) + 1e-6))
        mine = first + t * y_stride
        strength = tl.load(mine + CHANNELS + VALUES + head).to(tl.float32)
        beta = 1.0 / (1.0 + tl.exp(-strength))
        raw = tl.load(mine + CHANNELS + VALUES + VALUE_HEADS + head).to(tl.float32) + tl.load(dt_bias + head)
        softplus = tl.maximum(raw, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(raw)))
        state = state * tl.exp(tl.load(decay_rate + head) * softplus)
        error = beta * (v - tl.sum(state * k[:, None], 0))
        state = state + k[:, None] * error[None, :]
        write = tl.load(write_slots + row * TOKENS + t).to(tl.int64)
        if TOKENS == 1 or write >= 0:
            tl.store(states + write * state_stride + inside, state)
        o = tl.sum(state * q[:, None], 0)
        tl.store(out + (row * TOKENS + t) * VALUES + head * VALUE_DIM + value_at, o)
