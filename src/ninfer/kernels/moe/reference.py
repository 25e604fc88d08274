"""The judge of `moe`: one token, one expert at a time, in float64."""

from __future__ import annotations

import torch
from torch import Tensor


def experts(h: Tensor, logits: Tensor, top_k: int, gate_up: Tensor, down: Tensor) -> Tensor:
    """h [N, H], logits [N, E], gate_up [E, H, 2 * I], down [E, I, H] -> [N, H] in float64."""
    inner = down.shape[1]
    out = torch.zeros(h.shape, dtype=torch.float64)
    for n in range(h.shape[0]):
        exps = [float(value) for value in (logits[n].double() - logits[n].double().max()).exp()]
        chosen = sorted(range(len(exps)), key=lambda e: -exps[e])[:top_k]
        for e in chosen:
            both = h[n].double() @ gate_up[e].double()
            gate, up = both[:inner], both[inner:]
            share = exps[e] / sum(exps[i] for i in chosen)
            out[n] += share * ((gate / (1 + torch.exp(-gate)) * up) @ down[e].double())
    return out
