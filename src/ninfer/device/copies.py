"""Copies inside the arena: KV tail pages and whole StateImages."""

from __future__ import annotations

from collections.abc import Sequence

from ninfer.kernels.page_copy import copy_page
from ninfer.kernels.state_copy import copy_state
from ninfer.ports.device import PageCopy, StateCopy

from .arena import Arena


def run_copies(arena: Arena, copies: Sequence[PageCopy | StateCopy]) -> None:
    """In order; bits are copied."""
    for copy in copies:
        match copy:
            case PageCopy(pool, source, target, tokens):
                copy_page(arena.kv[pool], source, target, tokens)
                if pool in arena.kv_scales:
                    copy_page(arena.kv_scales[pool].unsqueeze(-1), source, target, tokens)
            case StateCopy(source, target):
                copy_state(arena.images, source, target)
