"""Permits: pages for the next unit only, taken before it runs and given back as soon as it has what it needs (A4, C6).

Knows how far a unit reaches. Does not know the order of asking or whom to make room for.
"""

from __future__ import annotations

from ninfer.base.frontier import backend_frontier, pages_for
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import PAGE_TOKENS, Amounts, Pool
from ninfer.store.stores import ContextStores

from .sequence import Sequence


def amounts_between(stores: ContextStores, start: int, stop: int, *, slots: int = 0) -> Amounts:
    """Pages that growth of a history from `start` to `stop` tokens takes in every KV pool of the device, and slots."""
    pages = {pool: _count_pages(pool, stop) - _count_pages(pool, start) for pool in stores.pages}
    return Amounts.of({Pool.STATE: slots, **pages})


def amounts_of_branch(stores: ContextStores, frontier: int, stop: int, *, slots: int) -> Amounts:
    """The same for a branch at `frontier`: it shares full pages alone."""
    shared = {pool: backend_frontier(pool, frontier) // PAGE_TOKENS for pool in stores.pages}
    return Amounts.of({Pool.STATE: slots, **{pool: _count_pages(pool, stop) - shared[pool] for pool in stores.pages}})


def reserve_coverage(stores: ContextStores, sequence: Sequence, tokens: int) -> Shortfall | None:
    """Make the permit cover [0, tokens), in all KV pools or in none (V-04)."""
    need_pages = sequence.directory.need_pages(tokens)
    if not need_pages:
        return None
    if sequence.permit is None:
        outcome = stores.reservations.reserve(Amounts.of(need_pages))
        if isinstance(outcome, Shortfall):
            return outcome
        sequence.permit = outcome
        return None
    permit = sequence.permit
    missing = {pool: max(0, need - stores.reservations.held(permit, pool)) for pool, need in need_pages.items()}
    return stores.reservations.extend(permit, Amounts.of(missing)) if any(missing.values()) else None


def spend_coverage(
    stores: ContextStores, sequence: Sequence, tokens: int, *, keeps_rest: bool = False, follows_copies: bool = False
) -> None:
    """Give the unit the pages it needs to cover [0, tokens); the rest of the permit returns at once (V-04).

    `keeps_rest`: a Replay chunk; the full permit of a resume ends only with new work (C9).
    """
    need_pages = sequence.directory.need_pages(tokens)
    assert not need_pages or sequence.permit is not None, "C6: a unit without a permit"
    fresh = {}
    if sequence.permit is not None:
        permit = sequence.permit
        fresh = {pool: stores.reservations.take_pages(permit, pool, need) for pool, need in need_pages.items()}
    sequence.directory.grow(tokens, fresh, follows_copies=follows_copies)
    if not keeps_rest:
        forfeit_permit(stores, sequence)


def forfeit_permit(stores: ContextStores, sequence: Sequence) -> None:
    """Give the whole permit back, if there is one."""
    if sequence.permit is not None:
        stores.reservations.forfeit(sequence.permit)
        sequence.permit = None


def _count_pages(pool: Pool, tokens: int) -> int:
    return pages_for(backend_frontier(pool, tokens))
