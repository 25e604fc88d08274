"""Triton route of decode: the pages of a row are shared out over programs, query heads of one KV head go together.

A program reads whole 64-token pages of one KV head for all query heads that use it and leaves a partial result with
its log-sum-exp parts; a second kernel merges the parts and applies the output gate. How a row is shared out follows
from its length and the batch size alone, so the same history in the same batch shape gives the same bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .pool import PAGE_TOKENS, KvPool, pool_parts

_FEW_PROGRAMS, _PROGRAMS = 128, 256
"""One to two a multiprocessor of an H200: measured best at 8k (NOTES.md)."""
_MOST_SPLITS = 64
_MERGED_AT_ONCE = 8
_LEAST_GROUP = 16
"""Rows of a matrix instruction."""


def choose_splits(batch: int, kv_heads: int) -> int:
    """Parts of one row's pages: a power of two, by batch shape alone."""
    walks = batch * kv_heads
    programs = _FEW_PROGRAMS if walks <= 8 else _PROGRAMS
    return min(_MOST_SPLITS, 1 << max((programs // walks).bit_length() - 1, 0))


def attend_pages(
    q: Tensor,
    gates: Tensor,
    pool: KvPool,
    layer: int,
    table: Tensor,
    lengths: Tensor,
    splits: int | None = None,
    stages: int = 2,
) -> Tensor:
    """q [N, Hq, D], gates [N, Hq * D] with any row stride -> softmax(q K^T / sqrt(D)) V * sigmoid(gate), [N, Hq * D].

    `table` int32 [B, pages]; each of its rows has N / B rows of q, the last tokens of one history in order. `lengths`
    int32 [N]: tokens a row sees, itself included; they lie in the pages.
    """
    batch, heads, width = q.shape
    kv_heads, where = pool.shape[3], pool_parts(pool)
    lanes = table.shape[0]
    tokens = batch // lanes
    parts = choose_splits(lanes, kv_heads) if splits is None else splits
    group = heads // kv_heads
    partial = torch.empty(batch, heads, parts, width, dtype=torch.float32, device=q.device)
    weights = torch.empty(batch, heads, parts, 2, dtype=torch.float32, device=q.device)
    out = torch.empty(batch, heads * width, dtype=q.dtype, device=q.device)
    _attend_part[(lanes, kv_heads, parts)](
        q,
        where.values,
        where.scales,
        where.page_stride,
        layer,
        table,
        table.stride(0),
        lengths,
        partial,
        weights,
        width**-0.5,
        parts,
        GROUP=group,
        TOKENS=tokens,
        ROWS=max(_LEAST_GROUP, triton.next_power_of_2(group * tokens)),
        KV_HEADS=kv_heads,
        WIDTH=width,
        PAGE=PAGE_TOKENS,
        BLOCK=where.block_stride,
        SCALED=where.rounding != "none",
        PRECISION="ieee" if q.dtype == torch.float32 else "tf32",
        num_warps=4,
        num_stages=stages,
    )
    _merge_parts[(batch, heads)](
        partial,
        weights,
        gates,
        gates.stride(0),
        out,
        heads,
        PARTS=parts,
        AT_ONCE=min(_MERGED_AT_ONCE, parts),
        WIDTH=width,
        num_warps=4,
    )
    return out


@triton.jit(do_not_specialize=["layer"])
def _attend_part(
    q,
    pool,
    scales,
    page_stride,
    layer,
    table,
    table_stride,
    lengths,
    partial,
    weights,
    scale,
    parts,
    GROUP: tl.constexpr,
    TOKENS: tl.constexpr,
    ROWS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK: tl.constexpr,
    SCALED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    row, kv_head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths + row * TOKENS + TOKENS - 1)
    pages = (length + PAGE - 1) // PAGE
    share = (pages + parts - 1) // parts
    first = part * share
    last = tl.minimum(first + share, pages)
    member, at, token = tl.arange(0, ROWS), tl.arange(0, WIDTH), tl.arange(0, PAGE)
    mine = member < GROUP * TOKENS
    # queries of one token lie together; head in all tokens of the lane
    head = (row * TOKENS + member // GROUP) * KV_HEADS * GROUP + kv_head * GROUP + member % GROUP
    queries = tl.load(q + head[:, None] * WIDTH + at[None, :], mask=mine[:, None], other=0.0)
    reach = tl.load(lengths + row * TOKENS + member // GROUP, mask=mine, other=1)
    best = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, WIDTH], tl.float32)
    for page_index in range(first, last):
        page = tl.load(table + row * table_stride + page_index).to(tl.int64)
        keys_at = page * page_stride + (layer * 2 * KV_HEADS + kv_head) * BLOCK
        seen = page_index * PAGE + token < length
        inside = token[:, None] * WIDTH + at[None, :]
        keys = tl.load(pool + keys_at + inside, mask=seen[:, None], other=0.0).to(queries.dtype)
        scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION) * scale
        if SCALED:
            scores *= tl.load(scales + keys_at // 4 + token, mask=seen, other=0.0)[None, :]
        if TOKENS == 1:
            scores = tl.where(seen[None, :], scores, float("-inf"))
            now = tl.maximum(best, tl.max(scores, 1))
            grown = tl.exp(scores - now[:, None])
            fade = tl.exp(best - now)
        else:  # the last page may begin behind what an earlier token sees
            scores = tl.where((page_index * PAGE + token)[None, :] < reach[:, None], scores, float("-inf"))
            now = tl.maximum(best, tl.max(scores, 1))
            grown = tl.exp(scores - tl.maximum(now, -1e30)[:, None])
            fade = tl.exp(best - tl.maximum(now, -1e30))
        total = total * fade + tl.sum(grown, 1)
        values_at = keys_at + KV_HEADS * BLOCK
        values = tl.load(pool + values_at + inside, mask=seen[:, None], other=0.0).to(queries.dtype)
        if SCALED:
            grown *= tl.load(scales + values_at // 4 + token, mask=seen, other=0.0)[None, :]
        mixed = mixed * fade[:, None] + tl.dot(grown.to(queries.dtype), values, input_precision=PRECISION)
        best = now
    place = head * parts + part
    tl.store(weights + place * 2, best, mask=mine)
    tl.store(weights + place * 2 + 1, total, mask=mine)
    if first < last:
        tl.store(partial + place[:, None] * WIDTH + at[None, :], mixed, mask=mine[:, None])


@triton.jit
def _merge_parts(
    partial,
    weights,
    gates,
    gate_stride,
    out,
    heads,
    PARTS: tl.constexpr,
    AT_ONCE: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row, head = tl.program_id(0), tl.program_id(1)
    place = (row * heads + head) * PARTS
    every, at = tl.arange(0, PARTS), tl.arange(0, WIDTH)
    best = tl.max(tl.load(weights + (place + every) * 2), 0)
    mixed = tl.zeros([WIDTH], tl.float32)
    total = 0.0
    for start in tl.static_range(0, PARTS, AT_ONCE):
        part = place + start + tl.arange(0, AT_ONCE)
        local = tl.load(weights + part * 2)
        share = tl.exp(local - best)
        total += tl.sum(share * tl.load(weights + part * 2 + 1), 0)
        written = local > float("-inf")
        rows = tl.load(partial + part[:, None] * WIDTH + at[None, :], mask=written[:, None], other=0.0)
        mixed += tl.sum(rows * share[:, None], 0)
    gate = tl.load(gates + row.to(tl.int64) * gate_stride + head * WIDTH + at).to(tl.float32)
    result = mixed / total / (1.0 + tl.exp(-gate))
    tl.store(out + (row * heads + head) * WIDTH + at, result.to(out.dtype.element_ty))
