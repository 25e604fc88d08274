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
    """What one sequence owns directly. `writes`: serial of the history it writes."""

    slots: tuple[SlotId, ...]
    pages: tuple[tuple[Pool, PageId], ...]
    reservations: tuple[Handle, ...]
    leases: tuple[Handle, ...]
    writes: int


def audit_stores(stores: ContextStores, owners: Sequence[Owned]) -> None:
    """Recount everything from the owners up. AssertionError names the first difference."""
    stores.audit()
    writers = sorted(owner.writes for owner in owners)
    writing = sorted(directory.serial for directory in stores.directories if directory.has_writer)
    assert writers == writing, f"V-09: histories {writing} have writers, sequences write {writers}"
    open_reservations = sorted(handle for owner in owners for handle in owner.reservations)
    assert open_reservations == stores.reservations.list_open(), "V-04: a reservation has no owner"
    open_leases = sorted(handle for owner in owners for handle in owner.leases)
    assert open_leases == stores.leases.list_open(), "V-03: a reader lease has no owner"
    references = _count_references(stores, owners)
    pools: dict[Pool, CellPool] = {Pool.STATE: stores.slots, **stores.pages}
    for pool, cells in pools.items():
        for cell in range(1, cells.capacity + 1):
            counted = references.pop((pool, cell), 0)
            stored = cells.refs(cell)
            assert counted == stored, f"V-02: {pool.value} cell {cell} has {counted} owners, {stored} are stored"
        owned = sum(cells.state(cell) in (CellState.FILLING, CellState.LIVE) for cell in range(1, cells.capacity + 1))
        reserved = stores.reservations.count_reserved()[pool]
        assert owned + reserved + cells.free_cells == cells.capacity, f"V-01: {pool.value} does not add up"
    assert not references, f"V-02: owners refer to cells that do not exist: {references}"


def _count_references(stores: ContextStores, owners: Sequence[Owned]) -> dict[tuple[Pool, int], int]:
    counts: dict[tuple[Pool, int], int] = {}

    def count(pool: Pool, cell: int) -> None:
        counts[pool, cell] = counts.get((pool, cell), 0) + 1

    for directory in stores.directories:
        for pool, table in directory.tables.items():
            for page in table.entries:
                count(pool, page)
    for _, checkpoint in stores.checkpoints.items():
        count(Pool.STATE, checkpoint.slot)
    for pool, cell in stores.leases.list_cells():
        count(pool, cell)
    for owner in owners:
        for slot in owner.slots:
            count(Pool.STATE, slot)
        for pool, page in owner.pages:
            count(pool, page)
    return counts
