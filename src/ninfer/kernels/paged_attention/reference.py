"""The judge of `paged_attention`: one query, one head, one key at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .pool import LARGEST, KvPool, ScaledPool

PAGE_TOKENS = 64


def put(pool: KvPool, at: tuple[int, ...], row: Tensor) -> None:
    """Write one row [D] at (page, layer, side, head, token); the one-byte forms keep the nearest number they have."""
    if isinstance(pool, Tensor):
        pool[at] = row
        return
    largest = max(abs(float(x)) for x in row)
    scale = largest / LARGEST[pool.values.dtype]
    pool.scales[at] = scale
    grid = torch.arange(256).to(torch.uint8).view(pool.values.dtype).float()
    for i, x in enumerate(row):
        nearest = 0 if scale == 0 else int((grid - float(x) / scale).abs().nan_to_num(math.inf).argmin())
        pool.values[at].view(torch.uint8)[i] = nearest


def get(pool: KvPool, at: tuple[int, ...]) -> Tensor:
    """One row [D] in float64."""
    if isinstance(pool, ScaledPool):
        return pool.values[at].float().double() * float(pool.scales[at])
    return pool[at].double()


def attend(q: Tensor, k: Tensor, v: Tensor, pool: KvPool, layer: int, page_ids: Sequence[int], start: int) -> Tensor:
    """T tokens of one sequence at [start, start + T); writes k, v into `pool`, -> [T, Hq, D] in float64."""
    group = q.shape[1] // k.shape[1]
    out = torch.empty(q.shape, dtype=torch.float64)
    for t in range(q.shape[0]):
        page, inside = page_ids[(start + t) // PAGE_TOKENS], (start + t) % PAGE_TOKENS
        for head in range(k.shape[1]):
            put(pool, (page, layer, 0, head, inside), k[t, head])
            put(pool, (page, layer, 1, head, inside), v[t, head])
    for t in range(q.shape[0]):
        for head in range(q.shape[1]):
            scores, values = [], []
            for p in range(start + t + 1):
                page, inside = page_ids[p // PAGE_TOKENS], p % PAGE_TOKENS
                key = get(pool, (page, layer, 0, head // group, inside))
                scores.append(float(q[t, head].double() @ key) / math.sqrt(q.shape[2]))
                values.append(get(pool, (page, layer, 1, head // group, inside)))
            best = max(scores)
            weights = [math.exp(score - best) for score in scores]
            mixed = sum(weight * value for weight, value in zip(weights, values, strict=True))
            out[t, head] = mixed / sum(weights)
    return out
