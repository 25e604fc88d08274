"""Bind: the hand-over of a source to a sequence, with the first unit's permit (F1-F3, G8, G9).

Everything is checked first; a bind that cannot be complete retires nothing (G4). After acceptance the points that the
quote named end, what they really free is used, and nothing can fail but the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from ninfer.base.frontier import tail_tokens
from ninfer.base.identity import PrefixIdentity
from ninfer.base.ids import Handle, LaneId, PageId, SlotId, TransferId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import DEVICE_POOLS, Pool
from ninfer.ports.device import Device, PageCopy
from ninfer.ports.native import HandOver, Prompt, SourceQuote
from ninfer.store.directory import KvDirectory
from ninfer.store.handles import HandleTable
from ninfer.store.stores import ContextStores

from .ledger import Ledger
from .permits import forfeit_permit
from .quotes import cost_of
from .sequence import Sequence, SourceRead, TailCopies


def bind_source(
    stores: ContextStores,
    device: Device,
    sequences: HandleTable[Sequence],
    quote: SourceQuote,
    prompt: Prompt,
    lane: LaneId,
) -> tuple[Sequence, TransferId | None, tuple[Handle, ...]] | Shortfall:
    """Accept or say what is missing. Returns the sequence, its tail copies under way, and the points that ended."""
    assert quote.epoch == stores.epoch.value, f"V-14: quote of epoch {quote.epoch}, now {stores.epoch.value}"
    cost = cost_of(stores, quote)
    free = stores.free()
    for pool in DEVICE_POOLS:
        if cost.need[pool] > free[pool]:
            return Shortfall(pool, cost.need[pool], free[pool])
    sources = _list_tail_sources(stores, quote)
    source, moved_slot = _lease_or_find_source(stores, quote)
    directory = _hand_over_history(stores, quote)
    permit = stores.reservations.reserve(cost.takes)
    assert isinstance(permit, Handle), "G4: an accepted bind found less room than it was quoted"
    slot = stores.reservations.take_slot(permit) if moved_slot is None else moved_slot
    targets = {pool: stores.reservations.take_pages(permit, pool, 1)[0] for pool, _ in sources}
    if directory is None:
        assert quote.checkpoint is not None
        directory = _branch(stores, quote, targets)
    sequence = Sequence(
        lane=lane,
        prompt=prompt,
        ledger=Ledger(prompt.tokens, prompt.prompt_tokens, quote.frontier),
        directory=directory,
        slot=slot,
        slot_is_live=moved_slot is not None,
        handle=Handle(0, 0),
        source=source,
        permit=permit,
    )
    sequence.handle = sequences.insert(sequence)
    if not any(stores.reservations.held(permit, pool) for pool in stores.pages):
        forfeit_permit(stores, sequence)
    _restate_carried(stores, quote, prompt)
    transfer = _start_tail_copies(stores, device, sequence, quote, sources, targets)
    moved = () if moved_slot is None or quote.checkpoint is None else (quote.checkpoint,)
    return sequence, transfer, moved + quote.retires


def land_tails(stores: ContextStores, sequence: Sequence) -> None:
    """The tail copies are complete: they join the table, and the pages they were read from are let go."""
    tails = sequence.tails
    assert tails is not None
    if tails.replaces:
        for pool, page in tails.pages:
            sequence.directory.tables[pool].replace_last(page)
    else:
        sequence.directory.commit(sequence.ledger.execution_frontier)
    stores.leases.release(tails.lease)
    sequence.tails = None


def _list_tail_sources(stores: ContextStores, quote: SourceQuote) -> list[tuple[Pool, PageId]]:
    if quote.checkpoint is None:
        return []
    directory = stores.checkpoints[quote.checkpoint].directory
    if quote.takes_over:
        return directory.list_shared_tails(quote.frontier)
    return directory.list_tails(quote.frontier)


def _lease_or_find_source(stores: ContextStores, quote: SourceQuote) -> tuple[SourceRead | None, SlotId | None]:
    """A Fork reads its source under a lease; a Move gets the slot itself."""
    match quote.hand_over:
        case HandOver.ROOT:
            return None, None
        case HandOver.FORK:
            assert quote.checkpoint is not None
            slot = stores.checkpoints[quote.checkpoint].slot
            return SourceRead(slot, stores.leases.acquire(slot)), None
        case HandOver.MOVE:
            assert quote.checkpoint is not None
            slot = stores.checkpoints[quote.checkpoint].slot
            assert stores.slots.refs(slot) == 1, "V-03: a moved state has other owners or readers"
            return None, slot
        case _:
            assert_never(quote.hand_over)


def _hand_over_history(stores: ContextStores, quote: SourceQuote) -> KvDirectory | None:
    """Root: a new history. Takeover: the old one with a writer, its ended points gone. Branch: None, made later."""
    if quote.checkpoint is None:
        directory = stores.directories.open()
        directory.open_writer(0)
        return directory
    if not quote.takes_over:
        return None
    directory = stores.checkpoints[quote.checkpoint].directory
    deeper = [point for point in quote.retires if stores.checkpoints[point].frontier > quote.frontier]
    for point in deeper:
        stores.checkpoints.retire(point)
    directory.open_writer(quote.frontier)
    for point in quote.retires:
        if point not in deeper:
            stores.checkpoints.retire(point)
    if quote.hand_over is HandOver.MOVE:
        stores.checkpoints.consume(quote.checkpoint)
    return directory


def _branch(stores: ContextStores, quote: SourceQuote, targets: Mapping[Pool, PageId]) -> KvDirectory:
    assert quote.checkpoint is not None
    parent = stores.checkpoints[quote.checkpoint].directory
    return stores.directories.fork(parent, quote.frontier, targets)


def _restate_carried(stores: ContextStores, quote: SourceQuote, prompt: Prompt) -> None:
    for point in quote.carried:
        frontier = stores.checkpoints[point].frontier
        identity = PrefixIdentity(prompt.execution_identity, prompt.tokens, frontier, prompt.media)
        stores.checkpoints.restate(point, identity)


def _start_tail_copies(
    stores: ContextStores,
    device: Device,
    sequence: Sequence,
    quote: SourceQuote,
    sources: list[tuple[Pool, PageId]],
    targets: Mapping[Pool, PageId],
) -> TransferId | None:
    """Lease before reading; the copies count as one transfer."""
    if not sources:
        return None
    pages = tuple((pool, targets[pool]) for pool, _ in sources)
    sequence.tails = TailCopies(stores.leases.acquire(pages=sources), pages, replaces=quote.takes_over)
    sequence.outstanding += 1
    tokens = tail_tokens(quote.frontier)
    return device.submit_copy([PageCopy(pool, source, targets[pool], tokens) for pool, source in sources])
