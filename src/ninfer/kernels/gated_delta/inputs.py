"""From convolved q|k|v channels and raw b, a to the inputs of the delta rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import softplus

_UNIT_EPS = 1e-6


@dataclass(frozen=True, slots=True)
class DeltaInputs:
    """q, k [N, Hk, Dk], v [N, Hv, Dv], log_decay, beta [N, Hv]."""

    q: Tensor
    k: Tensor
    v: Tensor
    log_decay: Tensor
    beta: Tensor


def delta_inputs(
    mixed: Tensor, b: Tensor, a: Tensor, decay_rate: Tensor, dt_bias: Tensor, key_heads: int, key_dim: int
) -> DeltaInputs:
    """mixed [N, 2 * Hk * Dk + Hv * Dv], b, a [N, Hv], decay_rate = -exp(A_log) [Hv], dt_bias [Hv]."""
    rows, width = mixed.shape[0], 2 * key_heads * key_dim
    qk = mixed[:, :width].view(rows, 2 * key_heads, key_dim)
    qk = qk / torch.hypot(torch.linalg.vector_norm(qk, 2, -1, True), _unit_floor(mixed.dtype, mixed.device))
    v = mixed[:, width:].view(rows, decay_rate.shape[0], -1)
    log_decay = softplus(a + dt_bias).mul_(decay_rate)
    return DeltaInputs(qk[:, :key_heads], qk[:, key_heads:], v, log_decay, b.sigmoid())


@cache
def _unit_floor(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(math.sqrt(_UNIT_EPS), dtype=dtype, device=device)
