"""The full-attention mixer: projections, head norms, rotation, paged attention, output gate."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ninfer.config.geometry import AttentionGeometry
from ninfer.kernels.linear import DenseWeight, add_linear_, linear
from ninfer.kernels.paged_attention import attend_decode, attend_prefill
from ninfer.kernels.rmsnorm import RmsNorm, rmsnorm
from ninfer.kernels.rope import rotate_

from .passes import Memory, Pass, PrefillPass


@dataclass(frozen=True, slots=True)
class Attention:
    """Weights of one layer; `layer` is its index among the layers of its KV pool.

    `in_proj` rows: all query heads, all key heads, all value heads, all gate heads (a checkpoint has query and gate
    rows interleaved per head). `qk_norm`: over [heads + kv_heads, D].
    """

    geometry: AttentionGeometry
    layer: int
    in_proj: DenseWeight
    out_proj: DenseWeight
    qk_norm: RmsNorm

    def add_to_(self, x: Tensor, h: Tensor, run: Pass, memory: Memory) -> None:
        """x [N, H] += mixer(h [N, H]); keys and values of the N tokens go to their pages."""
        rows, shape = h.shape[0], self.geometry
        turning = shape.heads + shape.kv_heads
        y = linear(h, self.in_proj).view(rows, -1, shape.head_dim)
        qk = rotate_(rmsnorm(y[:, :turning], self.qk_norm), run.rotary)
        q, k, v = qk[:, : shape.heads], qk[:, shape.heads :], y[:, turning : turning + shape.kv_heads]
        if isinstance(run, PrefillPass):
            out = attend_prefill(q, k, v, memory.kv, self.layer, run.pages)
        else:
            out = attend_decode(q, k, v, memory.kv, self.layer, run.pages)
        gated = out.mul_(y[:, turning + shape.kv_heads :].sigmoid())
        add_linear_(x, gated.view(rows, -1), self.out_proj)
