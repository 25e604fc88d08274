"""How a device's bytes become state slots and Main pages, on the capacity curve (C2, C3)."""

from __future__ import annotations

from dataclasses import dataclass

from ninfer.base.errors import BadInput
from ninfer.base.frontier import pages_for
from ninfer.base.pools import PAGE_TOKENS
from ninfer.config.geometry import ModelGeometry

from .geometries import image_bytes, page_bytes

AGENT_TOKENS = 24_576
"""History for which the default split keeps one restore point beside the lanes' own states: agents hold two points of
40k tokens and more, and short ones come between."""


@dataclass(frozen=True, slots=True)
class Split:
    """The pools of one replay. `state_share`: what part of `device_bytes` the slots take."""

    device_bytes: int
    max_context: int
    slots: int
    pages: int
    state_share: float


def split_budget(
    geometry: ModelGeometry,
    *,
    device_bytes: int,
    lanes: int,
    longest_tokens: int,
    max_context: int | None = None,
    state_share: float | None = None,
) -> Split:
    """Raises BadInput with the numbers where the budget has no point on the curve."""
    state, page = image_bytes(geometry), page_bytes(geometry)
    share = default_share(geometry, device_bytes, lanes) if state_share is None else state_share
    slots = max(lanes, int(share * device_bytes) // state)
    pages = (device_bytes - slots * state) // page
    context = max_context or _least_context(longest_tokens, pages, lanes, geometry.max_positions)
    least, most = max(pages_for(context), lanes), lanes * pages_for(context)
    if context < longest_tokens:
        raise BadInput(f"max_context {context} is less than the longest request, {longest_tokens} tokens")
    if pages < least:
        raise BadInput(
            f"device_bytes {device_bytes}: {slots} states of {state} bytes leave {max(pages, 0)} pages of {page} "
            f"bytes, and a context of {context} tokens needs {least}"
        )
    if pages > most:
        raise BadInput(
            f"device_bytes {device_bytes}: {pages} pages are more than {lanes} lanes at {context} tokens can use "
            f"({most}); name a larger max_context"
        )
    return Split(device_bytes, context, slots, pages, slots * state / device_bytes)


def default_share(geometry: ModelGeometry, device_bytes: int, lanes: int) -> float:
    """A slot for each lane; the rest holds one restore point beside the KV of each AGENT_TOKENS tokens."""
    state = image_bytes(geometry)
    history = AGENT_TOKENS // PAGE_TOKENS * page_bytes(geometry)
    basic = lanes * state
    return min(0.5, (basic + (device_bytes - basic) * state / (state + history)) / device_bytes)


def _least_context(longest_tokens: int, pages: int, lanes: int, most_tokens: int) -> int:
    """The smallest power of two that holds the longest request and lets the lanes use all pages (C3)."""
    context = PAGE_TOKENS
    while context < longest_tokens or lanes * pages_for(context) < pages:
        if context >= most_tokens:
            break
        context *= 2
    return context
