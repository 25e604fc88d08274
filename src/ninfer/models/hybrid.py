"""The text model: embedding, layer stack, final norm, head. One forward for decode batches and prefill chunks.

Knows the order of operations. Does not know which sequence a row belongs to, and computes no logits on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ninfer.config.geometry import ModelGeometry
from ninfer.kernels.linear import DenseWeight, linear
from ninfer.kernels.rmsnorm import RmsNorm, rmsnorm
from ninfer.kernels.rope import Rotary, RotaryTables, known_tables, rotary_tables

from .attention import Attention
from .gated_delta import GatedDelta
from .mlp import DenseMlp
from .moe import SparseMlp
from .passes import Memory, Pass


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer."""

    mixer: Attention | GatedDelta
    mlp: DenseMlp | SparseMlp
    mixer_norm: RmsNorm
    mlp_norm: RmsNorm

    def add_to_(self, x: Tensor, run: Pass, memory: Memory) -> None:
        """Advance the residual x [N, H] in place."""
        self.mixer.add_to_(x, rmsnorm(x, self.mixer_norm), run, memory)
        self.mlp.add_to_(x, rmsnorm(x, self.mlp_norm))


@dataclass(frozen=True, slots=True)
class HybridModel:
    """All weights of the text model. Matrices are in the model's format; what lies between them, the residual
    included, is in the activations' format: FP32, and FP64 where everything is FP64."""

    geometry: ModelGeometry
    activations: torch.dtype
    embedding: Tensor
    """[V, H]; with a tied head usually a view of the head's memory."""
    layers: Sequence[Layer]
    final_norm: RmsNorm
    head: DenseWeight
    rotary: Rotary

    def embed(self, token_ids: Tensor) -> Tensor:
        """int [N] -> a fresh residual [N, H]."""
        return self.embedding.index_select(0, token_ids.to(self.embedding.device)).to(self.activations)

    def rotary_tables(self, positions: Tensor) -> RotaryTables:
        """int [3, N] -> tables for one pass."""
        return rotary_tables(positions.to(self.rotary.axes.device), self.rotary)

    def step_rotary_tables(self, positions: Sequence[tuple[int, ...]]) -> RotaryTables:
        """N triples of plain numbers -> tables for a step; looked up where the axes are equal, as for text."""
        if all(time == height == width for time, height, width in positions):
            known = known_tables([time for time, _, _ in positions], self.rotary)
            if known is not None:
                return known
        return self.rotary_tables(torch.tensor(positions).t())

    def forward(
        self, x: Tensor, run: Pass, memory: Memory, on_layer: Callable[[int, Tensor], None] | None = None
    ) -> Tensor:
        """Residual x [N, H], consumed -> final-normed hidden rows [N, H]. `on_layer` sees x after each layer."""
        for index, layer in enumerate(self.layers):
            layer.add_to_(x, run, memory)
            if on_layer is not None:
                on_layer(index, x)
        return rmsnorm(x, self.final_norm)

    def logits(self, hidden: Tensor) -> Tensor:
        """Final-normed rows [N, H] -> [N, V]."""
        return linear(hidden, self.head)
