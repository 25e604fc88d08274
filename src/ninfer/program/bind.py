"""Bind: the hand-over of a source to a sequence, with the first unit's permit (F1-F3, G8, G9).

Everything is checked first; a bind that cannot be complete retires nothing (G4). After acceptance the points that the
quote named end, what they really free is used, and nothing can fail but the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from ninfer.base.frontier import backend_frontier, page_of, tail_tokens
from ninfer.base.identity import PrefixIdentity
from ninfer.base.ids import Handle, LaneId, PageId, SlotId, TransferId
from ninfer.base.outcome import Shortfall, find_shortfall
from ninfer.base.pools import Pool
from ninfer.ports.device import Device, HostTier, PageCopy
from ninfer.ports.native import HandOver, Prompt, SourceQuote
from ninfer.ports.transactions import TransactionKind
from ninfer.store.directory import KvDirectory
from ninfer.store.handles import HandleTable
from ninfer.store.stores import ContextStores

from .ledger import Ledger
from .permits import forfeit_permit
from .quotes import cost_of
from .restore import Restoring, find_missing, forfeit_restore, land_restore, list_restores, take_destinations
from .sequence import Sequence, SourceRead, TailCopies
from .transaction import ContextTransaction, Event, Transactions


def bind_source(
    stores: ContextStores,
    device: Device,
    host: HostTier | None,
    transactions: Transactions,
    sequences: HandleTable[Sequence],
    quote: SourceQuote,
    prompt: Prompt,
    lane: LaneId,
) -> tuple[Sequence, ContextTransaction | None, tuple[Handle, ...]] | Shortfall:
    """Accept or say what is missing. Returns the sequence, its copies under way, and the points that ended."""
    assert quote.epoch == stores.epoch.value, f"V-14: quote of epoch {quote.epoch}, now {stores.epoch.value}"
    assert transactions.current is None, "V-07: one context transaction at a time"
    cost = cost_of(stores, quote)
    shortfall = find_shortfall(cost.need, stores.free())
    if shortfall is not None:
        return shortfall
    sources = _list_tail_sources(stores, quote)
    missing = find_missing(stores, quote)
    held = stores.leases.acquire(extents=missing.list_extents()) if missing else None
    source, moved_slot = _lease_or_find_source(stores, quote)
    directory = _hand_over_history(stores, quote)
    permit = stores.reservations.reserve(cost.takes)
    assert isinstance(permit, Handle), "G4: an accepted bind found less room than it was quoted"
    slot = stores.reservations.take_slot(permit) if moved_slot is None else moved_slot
    tails = [pool for pool, _ in sources] + [pool for pool, _ in missing.tails]
    targets = {pool: stores.reservations.take_pages(permit, pool, 1)[0] for pool in tails}
    restored = take_destinations(stores, missing, permit)
    if directory is None:
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
    transaction = None
    if sources or missing:
        transaction = transactions.open(TransactionKind.BIND)
        transaction.subject = sequence.handle
        transaction.advance(Event.ADOPT)
        transaction.advance(Event.SUBMIT)
        sequence.outstanding += 1
    if transaction is not None and sources:
        transaction.transfers.add(_start_tail_copies(stores, device, sequence, quote, sources, targets))
    if transaction is not None and held is not None:
        assert host is not None
        copies = list_restores(stores, quote, missing, restored, slot, targets)
        own_tails = tuple((pool, targets[pool]) for pool, _ in missing.tails) if quote.takes_over else ()
        sequence.restoring = Restoring(missing, held, restored, own_tails)
        transaction.transfers.add(host.submit_host_copy(copies))
    ended = quote.retires
    if moved_slot is not None and quote.checkpoint is not None and quote.checkpoint not in quote.carried:
        ended = (quote.checkpoint, *ended)
    return sequence, transaction, ended


def settle_bind(
    stores: ContextStores, transactions: Transactions, transaction: ContextTransaction, sequence: Sequence
) -> None:
    """All copies have ended: they join the tables and their sources are let go; after a failure none of them joins."""
    failed = transaction.has_failure
    frontier = sequence.ledger.execution_frontier
    if sequence.tails is not None:
        _land_tails(stores, sequence, failed=failed)
    if sequence.restoring is not None:
        restoring, sequence.restoring = sequence.restoring, None
        if failed:
            forfeit_restore(stores, restoring)
        else:
            land_restore(stores, restoring, sequence.directory, frontier)
            if restoring.missing.image is not None:
                stores.slots.publish([sequence.slot])
                sequence.slot_is_live = True
    if failed:
        sequence.is_broken = True
    elif not sequence.is_early:  # the unit that follows the copies commits both
        sequence.directory.commit(frontier)
    transactions.settle(transaction)


def _land_tails(stores: ContextStores, sequence: Sequence, *, failed: bool) -> None:
    tails, sequence.tails = sequence.tails, None
    assert tails is not None
    for pool, page in tails.pages if tails.replaces else ():
        if failed:
            stores.pages[pool].drop(page)
        else:
            index = page_of(backend_frontier(pool, sequence.ledger.execution_frontier))
            sequence.directory.tables[pool].replace(index, page)
    stores.leases.release(tails.lease)


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
            if slot is None:  # the image comes from the host into the active slot
                return None, None
            return SourceRead(slot, stores.leases.acquire(slot)), None
        case HandOver.MOVE:
            assert quote.checkpoint is not None
            slot = stores.checkpoints[quote.checkpoint].slot
            assert slot is not None, "F3: only a state on the device is moved"
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
        _pass_slot(stores, quote.checkpoint, stays=quote.checkpoint in quote.carried)
    return directory


def _pass_slot(stores: ContextStores, point: Handle, *, stays: bool) -> None:
    """The slot becomes the active one; the point ends, or lives on by its host replica (F3)."""
    slot = stores.checkpoints[point].slot
    assert slot is not None
    if stays:
        stores.checkpoints.demote(point, stores.copies.hand_over_replica(Pool.STATE, slot))
    else:
        stores.checkpoints.consume(point)
    stores.slots.note_write(slot)


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
) -> TransferId:
    """Lease before reading; the copies count as one transfer."""
    pages = tuple((pool, targets[pool]) for pool, _ in sources)
    sequence.tails = TailCopies(stores.leases.acquire(pages=sources), pages, replaces=quote.takes_over)
    return device.submit_copy(
        [
            PageCopy(pool, source, targets[pool], tail_tokens(backend_frontier(pool, quote.frontier)))
            for pool, source in sources
        ]
    )
