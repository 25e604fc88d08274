"""Device content to the host: room for it, the copies, and the hand-over to the replicas (C4, I6, L2).

Shared by demotion and pause. Knows cells; which content goes is the caller's choice.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from ninfer.base.ids import Handle, PageId, SlotId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import PAGE_TOKENS, Amounts, Pool
from ninfer.ports.device import HostCopy, HostTier, PageToHost, StateToHost
from ninfer.store.directory import KvDirectory
from ninfer.store.extents import Unplaced
from ninfer.store.stores import ContextStores

from .transaction import ContextTransaction, Event


@dataclass(frozen=True, slots=True)
class PageSpot:
    """A device page and its index in every history that has it."""

    pool: Pool
    index: int
    page: PageId


@dataclass(frozen=True, slots=True)
class Leaving:
    """Content whose device copies shall go."""

    slot: SlotId | None
    pages: tuple[PageSpot, ...]

    def cells(self) -> list[tuple[Pool, int]]:
        """All of it as device cells, the StateImage first (I11: what must lie in one piece)."""
        slots: list[tuple[Pool, int]] = [] if self.slot is None else [(Pool.STATE, self.slot)]
        return slots + [(spot.pool, spot.page) for spot in self.pages]


def reserve_room(stores: ContextStores, leaving: Leaving) -> Handle | Shortfall:
    """Extents for what has no replica yet; safe duplicates are dropped for it when that makes it fit (I11)."""
    cells = leaving.cells()
    unplaced = stores.copies.find_unplaced(cells)
    if unplaced is not None:
        wanted = set(cells)
        spare = [found for found in stores.copies.list_replicas() if (found[0], found[1]) not in wanted]
        extents = [extent for _, _, extent in spare]

        def fits(dropped: int) -> bool:
            return stores.copies.find_unplaced(cells, extents[:dropped]) is None

        if not fits(len(spare)):
            return _shortfall(unplaced)
        for pool, cell, _ in spare[: bisect_left(range(len(spare)), True, key=fits)]:
            stores.copies.drop_replica(pool, cell)
    save = stores.copies.reserve_saves(cells)
    assert isinstance(save, Handle)
    return save


def submit_saves(
    stores: ContextStores, host: HostTier | None, transaction: ContextTransaction, leaving: Leaving
) -> None:
    """Lease what is read and start the copies; nothing to copy closes the save at once."""
    assert transaction.save is not None
    targets = stores.copies.list_targets(transaction.save)
    if not targets:
        stores.copies.complete_save(transaction.save)
        transaction.save = None
        return
    assert host is not None, "C2: there is room on a host that is not there"
    extents = {(target.pool, target.cell): target.extent for target in targets}
    copies: list[HostCopy] = []
    leased: list[tuple[Pool, PageId]] = []
    slot = leaving.slot if (Pool.STATE, leaving.slot) in extents else None
    if slot is not None:
        copies.append(StateToHost(slot, stores.arena.offset(extents[Pool.STATE, slot])))
    for spot in leaving.pages:
        extent = extents.get((spot.pool, spot.page))
        if extent is not None:
            tokens = _covered_tokens(stores, spot)
            copies.append(PageToHost(spot.pool, spot.page, stores.arena.offset(extent), tokens))
            leased.append((spot.pool, spot.page))
    transaction.lease = stores.leases.acquire(slot, leased)
    transaction.advance(Event.SUBMIT)
    transaction.transfers.add(host.submit_host_copy(copies))


def land_saves(stores: ContextStores, transaction: ContextTransaction) -> None:
    """The reader is done: replicas are published if all is well and wanted, else their extents are free again."""
    assert transaction.save is not None
    assert transaction.lease is not None
    if transaction.has_failure or not transaction.is_wanted:
        stores.copies.abandon_save(transaction.save)
    else:
        stores.copies.complete_save(transaction.save)
    transaction.save = None
    stores.leases.release(transaction.lease)
    transaction.lease = None


def leave_device(stores: ContextStores, leaving: Leaving) -> Amounts:
    """Owners of what has a complete replica keep that alone; returns what the pools got back.

    Content that somebody writes or reads meanwhile stays: it keeps its replica for another time.
    """
    before = stores.free()
    if leaving.slot is not None:
        _leave_slot(stores, leaving.slot)
    for spot in leaving.pages:
        _leave_page(stores, spot)
    return stores.free() - before


def _leave_slot(stores: ContextStores, slot: SlotId) -> None:
    if stores.copies.find_host(Pool.STATE, slot) is None or stores.slots.readers(slot):
        return
    points = [point for point, checkpoint in stores.checkpoints.items() if checkpoint.slot == slot]
    if not points or len(points) != stores.slots.refs(slot):
        return
    extent = stores.copies.hand_over_replica(Pool.STATE, slot)
    for _ in points[1:]:
        stores.arena.share(extent)
    for point in points:
        stores.slots.drop(stores.checkpoints.demote(point, extent))


def _leave_page(stores: ContextStores, spot: PageSpot) -> None:
    pages = stores.pages[spot.pool]
    if stores.copies.find_host(spot.pool, spot.page) is None or pages.readers(spot.page):
        return
    sharing = list_owners(stores, spot)
    if not sharing or len(sharing) != pages.refs(spot.page) or any(directory.has_writer for directory in sharing):
        return
    extent = stores.copies.hand_over_replica(spot.pool, spot.page)
    for _ in sharing[1:]:
        stores.arena.share(extent)
    for directory in sharing:
        directory.tables[spot.pool].demote(spot.index, extent)


def list_owners(stores: ContextStores, spot: PageSpot) -> list[KvDirectory]:
    """Histories that have the page."""
    return stores.directories.list_sharing(spot.pool, spot.index, spot.page)


def _covered_tokens(stores: ContextStores, spot: PageSpot) -> int:
    """Tokens of the page that somebody needs; what lies beyond is not promised to anybody."""
    covered = max(directory.covered_tokens(spot.pool, spot.index) for directory in list_owners(stores, spot))
    assert 0 < covered <= PAGE_TOKENS
    return covered


def _shortfall(unplaced: Unplaced) -> Shortfall:
    return Shortfall(Pool.HOST, unplaced.free_bytes + unplaced.gap_bytes, unplaced.free_bytes)
