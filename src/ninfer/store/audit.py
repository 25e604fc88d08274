"""The full recount: every owner's references are counted anew and compared with what the pools say (V-01, V-02).

Knows all stores. The owners above them (sequences) name their own slots, pages, reservations and leases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ninfer.base.ids import Handle, PageId, SlotId
from ninfer.base.pools import Pool

from .cells import CellPool, CellState
from .stores import ContextStores


@dataclass(frozen=True, slots=True)
class Owned:
    """What one sequence or transaction owns directly. `writes`: serial of the history it writes."""

    slots: tuple[SlotId, ...]
    pages: tuple[tuple[Pool, PageId], ...]
    reservations: tuple[Handle, ...]
    leases: tuple[Handle, ...]
    writes: int | None = None
    extents: tuple[Handle, ...] = ()
    """Host extents of which it owns a reference of its own."""
    saves: tuple[Handle, ...] = ()


def audit_stores(stores: ContextStores, owners: Sequence[Owned]) -> None:
    """Recount everything from the owners up. AssertionError names the first difference."""
    stores.audit()
    writers = sorted(owner.writes for owner in owners if owner.writes is not None)
    writing = sorted(directory.serial for directory in stores.directories if directory.has_writer)
    assert writers == writing, f"V-09: histories {writing} have writers, sequences write {writers}"
    open_reservations = sorted(handle for owner in owners for handle in owner.reservations)
    assert open_reservations == stores.reservations.list_open(), "V-04: a reservation has no owner"
    open_leases = sorted(handle for owner in owners for handle in owner.leases)
    assert open_leases == stores.leases.list_open(), "V-03: a reader lease has no owner"
    references = _count_references(stores, owners)
    pools: dict[Pool, CellPool] = {Pool.STATE: stores.slots, **stores.pages}
    for pool, cells in pools.items():
        for cell, stored in enumerate(cells.list_owners()):
            counted = references.pop((pool, cell), 0) if cell else 0
            assert counted == stored, f"V-02: {pool.value} cell {cell} has {counted} owners, {stored} are stored"
        owned = len(cells.list_cells(CellState.FILLING)) + len(cells.list_cells(CellState.LIVE))
        reserved = stores.reservations.count_reserved()[pool]
        assert owned + reserved + cells.free_cells == cells.capacity, f"V-01: {pool.value} does not add up"
    _audit_host(stores, owners)
    assert not references, f"V-02: owners refer to cells that do not exist: {references}"


def _count_references(stores: ContextStores, owners: Sequence[Owned]) -> dict[tuple[Pool, int], int]:
    counts: dict[tuple[Pool, int], int] = {}

    def count(pool: Pool, cell: int) -> None:
        counts[pool, cell] = counts.get((pool, cell), 0) + 1

    for directory in stores.directories:
        for pool, table in directory.tables.items():
            for page in table.entries:
                if page > 0:
                    count(pool, page)
    for _, checkpoint in stores.checkpoints.items():
        if checkpoint.slot is not None:
            count(Pool.STATE, checkpoint.slot)
    for pool, cell in stores.leases.list_cells():
        count(pool, cell)
    for owner in owners:
        for slot in owner.slots:
            count(Pool.STATE, slot)
        for pool, page in owner.pages:
            count(pool, page)
    return counts


def _audit_host(stores: ContextStores, owners: Sequence[Owned]) -> None:
    """References of host extents, recounted from tables, points, replicas, saves, leases and owners (V-02)."""
    saves = sorted(save for owner in owners for save in owner.saves)
    assert saves == stores.copies.list_saves(), "V-04: a save has no owner"
    counts = stores.copies.count_references()
    held = [checkpoint.image for _, checkpoint in stores.checkpoints.items() if checkpoint.image is not None]
    held += stores.leases.list_extents()
    held += [extent for owner in owners for extent in owner.extents]
    for directory in stores.directories:
        for table in directory.tables.values():
            held += [extent for _, extent in table.list_missing(len(table.entries))]
    for extent in held:
        counts[extent] = counts.get(extent, 0) + 1
    stored = dict(stores.arena.items())
    assert counts == stored, f"V-02: host extents have owners {counts}, {stored} are stored"
