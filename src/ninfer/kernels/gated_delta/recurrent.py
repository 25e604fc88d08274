"""One token of each of B sequences: the rule as written, batched over rows and heads."""

from __future__ import annotations

import torch
from torch import Tensor

from ninfer.kernels.slots import StepSlots, load_rows, store_rows

from .inputs import DeltaInputs


def delta_step(inputs: DeltaInputs, states: Tensor, slots: StepSlots) -> Tensor:
    """-> o [B, Hv, Dv]."""
    rows, heads, value_dim = inputs.v.shape
    key_dim, group = inputs.k.shape[-1], heads // inputs.k.shape[1]
    q, k = inputs.q, inputs.k
    if group > 1:
        q, k = q.repeat_interleave(group, 1), k.repeat_interleave(group, 1)
    kept = load_rows(states, slots)
    now = kept.view(rows * heads, key_dim, value_dim)
    k = k.reshape(rows * heads, 1, key_dim)
    now.mul_(inputs.log_decay.exp().view(-1, 1, 1))
    error = torch.baddbmm(inputs.v.reshape(-1, 1, value_dim), k, now, alpha=-1)
    error.mul_(inputs.beta.reshape(-1, 1, 1))
    now.baddbmm_(k.transpose(1, 2), error)
    store_rows(states, slots, kept)
    scaled = torch.baddbmm(error, q.reshape(rows * heads, 1, key_dim), now, beta=0, alpha=key_dim**-0.5)
    return scaled.view(rows, heads, value_dim)
