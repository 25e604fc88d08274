"""Triton route of prefill: T tokens of one sequence over pages that hold its past and the chunk itself.

A program takes a block of queries of one head and walks the pages up to its last query: first those that every query
sees whole, then those that the diagonal crosses. Where blocks are few the pages of each are cut into parts, which a
second kernel adds up. Nothing is gathered or planned for a length.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from ninfer.kernels.span import SpanNumbers

from .pool import PAGE_TOKENS, KvPool, pool_parts

_LOG2_E = 1.4426950408889634
_PROCESSORS = 132
"""Of an H200; a block takes one to itself."""


@dataclass(frozen=True, slots=True)
class PrefillTiles:
    """Queries of one program, pages in flight, warps, parts of the pages (None: by the number of programs)."""

    queries: int = 128
    stages: int = 2
    warps: int = 8
    parts: int | None = None


def attend_chunk_pages(
    q: Tensor,
    gates: Tensor,
    pool: KvPool,
    layer: int,
    table: Tensor,
    span: SpanNumbers,
    tiles: PrefillTiles | None = None,
) -> Tensor:
    """q [N >= T, Hq, D], gates [N, Hq * D] with any row stride, `table` int32 [1, pages].

    Keys and values of the chunk lie in their pages already -> softmax(q K^T / sqrt(D)) V * sigmoid(gate), [N, Hq * D],
    zeros in the rows that are no tokens.
    """
    rows, heads, width = q.shape
    chosen, where = tiles or PrefillTiles(), pool_parts(pool)
    blocks = triton.cdiv(rows, chosen.queries)
    parts = chosen.parts or _choose_parts(blocks * heads)
    out = torch.empty(rows, heads * width, dtype=q.dtype, device=q.device)
    mixed, weights = out, out
    if parts > 1:
        mixed = torch.empty(parts, rows, heads, width, dtype=torch.float32, device=q.device)
        weights = torch.empty(parts, rows, heads, dtype=torch.float32, device=q.device)
    _attend_chunk[(blocks, heads, parts)](
        q,
        gates,
        gates.stride(0),
        where.values,
        where.scales,
        where.page_stride,
        layer,
        table,
        mixed,
        weights,
        span.head,
        rows,
        width**-0.5 * _LOG2_E,
        HEADS=heads,
        KV_HEADS=pool.shape[3],
        WIDTH=width,
        PAGE=PAGE_TOKENS,
        BLOCK=where.block_stride,
        SCALED=where.rounding != "none",
        QUERIES=chosen.queries,
        PARTS=parts,
        PRECISION="ieee" if q.dtype == torch.float32 else "tf32",
        num_warps=chosen.warps,
        num_stages=chosen.stages,
    )
    if parts > 1:
        _add_parts[(rows, heads)](mixed, weights, gates, gates.stride(0), out, rows, heads, PARTS=parts, WIDTH=width)
    return out


def _choose_parts(programs: int) -> int:
    """Into how many parts the pages of each block are cut, so that few blocks over a long past fill the GPU."""
    return min((1, 2, 4, 8), key=lambda parts: triton.cdiv(programs * parts, _PROCESSORS) / parts + 0.02 * parts)


@triton.jit
def _walk(
    queries,
    best,
    total,
    mixed,
    first,
    last,
    position,
    pool,
    scales,
    base,
    page_stride,
    table,
    scale,
    KV_HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK: tl.constexpr,
    SCALED: tl.constexpr,
    MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Pages [first, last) -> running maximum, sum and mix of the queries; scores in powers of two."""
    token, at = tl.arange(0, PAGE), tl.arange(0, WIDTH)
    inside = token[:, None] * WIDTH + at[None, :]
    for page_index in range(first, last):
        keys_at = base + tl.load(table + page_index).to(tl.int64) * page_stride
        if MASKED:
            here = page_index * PAGE + token
            written = here <= tl.max(position, 0)
            keys = tl.load(pool + keys_at + inside, mask=written[:, None], other=0.0).to(queries.dtype)
        else:
            keys = tl.load(pool + keys_at + inside).to(queries.dtype)
        scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION) * scale
        if SCALED:
            if MASKED:
                scores *= tl.load(scales + keys_at // 4 + token, mask=written, other=0.0)[None, :]
            else:
                scores *= tl.load(scales + keys_at // 4 + token)[None, :]
        if MASKED:
            scores = tl.where(here[None, :] <= position[:, None], scores, float("-inf"))
        now = tl.maximum(best, tl.max(scores, 1))
        grown = tl.exp2(scores - now[:, None])
        fade = tl.exp2(best - now)
        total = total * fade + tl.sum(grown, 1)
        mixed = mixed * fade[:, None]
        values_at = keys_at + KV_HEADS * BLOCK
        if MASKED:
            values = tl.load(pool + values_at + inside, mask=written[:, None], other=0.0).to(queries.dtype)
        else:
            values = tl.load(pool + values_at + inside).to(queries.dtype)
        if SCALED:
            if MASKED:
                grown *= tl.load(scales + values_at // 4 + token, mask=written, other=0.0)[None, :]
            else:
                grown *= tl.load(scales + values_at // 4 + token)[None, :]
        mixed = tl.dot(grown.to(queries.dtype), values, mixed, input_precision=PRECISION)
        best = now
    return best, total, mixed


@triton.jit(do_not_specialize=["layer", "rows"])
def _attend_chunk(
    q,
    gates,
    gate_stride,
    pool,
    scales,
    page_stride,
    layer,
    table,
    out,
    weights,
    span,
    rows,
    scale,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK: tl.constexpr,
    SCALED: tl.constexpr,
    QUERIES: tl.constexpr,
    PARTS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    block = tl.num_programs(0) - 1 - tl.program_id(0)  # the longest walks begin first
    head = tl.program_id(1)
    row, at = block * QUERIES + tl.arange(0, QUERIES), tl.arange(0, WIDTH)
    tokens, start = tl.load(span), tl.load(span + 1)
    live = row < tokens
    position = start + tl.minimum(row, tokens - 1)
    place = (row.to(tl.int64)[:, None] * HEADS + head) * WIDTH + at[None, :]
    queries = tl.load(q + place, mask=live[:, None], other=0.0)
    base = (layer * 2 * KV_HEADS + head // (HEADS // KV_HEADS)) * BLOCK
    best = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    mixed = tl.zeros([QUERIES, WIDTH], tl.float32)
    whole = (start + block * QUERIES + 1) // PAGE  # pages that the first query of the block sees to their end
    last = (start + tl.minimum(block * QUERIES + QUERIES, tokens) + PAGE - 1) // PAGE
    if block * QUERIES >= tokens:
        whole, last = whole * 0, last * 0
    share = (last + PARTS - 1) // PARTS
    part = tl.program_id(2)
    first = part * share
    last = tl.minimum(first + share, last)
    whole = tl.minimum(whole, last)
    best, total, mixed = _walk(
        queries, best, total, mixed, first, whole, position, pool, scales, base, page_stride, table, scale,
        KV_HEADS, WIDTH, PAGE, BLOCK, SCALED, False, PRECISION,
    )  # fmt: skip
    first = tl.maximum(first, whole)
    best, total, mixed = _walk(
        queries, best, total, mixed, first, last, position, pool, scales, base, page_stride, table, scale,
        KV_HEADS, WIDTH, PAGE, BLOCK, SCALED, True, PRECISION,
    )  # fmt: skip
    if PARTS == 1:
        gate_at = gates + row.to(tl.int64)[:, None] * gate_stride + head * WIDTH + at[None, :]
        gate = tl.load(gate_at, mask=live[:, None], other=0.0).to(tl.float32)
        result = tl.where(live[:, None], mixed / total[:, None] / (1.0 + tl.exp(-gate)), 0.0)
        tl.store(out + place, result.to(out.dtype.element_ty), mask=(row < rows)[:, None])
    else:
        seen = live & (total > 0.0)
        result = tl.where(seen[:, None], mixed / tl.where(seen, total, 1.0)[:, None], 0.0)
        weight = tl.where(seen, best + tl.log2(tl.where(seen, total, 1.0)), float("-inf"))
        mine = part.to(tl.int64) * rows
        tl.store(out + mine * HEADS * WIDTH + place, result, mask=(row < rows)[:, None])
        tl.store(weights + (mine + row) * HEADS + head, weight, mask=row < rows)


@triton.jit(do_not_specialize=["rows"])
def _add_parts(mixed, weights, gates, gate_stride, out, rows, heads, PARTS: tl.constexpr, WIDTH: tl.constexpr):
    """Parts by their weights, then the gate; zeros where no part saw a page."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at, every = tl.arange(0, WIDTH), tl.arange(0, PARTS).to(tl.int64)
    place = (every * rows + row) * heads + head
    local = tl.load(weights + place)
    best = tl.max(local, 0)
    is_token = best > float("-inf")
    share = tl.exp2(local - tl.where(is_token, best, 0.0))
    parts = tl.load(mixed + place[:, None] * WIDTH + at[None, :]) * share[:, None]
    gate = tl.load(gates + row * gate_stride + head * WIDTH + at, mask=at < tl.where(is_token, WIDTH, 0), other=0.0).to(
        tl.float32
    )
    result = tl.sum(parts, 0) / tl.where(is_token, tl.sum(share, 0), 1.0) / (1.0 + tl.exp(-gate))
    tl.store(out + (row * heads + head) * WIDTH + at, result.to(out.dtype.element_ty))
