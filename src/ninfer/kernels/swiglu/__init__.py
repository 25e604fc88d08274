"""Operator `swiglu`: the gated activation between the two halves of a gate|up projection.

Formula: y = silu(g) * u with [g | u] = x along the last axis.
Shapes: x [N, 2 * I] -> y [N, I]. Dtypes: the activations' format (FP32, FP64).
State written: none. Aliasing: x is consumed; y is a strided view of its memory.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import silu


def swiglu_(gate_up: Tensor) -> Tensor:
    """[N, 2 * I] -> [N, I], in the memory of the gate half."""
    gate, up = gate_up.chunk(2, -1)
    return silu(gate, inplace=True).mul_(up)
