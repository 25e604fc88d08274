"""T tokens of one sequence over its paged past: keys and values are gathered once a layer, attention runs whole."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from .blocks import PoolShape, token_rows, write_tokens
from .pool import PAGE_TOKENS, KvPool, ScaledPool, compute_dtype, take_blocks


@dataclass(frozen=True, slots=True)
class PrefillPages:
    """Where one sequence's tokens [start, start + T) lie, and what they may see."""

    shape: PoolShape
    start: int
    tokens: int
    rows: Tensor
    """int64 [T * 2 * Hk]: rows of layer 0 to write."""
    blocks: Tensor
    """int64 [2 * Hk * pages]: blocks of layer 0 to gather, keys then values, head-major."""
    mask: Tensor | None
    """Additive [T, start + T]; None when nothing lies before the chunk."""


def plan_prefill(pool: KvPool, page_ids: Tensor, start: int, tokens: int) -> PrefillPages:
    """page_ids int64 [>= pages of start + tokens]."""
    shape = PoolShape.of(pool)
    device = pool.device
    positions = torch.arange(start, start + tokens, device=device)
    page_ids = page_ids[: -(-(start + tokens) // PAGE_TOKENS)].to(device)
    rows = token_rows(page_ids[positions // PAGE_TOKENS], positions % PAGE_TOKENS, shape)
    blocks = (page_ids * shape.page_blocks + torch.arange(shape.layer_blocks, device=device).unsqueeze(1)).flatten()
    mask = None
    if start:
        mask = torch.full((tokens, start + tokens), float("-inf"), dtype=compute_dtype(pool), device=device).triu_(
            start + 1
        )
    return PrefillPages(shape, start, tokens, rows, blocks, mask)


def attend_prefill(q: Tensor, k: Tensor, v: Tensor, pool: KvPool, layer: int, where: PrefillPages) -> Tensor:
    """q [T, Hq, D], k, v [T, Hk, D] -> [T, Hq, D]; writes k, v into their pages."""
    shape, end = where.shape, where.start + where.tokens
    write_tokens(pool, layer, shape, where.rows, k, v)
    if where.start or isinstance(pool, ScaledPool):  # rounded keys and values are what every later token will see
        blocks = take_blocks(pool, where.blocks + layer * shape.layer_blocks)
        keys, values = blocks.view(2, shape.kv_heads, -1, pool.shape[-1])[:, :, :end]
    else:
        keys, values = k.transpose(0, 1).to(pool.dtype), v.transpose(0, 1).to(pool.dtype)
    tokens, heads, width = q.shape
    group = heads // shape.kv_heads
    # KV heads are the batch and the query heads that share one are its heads, so that nothing is repeated.
    queries = q.to(keys.dtype).view(tokens, shape.kv_heads, group, width).permute(1, 2, 0, 3)
    keys, values = (x.unsqueeze(1).expand(-1, group, -1, -1) for x in (keys, values))
    out = scaled_dot_product_attention(queries, keys, values, attn_mask=where.mask, is_causal=where.mask is None)
    return out.permute(2, 0, 1, 3).reshape(tokens, heads, width).to(q.dtype)
