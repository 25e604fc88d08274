"""The judge of `page_copy`: one token of one layer at a time."""

from __future__ import annotations

from torch import Tensor


def copy_page(pool: Tensor, source: int, target: int, tokens: int) -> Tensor:
    """A copy of the pool in which the page is copied."""
    out = pool.clone()
    for layer in range(pool.shape[1]):
        for side in range(2):
            for head in range(pool.shape[3]):
                for token in range(tokens):
                    out[target, layer, side, head, token] = pool[source, layer, side, head, token]
    return out
