"""Triton: between the fused projection and attention. Head norms, rotation, new keys and values into their pages.

One program a row and head. The rows are the last tokens of B sequences, as many of each (`lengths` given: row n is the
last token of so long a history), or T tokens of one (`span`: row n lies at its start + n, table row 0).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ninfer.kernels.rmsnorm import RmsNorm
from ninfer.kernels.rope import RotaryTables
from ninfer.kernels.span import SpanNumbers

from .pool import PAGE_TOKENS, KvPool, pool_parts


def place_heads(
    y: Tensor,
    heads: int,
    qk_norm: RmsNorm,
    rotary: RotaryTables,
    pool: KvPool,
    layer: int,
    table: Tensor,
    where_to: Tensor | SpanNumbers,
) -> tuple[Tensor, Tensor]:
    """y [N, (Hq q | Hk k | Hk v | Hq gates) * D] -> q [N, Hq, D] and k [N, Hk, D], normed and turned, in y's format.

    Keys and values go to the pages of `pool`; `table` int32 [B, pages], N / B rows for each of its rows. `where_to`:
    lengths int32 [N], or the span.
    """
    rows, kv_heads, width, where = y.shape[0], pool.shape[3], pool.shape[5], pool_parts(pool)
    q = torch.empty(rows, heads, width, dtype=y.dtype, device=y.device)
    k = torch.empty(rows, kv_heads, width, dtype=y.dtype, device=y.device)
    _place[(rows, heads + 2 * kv_heads)](
        y,
        y.stride(0),
        qk_norm.scaled,
        qk_norm.floor,
        rotary.cos,
        rotary.sin,
        q,
        k,
        where.values,
        where.scales,
        where.page_stride,
        layer,
        table,
        table.stride(0),
        where_to.head if isinstance(where_to, SpanNumbers) else where_to,
        ONE_SEQUENCE=isinstance(where_to, SpanNumbers),
        TOKENS=1 if isinstance(where_to, SpanNumbers) else rows // table.shape[0],
        HEADS=heads,
        KV_HEADS=kv_heads,
        WIDTH=width,
        TURNING=rotary.cos.shape[-1],
        PAGE=PAGE_TOKENS,
        BLOCK=where.block_stride,
        ROUNDING=where.rounding,
        num_warps=1,
    )
    return q, k


@triton.jit
def _round_to_e4m3(x):
    """FP32 within +-448 -> the nearest FP8 number, halves to even: the conversion that follows is then exact."""
    bits = x.to(tl.int32, bitcast=True)
    cut = (bits + 0x7FFFF + ((bits >> 20) & 1)) & -0x100000  # 3 of 23 bits stay
    steps = (x + 24576.0) - 24576.0  # 1.5 * 2^14: steps of 2^-9, below the smallest normal number
    return tl.where(tl.abs(x) < 0.015625, steps, cut.to(tl.float32, bitcast=True))


@triton.jit(do_not_specialize=["layer"])
def _place(
    y,
    y_stride,
    scaled,
    floor,
    cos,
    sin,
    q_out,
    k_out,
    pool,
    scales,
    page_stride,
    layer,
    table,
    table_stride,
    lengths,
    ONE_SEQUENCE: tl.constexpr,
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    TURNING: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK: tl.constexpr,
    ROUNDING: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    at = tl.arange(0, WIDTH)
    source = y + row * y_stride + head * WIDTH
    value = tl.load(source + at).to(tl.float32)
    if head < HEADS + KV_HEADS:
        least = tl.load(floor)
        scale = 1.0 / tl.sqrt(tl.sum(value * value, 0) + least * least)
        value = value * scale * tl.load(scaled + head * WIDTH + at)
        other = (at + TURNING // 2) % TURNING
        turns = at < TURNING
        swapped = tl.load(source + other, mask=turns, other=0.0).to(tl.float32)
        swapped = swapped * scale * tl.load(scaled + head * WIDTH + other, mask=turns, other=0.0)
        c = tl.load(cos + row * TURNING + at, mask=turns, other=1.0)
        s = tl.load(sin + row * TURNING + at, mask=turns, other=0.0)
        value = value * c + swapped * s
    if head < HEADS:
        tl.store(q_out + (row * HEADS + head) * WIDTH + at, value.to(q_out.dtype.element_ty))
    else:
        if ONE_SEQUENCE:
            is_token = row < tl.load(lengths)
            position = tl.load(lengths + 1).to(tl.int64) + row
            page = tl.load(table + position // PAGE, mask=is_token, other=0)
        else:
            is_token = row >= 0
            position = tl.load(lengths + row).to(tl.int64) - 1
            page = tl.load(table + row // TOKENS * table_stride + position // PAGE)
        block = layer * 2 * KV_HEADS + head - HEADS  # keys of all heads, then values of all heads
        block_at = page.to(tl.int64) * page_stride + block * BLOCK
        target = pool + block_at + position % PAGE * WIDTH
        if ROUNDING == "none":
            tl.store(target + at, value.to(pool.dtype.element_ty), mask=(at >= 0) & is_token)
        else:
            limit = 127.0 if ROUNDING == "int8" else 448.0
            largest = tl.max(tl.abs(value), 0)
            grown = value * tl.where(largest > 0.0, limit / tl.where(largest > 0.0, largest, 1.0), 0.0)
            broken = tl.sum(value * 0.0, 0)  # a maximum passes over NaN
            rounded = tl.floor(grown + 0.5) if ROUNDING == "int8" else _round_to_e4m3(grown)
            rounded = tl.minimum(tl.maximum(rounded, -limit), limit)
            tl.store(target + at, rounded.to(pool.dtype.element_ty), mask=(at >= 0) & is_token)
            tl.store(scales + block_at // 4 + position % PAGE, largest / limit + broken, mask=is_token)
        if head < HEADS + KV_HEADS:
            k_out_at = k_out + (row * KV_HEADS + head - HEADS) * WIDTH
            tl.store(k_out_at + at, value.to(k_out.dtype.element_ty))
