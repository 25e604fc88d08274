"""The dense MLP."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ninfer.kernels.linear import DenseWeight, add_linear_, linear
from ninfer.kernels.swiglu import swiglu_


@dataclass(frozen=True, slots=True)
class DenseMlp:
    """`gate_up` rows: gate, then up."""

    gate_up: DenseWeight
    down: DenseWeight

    def add_to_(self, x: Tensor, h: Tensor) -> None:
        """x [N, H] += down(silu(gate(h)) * up(h))."""
        add_linear_(x, swiglu_(linear(h, self.gate_up)), self.down)
