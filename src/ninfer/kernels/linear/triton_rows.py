"""Triton: products of a few rows with a BF16 weight, one pass over the weight.

Three forms. `multiply_rows` gives the product. `multiply_rows_gated` takes a gate|up weight and gives silu(gate) * up.
`multiply_parts` is for few output features, where one program a tile would leave most of the chip idle: the inputs are
cut into parts too, and the partial sums stay in FP32 until the kernel that takes the product to the residual adds them
in one order (`rmsnorm.triton_norm.add_norm`): no pass of its own, and the same bits in every run, whatever the batch
beside a row. Tiles were chosen by measurement (NOTES.md) and are not tuned at start-up.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST_ROWS = 16
"""Columns of one matrix instruction, twice."""
_OUTPUTS, _INPUTS, _STAGES = 64, 128, 4
_ENOUGH_PROGRAMS = 160
_LEAST_TILES = 4
"""Of the inputs in one part."""


def choose_parts(outputs: int, inputs: int) -> int:
    """Parts of the inputs: a power of two that gives the chip enough programs, as long as each has enough to read."""
    parts = 1
    while triton.cdiv(outputs, _OUTPUTS) * parts < _ENOUGH_PROGRAMS and inputs >= 2 * parts * _LEAST_TILES * _INPUTS:
        parts *= 2
    return parts


def multiply_rows(x: Tensor, weight: Tensor, out: Tensor | None = None) -> Tensor:
    """x [B, K] times weight [N, K] transposed -> [B, N] in the weight's format."""
    if out is None:
        out = x.new_empty(x.shape[0], weight.shape[0])
    _launch(x, weight, out, weight.shape[0], parts=1, gated=False)
    return out


def multiply_rows_gated(x: Tensor, weight: Tensor) -> Tensor:
    """x [B, K], weight [2 * I, K] (gate, then up) -> silu(gate) * up, [B, I]."""
    out = x.new_empty(x.shape[0], weight.shape[0] // 2)
    _launch(x, weight, out, weight.shape[0] // 2, parts=1, gated=True)
    return out


def multiply_parts(x: Tensor, weight: Tensor, parts: int | None = None) -> Tensor:
    """x [B, K] times weight [N, K] transposed -> partial sums FP32 [parts, B, N]."""
    features, width = weight.shape
    chosen = choose_parts(features, width) if parts is None else parts
    out = x.new_empty(chosen, x.shape[0], features, dtype=torch.float32)
    _launch(x, weight, out, features, parts=chosen, gated=False)
    return out


def _launch(x: Tensor, weight: Tensor, out: Tensor, features: int, *, parts: int, gated: bool) -> None:
    batch, width = x.shape
    assert batch <= MOST_ROWS
    assert weight.stride(1) == 1
    inputs = min(_INPUTS, triton.next_power_of_2(width))
    outputs = _OUTPUTS // 2 if gated else _OUTPUTS
    _rows[(triton.cdiv(features, outputs), parts)](
        x,
        x.stride(0),
        weight,
        weight.stride(0),
        out,
        out.stride(-2),
        batch,
        width,
        features,
        triton.cdiv(triton.cdiv(width, inputs), parts) * inputs,
        GATED=gated,
        ROWS=8 if batch <= 8 else MOST_ROWS,
        OUTPUTS=outputs,
        INPUTS=inputs,
        PRECISION="ieee" if weight.dtype == torch.float32 else "tf32",
        num_warps=4,
        num_stages=_STAGES,
    )


@triton.jit
def _rows(
    x,
    x_stride,
    weight,
    weight_stride,
    out,
    out_stride,
    batch,
    width,
    features,
    share,
    GATED: tl.constexpr,
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
    second = first + tl.cast(features, tl.int64) * weight_stride
    total = tl.zeros([OUTPUTS, ROWS], tl.float32)
    other = tl.zeros([OUTPUTS, ROWS], tl.float32)
    for start in range(part * share, tl.minimum(part * share + share, width), INPUTS):
        at = start + tl.arange(0, INPUTS)
        inside = at < width
        tile = mine[:, None] & inside[None, :]
        w = tl.load(first + at[None, :], mask=tile, other=0.0)
        values = tl.load(x + row[None, :] * x_stride + at[:, None], mask=real[None, :] & inside[:, None], other=0.0)
        total = tl.dot(w, values, total, input_precision=PRECISION)
        if GATED:
            w = tl.load(second + at[None, :], mask=tile, other=0.0)
            other = tl.dot(w, values, other, input_precision=PRECISION)
    if GATED:
        total = total / (1.0 + tl.exp(-total)) * other
    place = out + (part * batch + row)[None, :] * out_stride + feature[:, None]
    tl.store(place, total.to(out.dtype.element_ty), mask=real[None, :] & mine[:, None])
