"""Operator `moe`: routed experts of a sparse MLP.

Formula: p = softmax(router(h)) in FP32; (w, ids) = the top_k largest; w = w / sum(w);
y = sum_e w_e * down_e(silu(gate_e(h)) * up_e(h)). No bias, no groups, no capacity, nothing is dropped.
Shapes: h [N, H], logits [N, E], gate_up [E, H, 2 * I] (gate columns first), down [E, I, H], y [N, H].
Dtypes: h, routing weights and y in the activations' format (FP32, FP64); expert weights in the model's format, h and
the inner product are rounded to it.
State written: none. Aliasing: `add_experts_` adds into `target` in place; `target` is not h.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ninfer.kernels.swiglu import swiglu_


def route(logits: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """logits [N, E] -> (weights [N, top_k] with sum 1, expert ids int64 [N, top_k])."""
    weights, ids = logits.softmax(-1).topk(top_k, -1)
    return weights.div_(weights.sum(-1, keepdim=True)), ids


def add_experts_(target: Tensor, h: Tensor, weights: Tensor, ids: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """target [N, H] += the weighted experts of h. Tokens are grouped, each expert in use runs once."""
    top_k = ids.shape[1]
    order = ids.flatten().argsort(stable=True)
    tokens = order // top_k
    shares = weights.flatten()[order].unsqueeze(1)
    counts = ids.flatten().bincount(minlength=gate_up.shape[0]).tolist()
    rounded = h.to(gate_up.dtype)
    start = 0
    for expert, count in enumerate(counts):
        if count:
            mine = tokens[start : start + count]
            inner = swiglu_(torch.mm(rounded[mine], gate_up[expert]).to(h.dtype))
            out = torch.mm(inner.to(down.dtype), down[expert]).to(h.dtype)
            target.index_add_(0, mine, out.mul_(shares[start : start + count]))
            start += count
    return target
