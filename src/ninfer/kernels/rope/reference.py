"""The judge of `rope`: one frequency pair at a time."""

from __future__ import annotations

import math

from torch import Tensor


def rotate(x: Tensor, positions: Tensor, theta: float, width: int, sections: tuple[int, int, int]) -> Tensor:
    """x [N, heads, D], positions [3, N] -> rotated copy in float64."""
    out = x.double().clone()
    for n in range(x.shape[0]):
        for pair in range(width // 2):
            axis = 0
            if pair % 3 == 1 and pair < 3 * sections[1]:
                axis = 1
            if pair % 3 == 2 and pair < 3 * sections[2]:
                axis = 2
            angle = int(positions[axis, n]) * theta ** (-2 * pair / width)
            for head in range(x.shape[1]):
                low, high = float(x[n, head, pair]), float(x[n, head, pair + width // 2])
                out[n, head, pair] = low * math.cos(angle) - high * math.sin(angle)
                out[n, head, pair + width // 2] = high * math.cos(angle) + low * math.sin(angle)
    return out
