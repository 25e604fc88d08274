"""Triton routes of `rmsnorm`: residual update and norm in one pass; the gated norm of many short rows.

Rows come in as they are stored; arithmetic is FP32; the result is rounded once to the format of `out`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ninfer.kernels.span import SpanNumbers

from . import RmsNorm


def add_norm(x: Tensor, delta: Tensor | None, norm: RmsNorm, out_dtype: torch.dtype) -> Tensor:
    """x FP32 [N, D] += delta, in place; then the norm of x -> fresh [N, D] of `out_dtype`.

    delta [N, D] in any format, or partial sums [parts, N, D] that are added in their order.
    """
    rows, width = x.shape
    out = torch.empty(rows, width, dtype=out_dtype, device=x.device)
    block = triton.next_power_of_2(width)
    given = x if delta is None else delta
    _add_norm[(rows,)](
        x,
        given,
        out,
        norm.scaled,
        norm.floor,
        width,
        given.stride(-2),
        given.stride(0),
        PARTS=0 if delta is None else 1 if delta.dim() == 2 else delta.shape[0],
        BLOCK=block,
        num_warps=min(max(block // 512, 1), 16),
    )
    return out


def norm_gated(x: Tensor, z: Tensor, norm: RmsNorm, out_dtype: torch.dtype, span: SpanNumbers | None = None) -> Tensor:
    """x [N, heads, D], z [N, heads * D] with any row stride -> norm(x) * silu(z), [N, heads * D].

    `span`: zeros in the rows that are not among its tokens, whatever x has there.
    """
    rows, heads, width = x.shape
    out = torch.empty(rows, heads * width, dtype=out_dtype, device=x.device)
    tile = 16
    _norm_gated[(triton.cdiv(rows * heads, tile),)](
        x, z, out, norm.scaled, norm.floor, rows * heads, heads, z.stride(0), x if span is None else span.head,
        IS_SPAN=span is not None, WIDTH=width, TILE=tile, num_warps=4,
    )  # fmt: skip
    return out


@triton.jit
def _add_norm(x, delta, out, scaled, floor, width, delta_stride, part_stride, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    live = at < width
    value = tl.load(x + row * width + at, mask=live, other=0.0)
    if PARTS > 0:
        for part in tl.static_range(PARTS):
            place = delta + part * part_stride + row * delta_stride + at
            value += tl.load(place, mask=live, other=0.0).to(tl.float32)
        tl.store(x + row * width + at, value, mask=live)
    least = tl.load(floor)
    scale = 1.0 / tl.sqrt(tl.sum(value * value, 0) + least * least)
    normed = value * scale * tl.load(scaled + at, mask=live, other=0.0)
    tl.store(out + row * width + at, normed.to(out.dtype.element_ty), mask=live)


@triton.jit(do_not_specialize=["count"])
def _norm_gated(
    x, z, out, scaled, floor, count, heads, z_stride, span, IS_SPAN: tl.constexpr, WIDTH: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    at = tl.arange(0, WIDTH)
    live = (row < count)[:, None]
    known = live
    if IS_SPAN:
        known = live & (row < tl.load(span).to(tl.int64) * heads)[:, None]
    flat = row[:, None] * WIDTH + at[None, :]
    value = tl.load(x + flat, mask=known, other=0.0).to(tl.float32)
    token, head = row // heads, row % heads
    gate = tl.load(z + token[:, None] * z_stride + head[:, None] * WIDTH + at[None, :], mask=live, other=0.0)
    gate = gate.to(tl.float32)
    least = tl.load(floor)
    scale = 1.0 / tl.sqrt(tl.sum(value * value, 1) + least * least)
    normed = value * scale[:, None] * tl.load(scaled + at)[None, :]
    tl.store(out + flat, (normed * gate / (1.0 + tl.exp(-gate))).to(out.dtype.element_ty), mask=live)
