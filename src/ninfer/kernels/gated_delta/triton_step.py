"""Triton route of a decode step: everything between the two projections of the mixer in one kernel.

One program a row and value head: convolution of its channels over the kept columns and the new one, silu, unit
vectors, gates, delta rule on the head's matrix from read slot to write slot, gated norm. The kept columns are only
read here, since several value heads share a key head's; `kernels.conv1d.triton_shift` moves them when all layers
are done.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ninfer.kernels.rmsnorm import RmsNorm


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
) -> Tensor:
    """y [B, q | k | v | z | b | a] -> [B, Hv * Dv] in y's format, ready for the output projection.

    conv [taps, C], columns [slots, taps - 1, C] and states FP32 [slots, Hv, Dk, Dv] (views of one layer); read, write
    int32 [B]: slots of each row.
    """
    batch = y.shape[0]
    _, value_heads, key_dim, value_dim = states.shape
    out = torch.empty(batch, value_heads * value_dim, dtype=y.dtype, device=y.device)
    _mix[(batch, value_heads)](
        y,
        y.stride(0),
        conv,
        columns,
        columns.stride(0),
        states,
        states.stride(0),
        decay_rate,
        dt_bias,
        norm.scaled,
        norm.floor,
        read,
        write,
        out,
        key_dim**-0.5,
        KEY_HEADS=key_heads,
        VALUE_HEADS=value_heads,
        KEY_DIM=key_dim,
        VALUE_DIM=value_dim,
        TAPS=conv.shape[0],
        num_warps=8,
    )
    return out


@triton.jit
def _convolve(y, columns, conv, channel, CHANNELS: tl.constexpr, TAPS: tl.constexpr):
    """silu of the causal convolution of some channels at the newest token; FP32."""
    total = tl.load(y + channel).to(tl.float32) * tl.load(conv + (TAPS - 1) * CHANNELS + channel)
    for tap in tl.static_range(TAPS - 1):
        kept = tl.load(columns + tap * CHANNELS + channel).to(tl.float32)
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
    scaled,
    floor,
    read_slots,
    write_slots,
    out,
    scale,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    TAPS: tl.constexpr,
):
    KEYS: tl.constexpr = KEY_HEADS * KEY_DIM
    VALUES: tl.constexpr = VALUE_HEADS * VALUE_DIM
    CHANNELS: tl.constexpr = 2 * KEYS + VALUES
    row, head = tl.program_id(0), tl.program_id(1)
    key_head = head // (VALUE_HEADS // KEY_HEADS)
    read = tl.load(read_slots + row).to(tl.int64)
    write = tl.load(write_slots + row).to(tl.int64)
    key_at, value_at = tl.arange(0, KEY_DIM), tl.arange(0, VALUE_DIM)
    inside = head * KEY_DIM * VALUE_DIM + key_at[:, None] * VALUE_DIM + value_at[None, :]
    state = tl.load(states + read * state_stride + inside)
    mine, kept = y + row * y_stride, columns + read * column_stride
    q = _convolve(mine, kept, conv, key_head * KEY_DIM + key_at, CHANNELS, TAPS)
    k = _convolve(mine, kept, conv, KEYS + key_head * KEY_DIM + key_at, CHANNELS, TAPS)
    v = _convolve(mine, kept, conv, 2 * KEYS + head * VALUE_DIM + value_at, CHANNELS, TAPS)
    q = q * (scale / tl.sqrt(tl.sum(q * q, 0) + 1e-6))
    k = k * (1.0 / tl.sqrt(tl.sum(k * k, 0) + 1e-6))
    strength = tl.load(mine + CHANNELS + VALUES + head).to(tl.float32)
    beta = 1.0 / (1.0 + tl.exp(-strength))
    raw = tl.load(mine + CHANNELS + VALUES + VALUE_HEADS + head).to(tl.float32) + tl.load(dt_bias + head)
    softplus = tl.maximum(raw, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(raw)))
    state = state * tl.exp(tl.load(decay_rate + head) * softplus)
    error = beta * (v - tl.sum(state * k[:, None], 0))
    state = state + k[:, None] * error[None, :]
    tl.store(states + write * state_stride + inside, state)
    o = tl.sum(state * q[:, None], 0)
    least = tl.load(floor)
    o = o * (1.0 / tl.sqrt(tl.sum(o * o, 0) + least * least)) * tl.load(scaled + value_at)
    z = tl.load(mine + CHANNELS + head * VALUE_DIM + value_at).to(tl.float32)
    o = o * z / (1.0 + tl.exp(-z))
    tl.store(out + row * VALUES + head * VALUE_DIM + value_at, o.to(out.dtype.element_ty))
