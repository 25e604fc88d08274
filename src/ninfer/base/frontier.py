"""Arithmetic of positions on 64-token pages, and of the frontiers that backends have of their own."""

from __future__ import annotations

from .pools import PAGE_TOKENS, Pool

_LAG = {Pool.MAIN_KV: 0, Pool.MTP_KV: 1, Pool.DFLASH_KV: 0}
"""An MTP entry is made of a hidden row and the token after it, so the last one waits for the next token (D9)."""


def backend_frontier(pool: Pool, frontier: int) -> int:
    """Tokens that a KV pool holds when the model has been fed `frontier` (D7, V-06)."""
    return max(0, frontier - _LAG[pool])


def pages_for(tokens: int) -> int:
    """Pages that hold `tokens` tokens from position 0."""
    return -(-tokens // PAGE_TOKENS)


def page_of(position: int) -> int:
    """Index (in a history, not in the pool) of the page that holds `position`."""
    return position // PAGE_TOKENS


def tail_tokens(frontier: int) -> int:
    """Tokens in the last, partly filled page below `frontier`; 0 when it ends on a page boundary."""
    return frontier % PAGE_TOKENS
