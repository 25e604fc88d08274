"""Demotion: the finite actions that leave content on the host alone, and their execution by page group (I1, I6, L2)."""

from __future__ import annotations

from ninfer.base.ids import Handle, PageId, SlotId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import PAGE_TOKENS, ZERO, Amounts, Pool
from ninfer.ports.device import HostTier
from ninfer.ports.native import DemoteAction, Demoting, PageGroup, TransactionKind
from ninfer.store.directory import KvDirectory
from ninfer.store.stores import ContextStores

from .hosting import Leaving, PageSpot, land_saves, leave_device, list_owners, reserve_room, submit_saves
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


def start_demotion(
    stores: ContextStores,
    host: HostTier,
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
    return Demoting(freed, Amounts.of({action.pool: coming})), transaction, leaving


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
    """Groups of pages with the same owners, none of which has a writer."""
    actions: list[DemoteAction] = []
    seen: set[int] = set()
    for directory in stores.directories:
        if directory.has_writer:
            continue
        for first, stop in reversed(_list_runs(directory, pool)):
            page = PageId(directory.tables[pool].entries[first])
            if page in seen:
                continue
            seen.add(page)
            owners = list_owners(stores, PageSpot(pool, first, page))
            if len(owners) == stores.pages[pool].refs(page) and not any(owner.has_writer for owner in owners):
                actions.append(_page_action(stores, pool, directory, owners, first, stop))
    return actions


def _list_runs(directory: KvDirectory, pool: Pool) -> list[tuple[int, int]]:
    """Runs of at most GROUP_PAGES device pages with equally many owners: by nesting, the same ones."""
    table = directory.tables[pool]
    refs = [0 if page < 0 else table.pages.refs(page) for page in table.entries]
    runs: list[tuple[int, int]] = []
    first = 0
    for index in range(1, len(refs) + 1):
        if index == len(refs) or refs[index] != refs[first] or index - first == GROUP_PAGES:
            if refs[first]:
                runs.append((first, index))
            first = index
    return runs


def _page_action(
    stores: ContextStores, pool: Pool, directory: KvDirectory, owners: list[KvDirectory], first: int, stop: int
) -> DemoteAction:
    holders = [point for owner in owners for tokens, point in owner.list_holders() if tokens > first * PAGE_TOKENS]
    pages = directory.tables[pool].entries.view(first, stop)
    unsaved = sum(stores.copies.find_host(pool, page) is None for page in pages)
    return DemoteAction(
        pool=pool,
        points=tuple(sorted(holders)),
        frees=Amounts.of({pool: stop - first}),
        moved_bytes=unsaved * stores.copies.block_bytes(pool),
        pages=PageGroup(directory.serial, first, stop),
        epoch=stores.epoch.value,
    )
