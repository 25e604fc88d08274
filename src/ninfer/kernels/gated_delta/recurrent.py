"""One token of each of B sequences: the rule as written, batched over rows and heads."""

from __future__ import annotations

import torch
from torch import Tensor

from .inputs import DeltaInputs


def delta_step(inputs: DeltaInputs, states: Tensor, read_slots: Tensor, write_slots: Tensor) -> Tensor:
    """-> o [B, Hv, Dv]. Slots are int64 [B]."""
    rows, heads, value_dim = inputs.v.shape
    key_dim, group = inputs.k.shape[-1], heads // inputs.k.shape[1]
    q, k = inputs.q, inputs.k
    if group > 1:
        q, k = q.repeat_interleave(group, 1), k.repeat_interleave(group, 1)
    k = k.reshape(rows * heads, key_dim, 1)
    now = states.index_select(0, read_slots).view(rows * heads, key_dim, value_dim)
    now.mul_(inputs.log_decay.exp().view(-1, 1, 1))
    error = torch.baddbmm(inputs.v.reshape(-1, 1, value_dim), k.transpose(1, 2), now, alpha=-1)
    error.mul_(inputs.beta.reshape(-1, 1, 1))
    now.baddbmm_(k, error)
    states.index_copy_(0, write_slots, now.view(rows, heads, key_dim, value_dim))
    return torch.bmm(q.reshape(rows * heads, 1, key_dim), now).view(rows, heads, value_dim)
