"""Triton route of `moe` for a few rows: choose experts, read each chosen expert once a row, sum in a fixed order.

A row's experts are read by themselves, whoever else uses them: with 1 to 8 rows and many experts few are shared, and
those that are come from the cache.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_COLUMNS = 8


def choose_experts(logits: Tensor, experts: int, top_k: int) -> tuple[Tensor, Tensor]:
    """logits [B, >= experts] -> (weights FP32 [B, top_k] with sum 1, ids int32 [B, top_k]); lower id among equals."""
    batch = logits.shape[0]
    weights = torch.empty(batch, top_k, dtype=torch.float32, device=logits.device)
    ids = torch.empty(batch, top_k, dtype=torch.int32, device=logits.device)
    _choose[(batch,)](
        logits, logits.stride(0), weights, ids, experts, TOP_K=top_k, BLOCK=triton.next_power_of_2(experts), num_warps=1
    )
    return weights, ids


def run_experts(h: Tensor, weights: Tensor, ids: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """h [B, H] -> weighted expert outputs FP32 [B, top_k, H]; gate_up [E, H, 2 * I], down [E, I, H] in h's format.

    Fast where the inputs of one output lie together in memory, as `models.weights` lays them on a GPU.
    """
    batch, hidden = h.shape
    top_k, inner = ids.shape[1], down.shape[1]
    middle = torch.empty(batch * top_k, inner, dtype=h.dtype, device=h.device)
    parts = torch.empty(batch, top_k, hidden, dtype=torch.float32, device=h.device)
    shape = {"COLUMNS": _COLUMNS, "PRECISION": "ieee" if h.dtype == torch.float32 else "tf32"}
    outputs = min(32, triton.next_power_of_2(inner))
    _expert[(batch * top_k, triton.cdiv(inner, outputs))](
        h, top_k, ids, weights, gate_up, *gate_up.stride(), middle, hidden, inner, GATED=True, OUTPUTS=outputs,
        INPUTS=min(128, triton.next_power_of_2(hidden)), **shape, num_warps=4, num_stages=4,
    )  # fmt: skip
    outputs = min(64, triton.next_power_of_2(hidden))
    _expert[(batch * top_k, triton.cdiv(hidden, outputs))](
        middle, 1, ids, weights, down, *down.stride(), parts, inner, hidden, GATED=False, OUTPUTS=outputs,
        INPUTS=min(128, triton.next_power_of_2(inner)), **shape, num_warps=4, num_stages=4,
    )  # fmt: skip
    return parts


def sum_experts(parts: Tensor, shared: Tensor, shared_gate: Tensor) -> Tensor:
    """parts [B, top_k, H] over top_k + sigmoid(shared_gate [B, 1]) * shared [B, H] -> FP32 [B, H]."""
    batch, top_k, hidden = parts.shape
    out = torch.empty(batch, hidden, dtype=torch.float32, device=parts.device)
    block = min(triton.next_power_of_2(hidden), 256)
    _sum_experts[(batch, triton.cdiv(hidden, block))](
        parts, shared, shared_gate, shared_gate.stride(0), out, hidden, TOP_K=top_k, BLOCK=block, num_warps=2
    )
    return out


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


@triton.jit
def _expert(
    x,
    group,
    ids,
    weights,
    matrices,
    expert_stride,
    input_stride,
    output_stride,
    out,
    width,
    features,
    GATED: tl.constexpr,
    OUTPUTS: tl.constexpr,
    INPUTS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One pair and a tile of outputs: row pair // group of x times the pair's matrix. Gated: silu of the first half of
    the outputs times the second; else times the pair's weight."""
    pair = tl.program_id(0)
    matrix = matrices + tl.load(ids + pair).to(tl.int64) * expert_stride
    feature = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    mine = feature < features
    only = tl.arange(0, COLUMNS) == 0  # a matrix instruction takes more columns than the one there is
    first = matrix + feature[:, None] * output_stride
    second = first + features * output_stride
    total = tl.zeros([OUTPUTS, COLUMNS], tl.float32)
    other = tl.zeros([OUTPUTS, COLUMNS], tl.float32)
    for start in range(0, width, INPUTS):
        at = start + tl.arange(0, INPUTS)
        inside = at < width
        tile = mine[:, None] & inside[None, :]
        w = tl.load(first + at[None, :] * input_stride, mask=tile, other=0.0)
        place = x + pair // group * width + at[:, None] + tl.zeros([1, COLUMNS], tl.int32)
        values = tl.load(place, mask=inside[:, None] & only[None, :], other=0.0)
        total = tl.dot(w, values, total, input_precision=PRECISION)
        if GATED:
            w = tl.load(second + at[None, :] * input_stride, mask=tile, other=0.0)
            other = tl.dot(w, values, other, input_precision=PRECISION)
    result = tl.sum(total, 1)
    if GATED:
        result = result / (1.0 + tl.exp(-result)) * tl.sum(other, 1)
    else:
        result = result * tl.load(weights + pair)
    tl.store(out + pair.to(tl.int64) * features + feature, result.to(out.dtype.element_ty), mask=mine)


@triton.jit
def _sum_experts(parts, shared, gate, gate_stride, out, hidden, TOP_K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = at < hidden
    share = tl.load(gate + row * gate_stride).to(tl.float32)
    total = tl.load(shared + row * hidden + at, mask=live, other=0.0).to(tl.float32) / (1.0 + tl.exp(-share))
    for i in tl.static_range(TOP_K):
        total += tl.load(parts + (row * TOP_K + i) * hidden + at, mask=live, other=0.0)
    tl.store(out + row * hidden + at, total, mask=live)


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
