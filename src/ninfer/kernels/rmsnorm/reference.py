"""The judge of `rmsnorm`: one row at a time, in float64."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def rmsnorm(x: Tensor, multiplier: Tensor, eps: float) -> Tensor:
    """x [N, D], multiplier [D] -> [N, D] in float64."""
    out = torch.empty(x.shape, dtype=torch.float64)
    for n, row in enumerate(x.double()):
        mean_square = sum(float(value) ** 2 for value in row) / len(row)
        for d, value in enumerate(row):
            out[n, d] = float(value) / math.sqrt(mean_square + eps) * float(multiplier[d])
    return out


def rmsnorm_gated(x: Tensor, z: Tensor, multiplier: Tensor, eps: float) -> Tensor:
    """x, z [N, D] -> [N, D] in float64."""
    gate = z.double()
    return rmsnorm(x, multiplier, eps) * gate / (1 + torch.exp(-gate))
