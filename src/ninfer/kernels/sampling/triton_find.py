"""Triton: where a running sum over a row first passes a mark, without the running sum.

Each number counts as a whole number of units of 2^-61, rounded up, so that what is possible at all counts and sums are
exact in any order: block sums first, then the prefix inside the one block that holds the place. The same row gives the
same place in every batch and on every device.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 2048
_UNITS = 2.0**61
"""Of a one. Probabilities of a row sum to little more than one, so their sum stays below 2^62."""


def find_mass(values: Tensor, floor: Tensor, edge: Tensor, mark: Tensor) -> Tensor:
    """values [B, V] -> int64 [B]: the first index whose sum exceeds mark * (sum of all).

    Counted are values above `floor` [B], and those equal to it at an index up to `edge` [B]. mark FP64 [B], below 1.
    """
    return _find(values, floor, edge, mark, kind="mass")


def find_head(values: Tensor, counted: Tensor, share: Tensor) -> Tensor:
    """values [B, V], larger ones first -> int64 [B]: how many leading values it takes until their sum reaches share *
    (sum of the first `counted` [B]). share FP64 [B]; with 1 or more: `counted`."""
    place = _find(values, share, counted, share.clamp(max=1.0), kind="head")
    return torch.where(share < 1, torch.minimum(place + 1, counted), counted)


def find_equal(values: Tensor, floor: Tensor, number: Tensor) -> Tensor:
    """values [B, V] -> int64 [B]: the index of the number-th (from one) value that equals `floor` [B]."""
    return _find(values, floor, number, floor.double(), kind="equal")


def _find(values: Tensor, floor: Tensor, edge: Tensor, mark: Tensor, *, kind: str) -> Tensor:
    batch, count = values.shape
    blocks = triton.cdiv(count, _BLOCK)
    sums = torch.empty(batch, blocks, dtype=torch.int64, device=values.device)
    place = torch.empty(batch, dtype=torch.int64, device=values.device)
    given = (values, values.stride(0), floor.contiguous(), edge.contiguous())
    _sum_blocks[(batch, blocks)](*given, sums, count, blocks, KIND=kind, BLOCK=_BLOCK, UNITS=_UNITS, num_warps=4)
    _find_place[(batch,)](
        *given, mark.contiguous(), sums, place, count, blocks, KIND=kind, BLOCK=_BLOCK,
        BLOCKS=triton.next_power_of_2(blocks), UNITS=_UNITS, num_warps=4,
    )  # fmt: skip
    return place


@triton.jit
def _units(
    values, row, start, stride, floor, edge, count, KIND: tl.constexpr, BLOCK: tl.constexpr, UNITS: tl.constexpr
):
    """int64 [BLOCK] from `start`."""
    at = start + tl.arange(0, BLOCK)
    value = tl.load(values + row.to(tl.int64) * stride + at, mask=at < count, other=0.0)
    if KIND == "head":
        counts = at < tl.load(edge + row)
    else:
        least = tl.load(floor + row)
        if KIND == "equal":
            counts = (value == least) & (at < count)
        else:
            counts = (value > least) | ((value == least) & (at <= tl.load(edge + row)))
    if KIND == "equal":
        return counts.to(tl.int64)
    return tl.where(counts, tl.ceil(value.to(tl.float64) * UNITS), 0.0).to(tl.int64)


@triton.jit
def _sum_blocks(
    values, stride, floor, edge, sums, count, blocks, KIND: tl.constexpr, BLOCK: tl.constexpr, UNITS: tl.constexpr
):
    row, block = tl.program_id(0), tl.program_id(1)
    units = _units(values, row, block * BLOCK, stride, floor, edge, count, KIND, BLOCK, UNITS)
    tl.store(sums + row * blocks + block, tl.sum(units, 0))


@triton.jit
def _find_place(
    values, stride, floor, edge, mark, sums, place, count, blocks, KIND: tl.constexpr, BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr, UNITS: tl.constexpr,
):  # fmt: skip
    row, number = tl.program_id(0), tl.arange(0, BLOCKS)
    each = tl.load(sums + row * blocks + number, mask=number < blocks, other=0)
    total, upto = tl.sum(each, 0), tl.cumsum(each, 0)
    if KIND == "equal":
        passed = tl.load(edge + row) - 1
    else:
        goal = tl.load(mark + row) * total.to(tl.float64)
        passed = goal.to(tl.int64)  # a sum exceeds the goal when it exceeds the whole number below
        if KIND == "head":
            passed = tl.ceil(goal).to(tl.int64) - 1  # and reaches it when it exceeds the one before
    passed = tl.maximum(tl.minimum(passed, total - 1), 0)
    block = tl.sum(((upto <= passed) & (number < blocks)).to(tl.int32), 0)
    block = tl.minimum(block, blocks - 1)
    before = tl.sum(tl.where(number < block, each, 0), 0)
    units = _units(values, row, block * BLOCK, stride, floor, edge, count, KIND, BLOCK, UNITS)
    inside = tl.sum((before + tl.cumsum(units, 0) <= passed).to(tl.int32), 0)
    tl.store(place + row, tl.minimum(block.to(tl.int64) * BLOCK + inside, count - 1))
