"""One token of each of B sequences with different lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from .blocks import PoolShape, write_tokens
from .pool import PAGE_TOKENS, KvPool, compute_dtype, take_blocks

PageIds = Sequence[int] | npt.NDArray[np.int32]
"""Page ids of one row, in order."""


@dataclass(frozen=True, slots=True)
class DecodePages:
    """Where the new token of each row goes and what it may see. Lengths include the new token."""

    shape: PoolShape
    longest: int
    short_rows: tuple[tuple[int, int], ...]
    """(row, length) of the rows shorter than `longest`."""
    rows: Tensor
    """int64 [B * 2 * Hk]: rows of layer 0 to write."""
    blocks: Tensor
    """int64 [2 * B * Hk * pages]: blocks of layer 0 to gather; short rows are filled up with the scratch page."""
    mask: Tensor | None
    """Additive [B, 1, 1, longest]; None when all rows are equally long."""


def plan_decode(pool: KvPool, page_ids: Sequence[PageIds], lengths: Sequence[int]) -> DecodePages:
    """page_ids: per row the pages of its length, or more. Plain numbers: the arithmetic is too small for tensors."""
    shape = PoolShape.of(pool)
    longest = max(lengths)
    table = np.zeros((len(lengths), -(-longest // PAGE_TOKENS)), dtype=np.int64)
    tails = np.empty((len(lengths), 1), dtype=np.int64)
    for row, (ids, length) in enumerate(zip(page_ids, lengths, strict=True)):
        used = -(-length // PAGE_TOKENS)
        table[row, :used] = ids[:used]
        tails[row] = int(ids[used - 1]) * shape.page_blocks * PAGE_TOKENS + (length - 1) % PAGE_TOKENS
    rows = tails + np.arange(0, shape.layer_blocks * PAGE_TOKENS, PAGE_TOKENS)
    sides = np.arange(shape.layer_blocks).reshape(2, 1, shape.kv_heads, 1)
    blocks = (table * shape.page_blocks)[:, None, :] + sides
    short = tuple((row, length) for row, length in enumerate(lengths) if length < longest)
    mask = None
    if short:
        mask = torch.zeros(len(lengths), 1, 1, longest, dtype=compute_dtype(pool))
        for row, length in short:
            mask[row, :, :, length:] = float("-inf")
        mask = mask.to(pool.device)
    at_rows, at_blocks = (torch.from_numpy(x.ravel()).to(pool.device) for x in (rows, blocks))
    return DecodePages(shape, longest, short, at_rows, at_blocks, mask)


def attend_decode(q: Tensor, k: Tensor, v: Tensor, pool: KvPool, layer: int, where: DecodePages) -> Tensor:
    """q [B, Hq, D], k, v [B, Hk, D] -> [B, Hq, D]; writes k, v into their pages."""
    shape = where.shape
    write_tokens(pool, layer, shape, where.rows, k, v)
    blocks = take_blocks(pool, where.blocks + layer * shape.layer_blocks)
    batch, heads, width = q.shape
    both = blocks.view(2, batch, shape.kv_heads, -1, width)
    for row, length in where.short_rows:
        both[:, row, :, length:] = 0  # 0 * NaN is NaN: what lies past a row's end must not meet a zero weight
    keys, values = both[:, :, :, : where.longest]
    queries = q.to(both.dtype).view(batch, shape.kv_heads, heads // shape.kv_heads, width)
    out = scaled_dot_product_attention(queries, keys, values, attn_mask=where.mask)
    return out.reshape(batch, heads, width).to(q.dtype)
