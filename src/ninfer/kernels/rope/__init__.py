"""Operator `rope`: partial rotary embedding with three interleaved position axes (MRoPE).

Formula: frequency pair p turns dimensions p and p + R/2 of every head by angle position[axis(p)] * theta^(-2p/R);
axis(p) is 1 (height) for p = 1, 4, .. below 3 * sections[1], 2 (width) for p = 2, 5, .. below 3 * sections[2],
else 0 (time). Dimensions R and above pass. Positions are given explicitly, never derived from a length.
Shapes: positions int [3, N]; x [N, heads, D]; tables cos, sin [N, 1, R].
Dtypes: x and tables in the activations' format (FP32, FP64).
State written: none. Aliasing: `rotate_` writes x in place; x may be a strided view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class RotaryTables:
    """cos and signed sin of one pass, [N, 1, R]; the first half of `sin` is negated, so that a roll replaces a sign."""

    cos: Tensor
    sin: Tensor


@dataclass(frozen=True, slots=True)
class Rotary:
    """Constants of one model: `frequencies` [R/2] in the tables' dtype, `axes` int64 [R/2].

    `known`: the tables of positions 0 .. P - 1 with three equal axes, as text has them.
    """

    frequencies: Tensor
    axes: Tensor
    known: RotaryTables


def build_rotary(
    theta: float, width: int, sections: tuple[int, int, int], dtype: torch.dtype, known_positions: int = 0
) -> Rotary:
    """Constants for R = `width` turning dimensions, with tables of the first `known_positions` positions."""
    pairs = torch.arange(0, width, 2, dtype=dtype)
    axes = torch.zeros(width // 2, dtype=torch.long)
    axes[1 : 3 * sections[1] : 3] = 1
    axes[2 : 3 * sections[2] : 3] = 2
    frequencies = 1.0 / theta ** (pairs / width)
    return Rotary(frequencies, axes, _tables(torch.arange(known_positions).expand(3, -1), frequencies, axes))


def rotary_tables(positions: Tensor, rotary: Rotary) -> RotaryTables:
    """Tables for positions int [3, N]."""
    return _tables(positions, rotary.frequencies, rotary.axes)


def known_tables(positions: Sequence[int], rotary: Rotary) -> RotaryTables | None:
    """The same for N plain numbers, each the position on all three axes; None when one of them is not known."""
    cos, sin = rotary.known.cos, rotary.known.sin
    if max(positions) >= cos.shape[0]:
        return None
    if len(positions) == 1:
        return RotaryTables(cos[positions[0] : positions[0] + 1], sin[positions[0] : positions[0] + 1])
    rows = torch.tensor(positions, device=cos.device)
    return RotaryTables(cos.index_select(0, rows), sin.index_select(0, rows))


def _tables(positions: Tensor, frequencies: Tensor, axes: Tensor) -> RotaryTables:
    angles = positions.index_select(0, axes).t().to(frequencies.dtype) * frequencies
    cos, sin = angles.cos(), angles.sin()
    return RotaryTables(torch.cat([cos, cos], -1).unsqueeze_(1), torch.cat([-sin, sin], -1).unsqueeze_(1))


def rotate_(x: Tensor, tables: RotaryTables) -> Tensor:
    """Turn the first R dimensions of x [N, heads, D] in place."""
    width = tables.cos.shape[-1]
    turning = x[..., :width]
    swapped = turning.roll(width // 2, -1)
    turning.mul_(tables.cos).addcmul_(swapped, tables.sin)
    return x
