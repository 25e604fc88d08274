"""Demotion: content leaves the device and stays on the host, a StateImage or a page group at a time (I6, I11, L2)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from ninfer.base.ids import Handle, PageId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import ZERO, Amounts, Pool
from ninfer.ports.device import HostTier
from ninfer.ports.native import DeleteAction, DemoteAction, Demoting, HostGap
from ninfer.ports.transactions import TransactionKind
from ninfer.store.stores import ContextStores

from .hosting import Leaving, PageSpot, land_saves, leave_device, reserve_room, submit_saves
from .transaction import ContextTransaction, Transactions


def find_host_gap(stores: ContextStores, action: DemoteAction, deletions: Sequence[DeleteAction]) -> HostGap | None:
    """Whether an action's content fits on the host once these points have ended and safe duplicates are dropped."""
    cells = _find_leaving(stores, action, None).cells()
    if stores.copies.find_unplaced(cells) is None:  # the usual case, and far cheaper to ask
        return None
    wanted = set(cells)
    spare = {extent for pool, cell, extent in stores.copies.list_replicas() if (pool, cell) not in wanted}
    drops = stores.checkpoints.list_host_drops(point for deletion in deletions for point in deletion.points)
    unplaced = stores.copies.find_unplaced(cells, [*sorted(spare), *(drop for drop in drops if drop not in spare)])
    if unplaced is None:
        return None
    return HostGap(unplaced.gap_bytes, unplaced.free_bytes >= unplaced.need_bytes)


def start_demotion(
    stores: ContextStores,
    host: HostTier | None,
    transactions: Transactions,
    action: DemoteAction,
    *,
    most: int | None,
    keeps_device: bool,
) -> tuple[Demoting, ContextTransaction | None, Leaving] | Shortfall:
    """Place, lease and submit, or change nothing; content with replicas leaves at once (I6). The rest is returned."""
    assert action.epoch == stores.epoch.value, f"V-14: action of epoch {action.epoch}, now {stores.epoch.value}"
    assert transactions.current is None, "V-07: one context transaction at a time"
    leaving = _find_leaving(stores, action, most)
    save = reserve_room(stores, leaving)
    while isinstance(save, Shortfall) and len(leaving.pages) > 1:
        leaving = Leaving(None, leaving.pages[: len(leaving.pages) // 2])
        save = reserve_room(stores, leaving)
    if isinstance(save, Shortfall):
        return save
    return _submit(stores, host, transactions, action.pool, leaving, save, keeps_device=keeps_device)


def start_batch(
    stores: ContextStores, host: HostTier | None, transactions: Transactions, actions: Sequence[DemoteAction], most: int
) -> tuple[Demoting, ContextTransaction | None, Leaving] | Shortfall:
    """The leading pages of several groups of one pool, as many as are wanted and can be placed, or nothing (I7)."""
    assert actions and most > 0
    for action in actions:
        assert action.epoch == stores.epoch.value, f"V-14: action of epoch {action.epoch}, now {stores.epoch.value}"
        assert action.pages is not None and action.pool is actions[0].pool, "I7: a batch is page groups of one pool"
    assert transactions.current is None, "V-07: one context transaction at a time"
    spots = _list_spots(stores, actions)[:most]
    fitting = _count_placeable(stores, [(spot.pool, spot.page) for spot in spots])
    leaving = Leaving(None, tuple(spots[: max(1, fitting)]))
    save = reserve_room(stores, leaving)
    if isinstance(save, Shortfall):
        return save
    return _submit(stores, host, transactions, actions[0].pool, leaving, save, keeps_device=False)


def covers(stores: ContextStores, demotions: Sequence[DemoteAction], deletion: DeleteAction) -> bool:
    """Whether the device pages that a deletion would free all leave with these demotions already (I7)."""
    pool = demotions[0].pool
    freed = stores.checkpoints.list_freed(deletion.points, pool)
    return {spot.page for spot in _list_spots(stores, demotions)}.issuperset(freed)


def _list_spots(stores: ContextStores, actions: Sequence[DemoteAction]) -> list[PageSpot]:
    """The pages of several groups in their order, each once."""
    spots = (spot for action in actions for spot in _find_leaving(stores, action, None).pages)
    return list({spot.page: spot for spot in spots}.values())


def _count_placeable(stores: ContextStores, cells: list[tuple[Pool, int]]) -> int:
    """How many cells from the front can be placed on the host; safe duplicates of others count as room (I11)."""
    if stores.copies.find_unplaced(cells) is None:
        return len(cells)
    wanted = set(cells)
    spare = [extent for pool, cell, extent in stores.copies.list_replicas() if (pool, cell) not in wanted]
    counts = range(1, len(cells) + 1)
    return bisect_left(counts, True, key=lambda count: stores.copies.find_unplaced(cells[:count], spare) is not None)


def _submit(
    stores: ContextStores,
    host: HostTier | None,
    transactions: Transactions,
    pool: Pool,
    leaving: Leaving,
    save: Handle,
    *,
    keeps_device: bool,
) -> tuple[Demoting, ContextTransaction | None, Leaving]:
    """Everything is reserved: lease, copy, and let go at once what has its replica."""
    transaction = transactions.open(TransactionKind.DEMOTION)
    transaction.save = save
    coming = len(stores.copies.list_targets(save))
    submit_saves(stores, host, transaction, leaving)
    if keeps_device:
        leaving, coming = Leaving(None, ()), 0
    freed = leave_device(stores, leaving)
    if not transaction.transfers:
        transactions.settle(transaction, freed)
        return Demoting(freed, ZERO), None, leaving
    return Demoting(freed, Amounts.of({pool: coming})), transaction, leaving


def settle_demotion(
    stores: ContextStores, transactions: Transactions, transaction: ContextTransaction, leaving: Leaving
) -> None:
    """All copies have ended: publish and free the sources, or give the extents back."""
    keeps = transaction.has_failure or not transaction.is_wanted
    land_saves(stores, transaction)
    transactions.settle(transaction, ZERO if keeps else leave_device(stores, leaving))


def _find_leaving(stores: ContextStores, action: DemoteAction, most: int | None) -> Leaving:
    """The cells of an action as they are now, the deepest pages first."""
    if action.pages is None:
        slot = stores.checkpoints[action.points[0]].slot
        assert slot is not None
        return Leaving(slot, ())
    group = action.pages
    entries = stores.directories[group.serial].tables[action.pool].entries
    spots = [PageSpot(action.pool, index, PageId(entries[index])) for index in range(group.first, group.stop)]
    return Leaving(None, tuple(reversed(spots))[:most])
