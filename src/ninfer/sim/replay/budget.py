"""How a device's bytes become state slots and Main pages, on the capacity curve (C2, C3)."""

from __future__ import annotations

from dataclasses import dataclass

from ninfer.base.errors import BadInput
from ninfer.base.frontier import pages_for
from ninfer.base.pools import PAGE_TOKENS
from ninfer.config.geometry import ModelGeometry

from .geometries import image_bytes, page_bytes

TOKENS_PER_STATE = 12_288
"""KV tokens beside which the default split has room for one state: an agent's history of some 40k tokens then holds its
endpoint, its input point and one that it left behind. Histories much shorter than that want a larger share."""


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
        raise BadInput(
            f"max_context {context} is less than the longest request, {longest_tokens} tokens", param="max_context"
        )
    if pages < least:
        raise BadInput(
            f"device_bytes {device_bytes}: {slots} states of {state} bytes leave {max(pages, 0)} pages of {page} "
            f"bytes, and a context of {context} tokens needs {least}",
            param="device_bytes",
        )
    if pages > most:
        raise BadInput(
            f"device_bytes {device_bytes}: {pages} pages are more than {lanes} lanes at {context} tokens can use "
            f"({most}); name a larger max_context",
            param="device_bytes",
        )
    return Split(device_bytes, context, slots, pages, slots * state / device_bytes)


def default_share(geometry: ModelGeometry, device_bytes: int, lanes: int) -> float:
    """One state for each TOKENS_PER_STATE tokens of KV, and at least one for each lane."""
    state = image_bytes(geometry)
    beside = TOKENS_PER_STATE // PAGE_TOKENS * page_bytes(geometry)
    return max(lanes * state / max(device_bytes, 1), state / (state + beside))


def _least_context(longest_tokens: int, pages: int, lanes: int, most_tokens: int) -> int:
    """The smallest power of two that holds the longest request and lets the lanes use all pages (C3)."""
    context = PAGE_TOKENS
    while context < longest_tokens or lanes * pages_for(context) < pages:
        if context >= most_tokens:
            break
        context *= 2
    return context
