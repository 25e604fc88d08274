"""Triton: products of a few rows with a BF16 weight, with what lies before and after them in the same kernel.

For 1 to 16 rows a product is one pass over the weight, and every kernel around it costs as much as a megabyte or two
of that pass. So the norm of the input goes into the product (the sum of squares is gathered while the row is read,
its root is applied to the result), SwiGLU and the addition to the residual to its end. Each output element is summed
by one program in one order: the same bits in every run, whatever the batch beside a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from ninfer.kernels.rmsnorm import RmsNorm

MOST_ROWS = 16
"""Columns of one matrix instruction."""


@dataclass(frozen=True, slots=True)
class RowTiles:
    """How a product is cut: output features and inputs of one tile, tiles in flight, warps."""

    outputs: int = 32
    inputs: int = 256
    stages: int = 4
    warps: int = 4


def multiply_rows(
    x: Tensor, weight: Tensor, norm: RmsNorm | None = None, out: Tensor | None = None, tiles: RowTiles | None = None
) -> Tensor:
    """x [B, K] -> [B, N] in the weight's format: (norm of) x times weight [N, K] transposed. With a norm x is FP32."""
    if out is None:
        out = torch.empty(x.shape[0], weight.shape[0], dtype=weight.dtype, device=x.device)
    _launch(x, weight, norm, out, tiles or RowTiles(), gated=False, add=False)
    return out


def multiply_rows_gated(x: Tensor, weight: Tensor, norm: RmsNorm | None, tiles: RowTiles | None = None) -> Tensor:
    """x [B, K], weight [2 * I, K] (gate, then up) -> silu(gate) * up, [B, I]."""
    out = torch.empty(x.shape[0], weight.shape[0] // 2, dtype=weight.dtype, device=x.device)
    _launch(x, weight, norm, out, tiles or RowTiles(outputs=16), gated=True, add=False)
    return out


def add_rows_(target: Tensor, x: Tensor, weight: Tensor, tiles: RowTiles | None = None) -> Tensor:
    """target FP32 [B, N] += x [B, K] times weight [N, K] transposed, in place."""
    return _launch(x, weight, None, target, tiles or RowTiles(outputs=16), gated=False, add=True)


def _launch(
    x: Tensor, weight: Tensor, norm: RmsNorm | None, out: Tensor, tiles: RowTiles, *, gated: bool, add: bool
) -> Tensor:
    batch, width = x.shape
    assert batch <= MOST_ROWS
    assert weight.stride(1) == 1
    features = out.shape[1]
    _rows[(triton.cdiv(features, tiles.outputs),)](
        x,
        x.stride(0),
        weight,
        weight.stride(0),
        x if norm is None else norm.scaled,
        x if norm is None else norm.floor,
        out,
        out.stride(0),
        batch,
        width,
        features,
        NORM=norm is not None,
        GATED=gated,
        ADD=add,
        ROWS=8 if batch <= 8 else MOST_ROWS,
        OUTPUTS=tiles.outputs,
        INPUTS=min(tiles.inputs, triton.next_power_of_2(width)),
        PRECISION="ieee" if weight.dtype == torch.float32 else "tf32",
        num_warps=tiles.warps,
        num_stages=tiles.stages,
    )
    return out


@triton.jit
def _rows(
    x,
    x_stride,
    weight,
    weight_stride,
    scaled,
    floor,
    out,
    out_stride,
    batch,
    width,
    features,
    NORM: tl.constexpr,
    GATED: tl.constexpr,
    ADD: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    INPUTS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    feature = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    row = tl.arange(0, ROWS)
    real, mine = row < batch, feature < features
    first = weight + feature.to(tl.int64)[:, None] * weight_stride
    total = tl.zeros([OUTPUTS, ROWS], tl.float32)
    other = tl.zeros([OUTPUTS, ROWS], tl.float32)
    squares = tl.zeros([ROWS], tl.float32)
    for start in range(0, width, INPUTS):
        at = start + tl.arange(0, INPUTS)
        inside = at < width
        w = tl.load(first + at[None, :], mask=mine[:, None] & inside[None, :], other=0.0)
        values = tl.load(x + row[None, :] * x_stride + at[:, None], mask=real[None, :] & inside[:, None], other=0.0)
        if NORM:
            squares += tl.sum(values * values, 0)
            values = values * tl.load(scaled + at, mask=inside, other=0.0)[:, None]
        values = values.to(w.dtype)
        total = tl.dot(w, values, total, input_precision=PRECISION)
        if GATED:
            w = tl.load(
                first + features.to(tl.int64) * weight_stride + at[None, :],
                mask=mine[:, None] & inside[None, :],
                other=0.0,
            )
            other = tl.dot(w, values, other, input_precision=PRECISION)
    if NORM:
        least = tl.load(floor)
        root = (1.0 / tl.sqrt(squares + least * least))[None, :]
        total = total * root
        other = other * root
    if GATED:
        total = total / (1.0 + tl.exp(-total)) * other
    place = out + row[None, :] * out_stride + feature[:, None]
    written = real[None, :] & mine[:, None]
    if ADD:
        total += tl.load(place, mask=written, other=0.0)
    tl.store(place, total.to(out.dtype.element_ty), mask=written)
