"""Triton: products of a few rows with a weight, the inputs shared out over programs that leave partial sums.

For 1 to 16 rows a product is one pass over the weight. Where there are few output features, one program a tile of them
leaves most of the chip idle; so the inputs are cut into parts too. The partial sums stay in FP32 and are added, in
one order, by the kernel that takes the product to the residual (`rmsnorm.triton_norm.add_norm`): no pass of its own,
and the same bits in every run, whatever the batch beside a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST_ROWS = 16
"""Columns of one matrix instruction, twice."""


@dataclass(frozen=True, slots=True)
class RowTiles:
    """How a product is cut: output features and inputs of one tile, parts of the inputs, tiles in flight, warps."""

    outputs: int = 32
    inputs: int = 256
    parts: int = 4
    stages: int = 3
    warps: int = 4


def multiply_parts(x: Tensor, weight: Tensor, tiles: RowTiles) -> Tensor:
    """x [B, K] times weight [N, K] transposed -> partial sums FP32 [parts, B, N]."""
    batch, width = x.shape
    features = weight.shape[0]
    assert batch <= MOST_ROWS
    assert weight.stride(1) == 1
    out = torch.empty(tiles.parts, batch, features, dtype=torch.float32, device=x.device)
    inputs = min(tiles.inputs, triton.next_power_of_2(width))
    share = triton.cdiv(triton.cdiv(width, inputs), tiles.parts) * inputs
    _rows[(triton.cdiv(features, tiles.outputs), tiles.parts)](
        x,
        x.stride(0),
        weight,
        weight.stride(0),
        out,
        batch,
        width,
        features,
        share,
        ROWS=8 if batch <= 8 else MOST_ROWS,
        OUTPUTS=tiles.outputs,
        INPUTS=inputs,
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
    out,
    batch,
    width,
    features,
    share,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    INPUTS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    part = tl.program_id(1)
    feature = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    row = tl.arange(0, ROWS)
    real, mine = row < batch, feature < features
    first = weight + feature.to(tl.int64)[:, None] * weight_stride
    total = tl.zeros([OUTPUTS, ROWS], tl.float32)
    for start in range(part * share, tl.minimum(part * share + share, width), INPUTS):
        at = start + tl.arange(0, INPUTS)
        inside = at < width
        w = tl.load(first + at[None, :], mask=mine[:, None] & inside[None, :], other=0.0)
        values = tl.load(x + row[None, :] * x_stride + at[:, None], mask=real[None, :] & inside[:, None], other=0.0)
        total = tl.dot(w, values, total, input_precision=PRECISION)
    place = out + (part * batch + row)[None, :] * features + feature[:, None]
    tl.store(place, total, mask=real[None, :] & mine[:, None])
