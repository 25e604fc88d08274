"""The judge of `gated_delta`: one token, one head at a time, in float64."""

from __future__ import annotations

import torch
from torch import Tensor


def delta_rule(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """One sequence of T tokens from `state` [Hv, Dk, Dv] -> (o [T, Hv, Dv], the T states after each token)."""
    group = v.shape[1] // k.shape[1]
    out = torch.empty(v.shape, dtype=torch.float64)
    now = state.double().clone()
    states = []
    for t in range(v.shape[0]):
        for head in range(v.shape[1]):
            key, query = k[t, head // group].double(), q[t, head // group].double()
            now[head] = now[head] * log_decay[t, head].double().exp()
            error = beta[t, head].double() * (v[t, head].double() - now[head].T @ key)
            now[head] = now[head] + torch.outer(key, error)
            out[t, head] = now[head].T @ query / len(key) ** 0.5
        states.append(now.clone())
    return out, states


def delta_inputs(
    mixed: Tensor, b: Tensor, a: Tensor, a_log: Tensor, dt_bias: Tensor, key_heads: int, key_dim: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(q, k, v, log_decay, beta) of the raw projections, in float64."""
    rows, width = mixed.shape[0], key_heads * key_dim
    wide = mixed.double()
    q, k = wide[:, :width].view(rows, key_heads, -1), wide[:, width : 2 * width].view(rows, key_heads, -1)
    q = q / (q.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    k = k / (k.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    v = wide[:, 2 * width :].view(rows, len(a_log), -1)
    log_decay = -a_log.double().exp() * torch.log1p((a.double() + dt_bias.double()).exp())
    return q, k, v, log_decay, 1 / (1 + (-b.double()).exp())
