"""Index arithmetic over a KV pool seen as blocks [pages * layers * 2 * Hk, 64, D] or rows [.. * 64, D]."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from .pool import PAGE_TOKENS, KvPool, put_rows


@dataclass(frozen=True, slots=True)
class PoolShape:
    """`page_blocks`: blocks of one page; `layer_blocks`: blocks of one layer in a page, keys first."""

    page_blocks: int
    layer_blocks: int
    kv_heads: int

    @staticmethod
    def of(pool: KvPool) -> PoolShape:
        return _pool_shape(pool.shape)


@cache
def _pool_shape(shape: torch.Size) -> PoolShape:
    _, layers, two, kv_heads, tokens, _ = shape
    assert two == 2
    assert tokens == PAGE_TOKENS
    return PoolShape(layers * 2 * kv_heads, 2 * kv_heads, kv_heads)


def write_tokens(pool: KvPool, layer: int, shape: PoolShape, rows: Tensor, k: Tensor, v: Tensor) -> None:
    """Put k, v [N, Hk, D] at pool rows; `rows` int64 [N * 2 * Hk] are those of layer 0, keys before values."""
    here = rows + layer * shape.layer_blocks * PAGE_TOKENS
    both = torch.stack((k, v), 1).view(-1, k.shape[-1])
    put_rows(pool, here, both)


def token_rows(page_ids: Tensor, inside: Tensor, shape: PoolShape) -> Tensor:
    """Rows of layer 0 of N tokens: page ids int64 [N], place in the page int64 [N] -> int64 [N * 2 * Hk]."""
    first = (page_ids * shape.page_blocks).unsqueeze(1) + torch.arange(shape.layer_blocks, device=page_ids.device)
    return first.mul_(PAGE_TOKENS).add_(inside.unsqueeze(1)).flatten()
