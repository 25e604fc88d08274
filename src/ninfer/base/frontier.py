"""Arithmetic of positions on 64-token pages."""

from __future__ import annotations

from .pools import PAGE_TOKENS


def pages_for(tokens: int) -> int:
    """Pages that hold `tokens` tokens from position 0."""
    return -(-tokens // PAGE_TOKENS)


def page_of(position: int) -> int:
    """Index (in a history, not in the pool) of the page that holds `position`."""
    return position // PAGE_TOKENS


def tail_tokens(frontier: int) -> int:
    """Tokens in the last, partly filled page below `frontier`; 0 when it ends on a page boundary."""
    return frontier % PAGE_TOKENS
