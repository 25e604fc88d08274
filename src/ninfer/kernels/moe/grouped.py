"""The route of `moe` for many tokens on a GPU: rows grouped by expert, two grouped products, nothing read back."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ninfer.kernels.swiglu.triton_swiglu import swiglu

from .triton_group import group_pairs
from .triton_step import choose_experts, gather_experts

grouped_mm = getattr(functional, "grouped_mm", None) or torch._grouped_mm
"""Rows of x [M, K] in groups that end at `offs`, each times its own matrix of [E, K, N]."""


def run_grouped(
    h: Tensor, logits: Tensor, top_k: int, gate_up: Tensor, down: Tensor, shared: Tensor, shared_gate: Tensor
) -> Tensor:
    """h [N, H] BF16, logits [N, >= E] -> FP32 [N, H]: routed experts + sigmoid(shared_gate) * shared."""
    weights, ids = choose_experts(logits, gate_up.shape[0], top_k)
    tokens, places, ends = group_pairs(ids, gate_up.shape[0])
    middle = swiglu(grouped_mm(h.index_select(0, tokens), gate_up, offs=ends))
    rows = grouped_mm(middle, down, offs=ends)
    return gather_experts(rows, places, weights, shared, shared_gate)
