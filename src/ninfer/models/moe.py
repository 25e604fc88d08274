"""The sparse MLP: routed experts and the shared one that always runs."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ninfer.kernels.linear import DenseWeight, linear
from ninfer.kernels.moe import add_experts_, route
from ninfer.kernels.swiglu import swiglu_


@dataclass(frozen=True, slots=True)
class SparseMlp:
    """`router` rows: one per expert, then the shared expert's gate. `gate_up` [E, H, 2 * I], `down` [E, I, H]."""

    top_k: int
    router: DenseWeight
    gate_up: Tensor
    down: Tensor
    shared_gate_up: DenseWeight
    shared_down: DenseWeight

    def add_to_(self, x: Tensor, h: Tensor) -> None:
        """x [N, H] += routed experts + sigmoid(shared gate) * shared expert."""
        logits = linear(h, self.router)
        experts = self.gate_up.shape[0]
        weights, ids = route(logits[:, :experts], self.top_k)
        add_experts_(x, h, weights, ids, self.gate_up, self.down)
        shared = linear(swiglu_(linear(h, self.shared_gate_up)), self.shared_down)
        x.addcmul_(shared, logits[:, experts:].sigmoid())
