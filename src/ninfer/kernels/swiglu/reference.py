"""The judge of `swiglu`: one element at a time."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def swiglu(gate_up: Tensor) -> Tensor:
    """[N, 2 * I] -> [N, I] in float64."""
    rows, inner = gate_up.shape[0], gate_up.shape[1] // 2
    out = torch.empty(rows, inner, dtype=torch.float64)
    for n in range(rows):
        for i in range(inner):
            gate, up = float(gate_up[n, i]), float(gate_up[n, inner + i])
            out[n, i] = gate / (1 + math.exp(-gate)) * up
    return out
