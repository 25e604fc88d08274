"""The full recount: every owner's references are counted anew and compared with what the pools say (V-01, V-02).

Knows all stores. The owners above them (sequences) name their own slots, pages, reservations and leases.
"""

from __future__ import annotations

from collections import Counter
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
    reserved = stores.reservations.count_reserved()
    pools: dict[Pool, CellPool] = {Pool.STATE: stores.slots, **stores.pages}
    for pool, cells in pools.items():
        counts, stored = references[pool], cells.list_owners()
        wanted = {cell: refs for cell, refs in enumerate(stored) if refs}
        if counts != wanted:
            cell = min(cell for cell in counts.keys() | wanted.keys() if counts.get(cell) != wanted.get(cell))
            words = f"{counts.get(cell, 0)} owners, {wanted.get(cell, 0)} are stored"
            raise AssertionError(f"V-02: {pool.value} cell {cell} has {words}")
        owned = cells.count_cells(CellState.FILLING) + cells.count_cells(CellState.LIVE)
        assert owned + reserved[pool] + cells.free_cells == cells.capacity, f"V-01: {pool.value} does not add up"
    _audit_host(stores, owners)


def _count_references(stores: ContextStores, owners: Sequence[Owned]) -> dict[Pool, Counter[int]]:
    """Owners of each cell, per pool of the device."""
    counts: dict[Pool, Counter[int]] = {Pool.STATE: Counter(), **{pool: Counter() for pool in stores.pages}}
    for directory in stores.directories:
        for pool, table in directory.tables.items():
            entries = table.entries.view()
            counts[pool].update(entries if not table.host_pages else (entry for entry in entries if entry > 0))
    slots = counts[Pool.STATE]
    slots.update(checkpoint.slot for _, checkpoint in stores.checkpoints.items() if checkpoint.slot is not None)
    for pool, cell in stores.leases.list_cells():
        counts[pool][cell] += 1
    for owner in owners:
        slots.update(owner.slots)
        for pool, page in owner.pages:
            counts[pool][page] += 1
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
