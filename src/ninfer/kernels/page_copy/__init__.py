"""Operator `page_copy`: copy the first tokens of a KV page to another page of the same pool (tail copy on write).

Formula: pool[target, :, :, :, :n] = pool[source, :, :, :, :n] for the first n tokens.
Shapes: pool [pages, layers, 2, Hk, 64, D]. Dtypes: any; bits are copied.
State written: the first n tokens of the target page, nothing else; what the target holds past them stays.
Aliasing: source and target are different pages.
"""

from __future__ import annotations

from torch import Tensor


def copy_page(pool: Tensor, source: int, target: int, tokens: int) -> None:
    """Bit-exact copy of the first `tokens` tokens."""
    assert source != target
    pool[target, ..., :tokens, :].copy_(pool[source, ..., :tokens, :])
