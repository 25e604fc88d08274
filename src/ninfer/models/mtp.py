"""The MTP layer: one full-attention layer with its own KV pool that predicts the token after the next.

Entry t is computed from the hidden row of position t and the token at t + 1, at position t: the fused projection
takes the embedding half first, and the rotary position is that of the hidden row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ninfer.kernels.linear import DenseWeight, linear
from ninfer.kernels.rmsnorm import RmsNorm, rmsnorm

from .hybrid import Layer
from .passes import Memory, Pass


@dataclass(frozen=True, slots=True)
class MtpModel:
    """Weights under `mtp.`; embedding and head are the target's."""

    fuse: DenseWeight
    embedding_norm: RmsNorm
    hidden_norm: RmsNorm
    layer: Layer
    final_norm: RmsNorm

    def forward(self, embedded: Tensor, hidden: Tensor, run: Pass, memory: Memory) -> Tensor:
        """embedded [N, H]: of the next tokens; hidden [N, H]: final-normed rows, the target's or of the last draft.

        -> rows [N, H] for the target's head, and for the next draft. `memory.kv` is the MTP pool; no state is read
        or written.
        """
        e = rmsnorm(embedded, self.embedding_norm)
        h = rmsnorm(hidden, self.hidden_norm)
        x = linear(torch.cat([e, h], -1), self.fuse)
        self.layer.add_to_(x, run, memory)
        return rmsnorm(x, self.final_norm)
