"""From convolved q|k|v channels and raw b, a to the inputs of the delta rule."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import rms_norm, softplus

_UNIT_EPS = 1e-6


@dataclass(frozen=True, slots=True)
class DeltaInputs:
    """q, k [N, Hk, Dk], v [N, Hv, Dv], log_decay, beta [N, Hv]."""

    q: Tensor
    k: Tensor
    v: Tensor
    log_decay: Tensor
    beta: Tensor


def unit_scales(key_heads: int, key_dim: int, dtype: torch.dtype) -> Tensor:
    """[2 * Hk, 1]: what turns a root-mean-square norm into q = unit(q) / sqrt(Dk) and k = unit(k)."""
    scales = torch.empty(2 * key_heads, 1, dtype=dtype)
    scales[:key_heads] = 1.0 / key_dim
    scales[key_heads:] = key_dim**-0.5
    return scales


def delta_inputs(
    mixed: Tensor, b: Tensor, a: Tensor, decay_rate: Tensor, dt_bias: Tensor, scales: Tensor, key_dim: int
) -> DeltaInputs:
    """mixed [N, 2 * Hk * Dk + Hv * Dv], b, a [N, Hv], decay_rate = -exp(A_log) [Hv]; scales of `unit_scales`.

    unit(x) is a root-mean-square norm with eps / Dk, divided by sqrt(Dk).
    """
    rows, heads2 = mixed.shape[0], scales.shape[0]
    qk = mixed[:, : heads2 * key_dim].view(rows, heads2, key_dim)
    qk = rms_norm(qk, (key_dim,), None, _UNIT_EPS / key_dim).mul_(scales)
    v = mixed[:, heads2 * key_dim :].view(rows, decay_rate.shape[0], -1)
    log_decay = softplus(a.to(mixed.dtype) + dt_bias).mul_(decay_rate)
    return DeltaInputs(qk[:, : heads2 // 2], qk[:, heads2 // 2 :], v, log_decay, b.to(mixed.dtype).sigmoid())
