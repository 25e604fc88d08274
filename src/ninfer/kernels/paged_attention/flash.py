"""The route of prefill on a GPU: torch's fused attention, once over the past and once over the chunk, merged.

`is_causal` masks from the top left corner, so it is right only where queries and keys are the same tokens; the past is
seen by every token of the chunk and needs no mask. The two results are merged by their log-sum-exp.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .blocks import as_blocks
from .prefill import PrefillPages

_aten = torch.ops.aten


def attend_chunk(q: Tensor, k: Tensor, v: Tensor, pool: Tensor, layer: int, where: PrefillPages) -> Tensor:
    """q [T, Hq, D], k, v [T, Hk, D], normed, turned and already in their pages -> [T, Hq, D] in q's format."""
    tokens, heads, width = q.shape
    shape = where.shape
    queries = q.view(tokens, shape.kv_heads, heads // shape.kv_heads, width).permute(1, 2, 0, 3)
    out, total = _attend(queries, k.transpose(0, 1), v.transpose(0, 1), causal=True)
    if where.start:
        blocks = as_blocks(pool).index_select(0, where.blocks + layer * shape.layer_blocks)
        past_keys, past_values = blocks.view(2, shape.kv_heads, -1, width)[:, :, : where.start]
        past, past_total = _attend(queries, past_keys, past_values, causal=False)
        share = torch.sigmoid(past_total - total).unsqueeze(-1).to(out.dtype)
        out = torch.lerp(out, past, share)
    return out.permute(2, 0, 1, 3).reshape(tokens, heads, width)


def _attend(queries: Tensor, keys: Tensor, values: Tensor, *, causal: bool) -> tuple[Tensor, Tensor]:
    """queries [Hk, group, T, D], keys, values [Hk, S, D] -> (out as queries, log-sum-exp FP32 [Hk, group, T]).

    KV heads are the batch and the query heads that share one are its heads, so that nothing is repeated.
    """
    keys, values = (x.unsqueeze(1).expand(-1, queries.shape[1], -1, -1) for x in (keys, values))
    if queries.is_cuda:
        out, total, *_ = _aten._scaled_dot_product_flash_attention(queries, keys, values, 0.0, causal)
    else:
        out, total = _aten._scaled_dot_product_flash_attention_for_cpu(queries, keys, values, 0.0, causal)
    return out, total[..., : queries.shape[2]]
