"""Triton: the inverse of I + A for strictly lower A, the heart of a chunk of the scan. Three ways, one chosen by table.

The systems of the scan are A[i, j] = beta_i (k_i . k_j) decay with |k| <= 1, beta and decay in [0, 1]. Their inverses
have entries of at most 1, and what lies between is not much larger: FP16 numbers reach, and two of them give 22 bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

CHOSEN: dict[torch.dtype, str] = {torch.float32: "rows", torch.float16: "rows", torch.bfloat16: "halves"}
"""By the format of the keys. "rows": forward substitution in FP32, one row after the other. "halves": blocks of twice
the size at a time, each product three FP16 ones. "half": the same with single FP16 products (11 bits)."""


def choose_inversion(keys: torch.dtype) -> str:
    """The way for keys of this format."""
    return CHOSEN[keys]


def invert_systems(systems: Tensor, way: str) -> Tensor:
    """FP32 [N, 64, 64], strictly lower -> (I + A)^-1 of each: the helper alone, for tests and measurements."""
    count, side, _ = systems.shape
    out = torch.empty_like(systems)
    _invert_each[(count,)](systems, out, SIDE=side, WAY=way, num_warps=4)
    return out


@triton.jit
def invert_unit_lower(system, SIDE: tl.constexpr, WAY: tl.constexpr):
    """FP32 [SIDE, SIDE], zero on and above the diagonal -> (I + A)^-1."""
    inside = tl.arange(0, SIDE)
    one = tl.where(inside[:, None] == inside[None, :], 1.0, 0.0)
    if WAY == "rows":
        inverse = -system
        for i in range(1, SIDE):
            row = tl.sum(tl.where((inside == i)[:, None], inverse, 0.0), 0)
            row = row + tl.sum(row[:, None] * inverse, 0)
            inverse = tl.where((inside == i)[:, None], row[None, :], inverse)
        inverse += one
    else:
        # [[P, 0], [Q, R]]^-1 = [[P', 0], [-R' Q P', R']] with P', R' the inverses; a block of two is its own I - A
        apart = inside[:, None] ^ inside[None, :]  # less than a side: in one block of that side
        inverse = one - tl.where(apart < 2, system, 0.0)
        for level in range(1, SIDE.bit_length() - 1):
            between = tl.where(apart >> level == 1, system, 0.0)  # sides of 2^level inside blocks of twice that
            inverse -= _multiply(_multiply(inverse, between, WAY), inverse, WAY)
    return inverse


@triton.jit
def _multiply(x, y, WAY: tl.constexpr):
    """FP32 products from FP16 ones. What is left out of "halves" is 2^-22 of the factors."""
    x_high, y_high = x.to(tl.float16), y.to(tl.float16)
    product = tl.dot(x_high, y_high)
    if WAY == "halves":
        x_low = (x - x_high.to(tl.float32)).to(tl.float16)
        y_low = (y - y_high.to(tl.float32)).to(tl.float16)
        product = tl.dot(x_low, y_high, product)
        product = tl.dot(x_high, y_low, product)
    return product


@triton.jit
def _invert_each(systems, out, SIDE: tl.constexpr, WAY: tl.constexpr):
    inside = tl.arange(0, SIDE)
    place = tl.program_id(0).to(tl.int64) * SIDE * SIDE + inside[:, None] * SIDE + inside[None, :]
    tl.store(out + place, invert_unit_lower(tl.load(systems + place), SIDE, WAY))
