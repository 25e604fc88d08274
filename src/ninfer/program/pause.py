"""Pause by Snapshot: a sequence becomes a point of its own, and what only it has leaves the device (K1-K3).

The point is the request's own source when it resumes; nobody else starts from it. Immutable pages that others use stay
where they are. Without room on the host nothing happens, and the caller pauses destructively.
"""

from __future__ import annotations

from ninfer.base.frontier import backend_frontier, pages_for
from ninfer.base.ids import Handle, PageId, SlotId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import ZERO, Amounts
from ninfer.ports.device import HostTier
from ninfer.ports.native import PointKind
from ninfer.ports.transactions import TransactionKind
from ninfer.store.checkpoints import Checkpoint
from ninfer.store.stores import ContextStores

from .ahead import RunAhead
from .capture import forfeit_destinations, identity_at
from .hosting import Leaving, PageSpot, land_saves, leave_device, reserve_room, submit_saves
from .permits import forfeit_permit
from .sequence import Sequence
from .transaction import ContextTransaction, Event, Transactions


def start_pause(
    stores: ContextStores, host: HostTier | None, transactions: Transactions, ahead: RunAhead, sequence: Sequence
) -> tuple[Handle, ContextTransaction | None, Leaving] | Shortfall:
    """Reserve all of it, hand the sequence over to its snapshot, submit the copies; or change nothing."""
    assert not sequence.outstanding, "J4: pauses happen at commit boundaries"
    assert sequence.ledger.execution_frontier > 0, "K1: there is nothing to keep"
    leaving = _list_unique(stores, sequence)
    save = reserve_room(stores, leaving)
    if isinstance(save, Shortfall):
        return save
    transaction = transactions.open(TransactionKind.PAUSE)
    transaction.save = save
    snapshot = freeze_sequence(stores, ahead, sequence, PointKind.SNAPSHOT)
    transaction.subject = snapshot
    transaction.advance(Event.ADOPT)
    submit_saves(stores, host, transaction, leaving)
    freed = leave_device(stores, leaving)
    if not transaction.transfers:
        transactions.settle(transaction, freed)
        return snapshot, None, leaving
    return snapshot, transaction, leaving


def settle_pause(
    stores: ContextStores, transactions: Transactions, transaction: ContextTransaction, leaving: Leaving
) -> None:
    """All copies have ended. Failed, the snapshot stays whole on the device; revoked, it has gone already."""
    keeps = transaction.has_failure or not transaction.is_wanted
    land_saves(stores, transaction)
    transactions.settle(transaction, ZERO if keeps else leave_device(stores, leaving))


def revoke(stores: ContextStores, transactions: Transactions, snapshot: Handle) -> Amounts:
    """End the snapshot with all its references; copies under way are waited for, not used (K3, L3)."""
    assert stores.checkpoints[snapshot].kind is PointKind.SNAPSHOT, "K3: only snapshots are revoked"
    current = transactions.current
    if current is not None and current.kind is TransactionKind.PAUSE and current.subject == snapshot:
        transactions.cancel(current)
    before = stores.free()
    stores.checkpoints.retire(snapshot)
    return stores.free() - before


def freeze_sequence(stores: ContextStores, ahead: RunAhead, sequence: Sequence, kind: PointKind) -> Handle:
    """The legal execution state becomes a point of its history, and the history loses its writer (F4)."""
    ahead.drop(sequence)
    forfeit_permit(stores, sequence)
    forfeit_destinations(stores, sequence)
    slot = sequence.slot
    if sequence.source is not None:  # nothing was fed yet: the state is still the source's (D9)
        slot = sequence.source.slot
        stores.slots.share(slot)
        stores.slots.drop(sequence.slot)
        stores.leases.release(sequence.source.lease)
    identity = identity_at(sequence, sequence.ledger.execution_frontier)
    point = stores.checkpoints.publish(Checkpoint(identity, slot, sequence.directory, kind))
    sequence.directory.close_writer()
    return point


def _list_unique(stores: ContextStores, sequence: Sequence) -> Leaving:
    """What only this sequence has: its own state, and pages of its history that no other history shares (K2).

    A reader is no owner: it keeps the device copy until it is done, and it is done before the copies are (L2).
    """
    slot: SlotId | None = None
    if sequence.source is None and stores.slots.refs(sequence.slot) - stores.slots.readers(sequence.slot) == 1:
        slot = sequence.slot
    frontier = sequence.ledger.execution_frontier
    spots = [
        PageSpot(pool, index, PageId(page))
        for pool, table in sequence.directory.tables.items()
        for index, page in enumerate(table.entries.view(0, pages_for(backend_frontier(pool, frontier))))
        if table.pages.refs(page) - table.pages.readers(page) == 1
    ]
    return Leaving(slot, tuple(spots))
