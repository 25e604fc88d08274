"""The judge of `paged_attention`: one query, one head, one key at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

PAGE_TOKENS = 64


def attend(q: Tensor, k: Tensor, v: Tensor, pool: Tensor, layer: int, page_ids: Sequence[int], start: int) -> Tensor:
    """T tokens of one sequence at [start, start + T); writes k, v into `pool`, -> [T, Hq, D] in float64."""
    group = q.shape[1] // k.shape[1]
    out = torch.empty(q.shape, dtype=torch.float64)
    for t in range(q.shape[0]):
        page, inside = page_ids[(start + t) // PAGE_TOKENS], (start + t) % PAGE_TOKENS
        pool[page, layer, 0, :, inside] = k[t]
        pool[page, layer, 1, :, inside] = v[t]
    for t in range(q.shape[0]):
        for head in range(q.shape[1]):
            scores, values = [], []
            for p in range(start + t + 1):
                page, inside = page_ids[p // PAGE_TOKENS], p % PAGE_TOKENS
                key = pool[page, layer, 0, head // group, inside].double()
                scores.append(float(q[t, head].double() @ key) / math.sqrt(q.shape[2]))
                values.append(pool[page, layer, 1, head // group, inside].double())
            best = max(scores)
            weights = [math.exp(score - best) for score in scores]
            mixed = sum(weight * value for weight, value in zip(weights, values, strict=True))
            out[t, head] = mixed / sum(weights)
    return out
