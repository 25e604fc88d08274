"""Demotion: the finite actions that leave content on the host alone, and their execution by page group (I1, I6, L2)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from ninfer.base.frontier import backend_frontier
from ninfer.base.ids import Handle, PageId, SlotId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import PAGE_TOKENS, ZERO, Amounts, Pool
from ninfer.ports.device import HostTier
from ninfer.ports.native import DeleteAction, DemoteAction, Demoting, HostGap, PageGroup
from ninfer.ports.transactions import TransactionKind
from ninfer.store.stores import ContextStores
from ninfer.store.tables import PageTable

from .hosting import Leaving, PageSpot, land_saves, leave_device, reserve_room, submit_saves
from .releases import find_run
from .transaction import ContextTransaction, Transactions

GROUP_PAGES = 16
"""Most pages of one action: 1,024 tokens."""


def list_demotions(stores: ContextStores, pool: Pool) -> list[DemoteAction]:
    """All demotions that free something of a device pool: StateImages, or groups of pages, the deepest first."""
    if not stores.arena.capacity_bytes:
        return []
    if pool is Pool.STATE:
        return _list_state_demotions(stores)
    return _list_page_demotions(stores, pool) if pool in stores.pages else []


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


def _list_state_demotions(stores: ContextStores) -> list[DemoteAction]:
    """One action a slot: every point that shares it keeps its image on the host."""
    by_slot: dict[SlotId, list[Handle]] = {}
    for point, checkpoint in stores.checkpoints.items():
        if checkpoint.slot is not None:
            by_slot.setdefault(checkpoint.slot, []).append(point)
    state_bytes, epoch = stores.copies.block_bytes(Pool.STATE), stores.epoch.value
    actions = []
    for slot, points in by_slot.items():
        if stores.slots.refs(slot) == len(points):
            moved = 0 if stores.copies.find_host(Pool.STATE, slot) is not None else state_bytes
            actions.append(DemoteAction(Pool.STATE, tuple(points), Amounts(state=1), moved, None, epoch))
    return actions


def _list_page_demotions(stores: ContextStores, pool: Pool) -> list[DemoteAction]:
    """Groups of pages with the same owners, none of which has a writer; what several share is found once."""
    actions: list[DemoteAction] = []
    seen: set[int] = set()  # first pages of shared runs, and, so that they need not be searched for, last ones
    ends: set[int] = set()
    amounts = [Amounts.of({pool: count}) for count in range(GROUP_PAGES + 1)]
    for directory in stores.directories:
        table = directory.tables[pool]
        stop = 0 if directory.has_writer else len(table.entries)
        while stop and table.entries[stop - 1] not in ends:
            first, count = find_run(stores, table, stop)
            owners = [directory]
            if count > 1:
                entry = table.entries[first]
                ends.add(table.entries[stop - 1])
                if entry in seen:
                    break
                seen.add(entry)
                owners = stores.directories.list_sharing(pool, first, entry)
                if any(owner.has_writer for owner in owners):
                    break  # whoever shares a page shares all before it
            holders = [
                (backend_frontier(pool, tokens), point) for owner in owners for tokens, point in owner.list_holders()
            ]
            for group in _list_groups(table, first, stop):
                frees = amounts[group[1] - group[0]]
                actions.append(_page_action(stores, pool, PageGroup(directory.serial, *group), holders, frees))
            stop = first
    return actions


def _list_groups(table: PageTable, first: int, stop: int) -> Iterator[tuple[int, int]]:
    """At most GROUP_PAGES adjoining device pages that nobody reads, the deepest first."""
    if not table.host_pages and not table.pages.leased_cells:
        yield from ((max(first, end - GROUP_PAGES), end) for end in range(stop, first, -GROUP_PAGES))
        return
    end = stop
    for index in range(stop - 1, first - 2, -1):
        page = table.entries[index] if index >= first else 0
        movable = page > 0 and not table.pages.readers(page)
        if not movable or end - index > GROUP_PAGES:
            if index + 1 < end:
                yield index + 1, end
            end = index + 1 if movable else index


def _page_action(
    stores: ContextStores, pool: Pool, group: PageGroup, holders: list[tuple[int, Handle]], frees: Amounts
) -> DemoteAction:
    unsaved = group.stop - group.first
    if stores.copies.replicas:
        pages = stores.directories[group.serial].tables[pool].entries.view(group.first, group.stop)
        unsaved = sum(stores.copies.find_host(pool, page) is None for page in pages)
    return DemoteAction(
        pool=pool,
        points=tuple(point for tokens, point in holders if tokens > group.first * PAGE_TOKENS),
        frees=frees,
        moved_bytes=unsaved * stores.copies.block_bytes(pool),
        pages=group,
        epoch=stores.epoch.value,
    )
