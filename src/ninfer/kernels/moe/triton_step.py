"""Triton: which experts a row takes, and the weighted sum of what they gave, for the route of many tokens."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def choose_experts(logits: Tensor, experts: int, top_k: int) -> tuple[Tensor, Tensor]:
    """logits [B, >= experts] -> (weights FP32 [B, top_k] with sum 1, ids int32 [B, top_k]); lower id among equals."""
    batch = logits.shape[0]
    weights = torch.empty(batch, top_k, dtype=torch.float32, device=logits.device)
    ids = torch.empty(batch, top_k, dtype=torch.int32, device=logits.device)
    _choose[(batch,)](
        logits, logits.stride(0), weights, ids, experts, TOP_K=top_k, BLOCK=triton.next_power_of_2(experts), num_warps=1
    )
    return weights, ids


@triton.jit
def _choose(logits, stride, weights, ids, experts, TOP_K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    expert = tl.arange(0, BLOCK)
    value = tl.load(logits + row * stride + expert, mask=expert < experts, other=float("-inf")).to(tl.float32)
    best = tl.max(value, 0)
    total = 0.0
    left = value
    for _ in tl.static_range(TOP_K):
        largest = tl.max(left, 0)
        total += tl.exp(largest - best)
        left = tl.where(expert == tl.argmax(left, 0), float("-inf"), left)
    left = value
    for i in tl.static_range(TOP_K):
        chosen = tl.argmax(left, 0)
        tl.store(weights + row * TOP_K + i, tl.exp(tl.max(left, 0) - best) / total)
        tl.store(ids + row * TOP_K + i, chosen.to(tl.int32))
        left = tl.where(expert == chosen, float("-inf"), left)


def gather_experts(rows: Tensor, places: Tensor, weights: Tensor, shared: Tensor, shared_gate: Tensor) -> Tensor:
    """rows [N * top_k, H] of experts in any order; places int64 [N, top_k]: where a token's are; weights [N, top_k].

    -> FP32 [N, H]: weighted sum + sigmoid(shared_gate [N, 1]) * shared [N, H].
    """
    tokens, top_k = places.shape
    hidden = rows.shape[1]
    out = torch.empty(tokens, hidden, dtype=torch.float32, device=rows.device)
    block = min(triton.next_power_of_2(hidden), 1024)
    _gather_experts[(tokens, triton.cdiv(hidden, block))](
        rows,
        places,
        weights,
        shared,
        shared_gate,
        shared_gate.stride(0),
        out,
        hidden,
        TOP_K=top_k,
        BLOCK=block,
        num_warps=4,
    )
    return out


@triton.jit
def _gather_experts(
    rows, places, weights, shared, gate, gate_stride, out, hidden, TOP_K: tl.constexpr, BLOCK: tl.constexpr
):
    token = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = at < hidden
    share = tl.load(gate + token * gate_stride).to(tl.float32)
    total = tl.load(shared + token * hidden + at, mask=live, other=0.0).to(tl.float32) / (1.0 + tl.exp(-share))
    for i in tl.static_range(TOP_K):
        place = tl.load(places + token * TOP_K + i)
        row = tl.load(rows + place * hidden + at, mask=live, other=0.0).to(tl.float32)
        total += row * tl.load(weights + token * TOP_K + i)
    tl.store(out + token * hidden + at, total, mask=live)
