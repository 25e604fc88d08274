"""Operator `rope`: partial rotary embedding with three interleaved position axes (MRoPE).

Formula: frequency pair p turns dimensions p and p + R/2 of every head by angle position[axis(p)] * theta^(-2p/R);
axis(p) is 1 (height) for p = 1, 4, .. below 3 * sections[1], 2 (width) for p = 2, 5, .. below 3 * sections[2],
else 0 (time). Dimensions R and above pass. Positions are given explicitly, never derived from a length.
Shapes: positions int [3, N]; x [N, heads, D]; tables cos, sin [N, 1, R].
Dtypes: x and tables in the activations' format (FP32, FP64).
State written: none. Aliasing: `rotate_` writes x in place; x may be a strided view.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Rotary:
    """Constants of one model: `frequencies` [R/2] in the tables' dtype, `axes` int64 [R/2]."""

    frequencies: Tensor
    axes: Tensor


@dataclass(frozen=True, slots=True)
class RotaryTables:
    """cos and signed sin of one pass, [N, 1, R]; the first half of `sin` is negated, so that a roll replaces a sign."""

    cos: Tensor
    sin: Tensor


def build_rotary(theta: float, width: int, sections: tuple[int, int, int], dtype: torch.dtype) -> Rotary:
    """Constants for R = `width` turning dimensions."""
    pairs = torch.arange(0, width, 2, dtype=dtype)
    axes = torch.zeros(width // 2, dtype=torch.long)
    axes[1 : 3 * sections[1] : 3] = 1
    axes[2 : 3 * sections[2] : 3] = 2
    return Rotary(1.0 / theta ** (pairs / width), axes)


def rotary_tables(positions: Tensor, rotary: Rotary) -> RotaryTables:
    """Tables for positions int [3, N]."""
    angles = positions.index_select(0, rotary.axes).t().to(rotary.frequencies.dtype) * rotary.frequencies
    cos, sin = angles.cos(), angles.sin()
    return RotaryTables(torch.cat([cos, cos], -1).unsqueeze_(1), torch.cat([-sin, sin], -1).unsqueeze_(1))


def rotate_(x: Tensor, tables: RotaryTables) -> Tensor:
    """Turn the first R dimensions of x [N, heads, D] in place."""
    width = tables.cos.shape[-1]
    turning = x[..., :width]
    swapped = turning.roll(width // 2, -1)
    turning.mul_(tables.cos).addcmul_(swapped, tables.sin)
    return x
