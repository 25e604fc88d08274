"""Triton route of a whole sparse MLP for a few rows: four launches from the normed rows to what the residual adds.

The router's partial sums are added where the experts are chosen; the shared expert runs in the launches of the chosen
ones, for all rows at once; what each expert gives stays apart, and the norm that follows adds it to the residual in one
order (`rmsnorm.triton_norm.add_norm`), whatever rows are beside.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ninfer.kernels.linear import DenseWeight
from ninfer.kernels.linear.few_rows import multiply_few_parts

MOST_ROWS = 16


def run_sparse(
    h: Tensor, router: DenseWeight, top_k: int, gate_up: Tensor, down: Tensor, shared_up: Tensor, shared_down: Tensor
) -> Tensor:
    """h [B, H] -> FP32 [top_k + 1, B, H]: a row's chosen experts, best first, and the shared one, weighted.

    `router` rows: one an expert, then the shared expert's gate. gate_up [E, H, 2 * I], down [E, I, H]; shared_up
    [2 * Is, H], shared_down [H, Is]. Fast where the inputs of one output lie together, as loaded on a GPU.
    """
    weights, ids = choose_shares(multiply_few_parts(h, router), gate_up.shape[0], top_k)
    return run_shares(h, weights, ids, gate_up, down, shared_up, shared_down)


def choose_shares(sums: Tensor, experts: int, top_k: int) -> tuple[Tensor, Tensor]:
    """sums [parts, B, > experts] or [B, > experts] -> (weights FP32 [B, top_k + 1], ids int32 [B, top_k]).

    The chosen weights have sum 1, the last one is the sigmoid of column `experts`. Lower id among equals.
    """
    if sums.dim() == 2:
        sums = sums.unsqueeze(0)
    parts, batch, _ = sums.shape
    weights = torch.empty(batch, top_k + 1, dtype=torch.float32, device=sums.device)
    ids = torch.empty(batch, top_k, dtype=torch.int32, device=sums.device)
    _choose_shares[(batch,)](
        sums, sums.stride(0), sums.stride(1), weights, ids, experts, PARTS=parts, TOP_K=top_k,
        SLOTS=triton.next_power_of_2(top_k), BLOCK=triton.next_power_of_2(experts), num_warps=1,
    )  # fmt: skip
    return weights, ids


def run_shares(
    h: Tensor, weights: Tensor, ids: Tensor, gate_up: Tensor, down: Tensor, shared_up: Tensor, shared_down: Tensor
) -> Tensor:
    """As `run_sparse`, for experts that are chosen."""
    (batch, hidden), top_k = h.shape, ids.shape[1]
    assert batch <= MOST_ROWS
    inner, shared_inner = down.shape[1], shared_down.shape[1]
    widest = max(inner, shared_inner)
    middle = torch.empty(top_k + 1, batch, widest, dtype=h.dtype, device=h.device)
    parts = torch.empty(top_k + 1, batch, hidden, dtype=torch.float32, device=h.device)
    rows = (batch, top_k, ids, weights)
    shape = {"COLUMNS": 8 if batch <= 8 else MOST_ROWS, "PRECISION": "ieee" if h.dtype == torch.float32 else "tf32"}
    outputs = min(32, triton.next_power_of_2(inner))
    _shares[(batch * top_k + 1, triton.cdiv(widest, outputs))](
        h, 0, hidden, *rows, gate_up, *gate_up.stride(), shared_up, *shared_up.t().stride(), middle,
        hidden, hidden, inner, shared_inner, widest, UP=True, SAME=gate_up.stride()[1:] == shared_up.t().stride(),
        OUTPUTS=outputs, INPUTS=min(128, triton.next_power_of_2(hidden)), **shape, num_warps=4, num_stages=4,
    )  # fmt: skip
    outputs = min(64, triton.next_power_of_2(hidden))
    _shares[(batch * top_k + 1, triton.cdiv(hidden, outputs))](
        middle, batch * widest, widest, *rows, down, *down.stride(), shared_down, *shared_down.t().stride(), parts,
        inner, shared_inner, hidden, hidden, hidden, UP=False, SAME=down.stride()[1:] == shared_down.t().stride(),
        OUTPUTS=outputs, INPUTS=min(128, triton.next_power_of_2(inner)), **shape, num_warps=4, num_stages=4,
    )  # fmt: skip
    return parts


@triton.jit
def _choose_shares(
    sums, part_stride, stride, weights, ids, experts, PARTS: tl.constexpr, TOP_K: tl.constexpr, SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    expert, slot = tl.arange(0, BLOCK), tl.arange(0, SLOTS)
    left = tl.zeros([BLOCK], tl.float32)
    gate = 0.0
    for part in tl.static_range(PARTS):
        at = sums + part * part_stride + row * stride
        left += tl.load(at + expert, mask=expert < experts, other=0.0).to(tl.float32)
        gate += tl.load(at + experts).to(tl.float32)
    left = tl.where(expert < experts, left, float("-inf"))
    chosen = tl.zeros([SLOTS], tl.int32)
    value = tl.full([SLOTS], float("-inf"), tl.float32)
    for i in tl.static_range(TOP_K):
        largest, best = tl.max(left, 0, return_indices=True)
        value = tl.where(slot == i, largest, value)
        chosen = tl.where(slot == i, best, chosen)
        left = tl.where(expert == best, float("-inf"), left)
    share = tl.exp(value - tl.max(value, 0))
    share = share / tl.sum(share, 0)
    tl.store(weights + row * (TOP_K + 1) + slot, share, mask=slot < TOP_K)
    tl.store(ids + row * TOP_K + slot, chosen, mask=slot < TOP_K)
    tl.store(weights + row * (TOP_K + 1) + TOP_K, 1.0 / (1.0 + tl.exp(-gate)))


@triton.jit
def _shares(
    x,
    x_slot_stride,
    x_row_stride,
    batch,
    top_k,
    ids,
    weights,
    matrices,
    expert_stride,
    input_stride,
    output_stride,
    shared,
    shared_input_stride,
    shared_output_stride,
    out,
    width,
    shared_width,
    features,
    shared_features,
    out_width,
    UP: tl.constexpr,
    SAME: tl.constexpr,
    OUTPUTS: tl.constexpr,
    INPUTS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A tile of outputs of one chosen expert for its row, or (last) of the shared expert for all rows. x and out lie
    [slot, row, width], x of the first product without slots. UP: silu(first half) * second half; else weighted."""
    pair = tl.program_id(0)
    slot, one, column = pair // batch, pair % batch, tl.arange(0, COLUMNS)
    is_shared = slot == top_k
    row = tl.where(is_shared, column, one)
    real = tl.where(is_shared, column < batch, column == 0)  # a matrix instruction takes more columns than one row
    matrix = matrices + tl.load(ids + one * top_k + slot, mask=slot < top_k, other=0).to(tl.int64) * expert_stride
    if is_shared:
        matrix = shared
    width = tl.where(is_shared, shared_width, width)
    features = tl.where(is_shared, shared_features, features)
    if not SAME:
        input_stride = tl.where(is_shared, shared_input_stride, input_stride)
        output_stride = tl.where(is_shared, shared_output_stride, output_stride)
    feature = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    mine = feature < features
    first = matrix + feature[:, None] * output_stride
    second = first + features * output_stride
    source = x + slot * x_slot_stride + row[None, :] * x_row_stride
    total = tl.zeros([OUTPUTS, COLUMNS], tl.float32)
    other = tl.zeros([OUTPUTS, COLUMNS], tl.float32)
    for start in range(0, width, INPUTS):
        at = start + tl.arange(0, INPUTS)
        inside = at < width
        tile = mine[:, None] & inside[None, :]
        w = tl.load(first + at[None, :] * input_stride, mask=tile, other=0.0)
        values = tl.load(source + at[:, None], mask=inside[:, None] & real[None, :], other=0.0)
        total = tl.dot(w, values, total, input_precision=PRECISION)
        if UP:
            w = tl.load(second + at[None, :] * input_stride, mask=tile, other=0.0)
            other = tl.dot(w, values, other, input_precision=PRECISION)
    if UP:
        total = total / (1.0 + tl.exp(-total)) * other
    else:
        total *= tl.load(weights + row * (top_k + 1) + slot, mask=real, other=0.0)[None, :]
    place = out + (slot * batch + row)[None, :] * out_width + feature[:, None]
    tl.store(place, total.to(out.dtype.element_ty), mask=mine[:, None] & real[None, :])
