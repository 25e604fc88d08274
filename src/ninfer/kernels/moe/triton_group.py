"""Triton: where each (token, expert) pair goes when rows are grouped by expert, in one launch and a fixed order."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


def group_pairs(ids: Tensor, experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """ids int32 [N, top_k] -> (tokens int64 [N * top_k], places int64 [N, top_k], ends int32 [experts]).

    Row r of the grouped order is of token `tokens[r]`; pair (n, i) is row `places[n, i]`; the rows of expert e end
    before `ends[e]`. Pairs of one expert keep their order.
    """
    pairs = ids.numel()
    tokens = torch.empty(pairs, dtype=torch.int64, device=ids.device)
    places = torch.empty(ids.shape, dtype=torch.int64, device=ids.device)
    ends = torch.empty(experts, dtype=torch.int32, device=ids.device)
    _group[(experts,)](ids, tokens, places, ends, pairs, TOP_K=ids.shape[1], BLOCK=_BLOCK, num_warps=4)
    return tokens, places, ends


@triton.jit(do_not_specialize=["pairs"])
def _group(ids, tokens, places, ends, pairs, TOP_K: tl.constexpr, BLOCK: tl.constexpr):
    expert = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    before = tl.zeros([BLOCK], tl.int32)
    for start in range(0, pairs, BLOCK):
        chosen = tl.load(ids + start + at, mask=start + at < pairs, other=2147483647)
        before += (chosen < expert).to(tl.int32)
    place = tl.sum(before, 0)
    for start in range(0, pairs, BLOCK):
        pair = start + at
        mine = tl.load(ids + pair, mask=pair < pairs, other=2147483647) == expert
        rank = tl.cumsum(mine.to(tl.int32), 0)
        target = (place + rank - 1).to(tl.int64)
        tl.store(places + pair, target, mask=mine)
        tl.store(tokens + target, (pair // TOP_K).to(tl.int64), mask=mine)
        place += tl.sum(mine.to(tl.int32), 0)
    tl.store(ends + expert, place)
