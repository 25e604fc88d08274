"""Reader leases: who reads which slot and pages until a unit or copy has landed (B7, V-03).

A lease owns a reference of each cell it protects: the replica outlives its checkpoint until the reader is done.
The pools count readers apart from owners, so that whoever would write in place or delete can ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ninfer.base.ids import Handle, PageId, SlotId
from ninfer.base.pools import Pool

from .cells import CellPool
from .extents import HostArena
from .handles import HandleTable
from .pages import PagePool
from .slots import SlotPool


@dataclass(frozen=True, slots=True)
class _Lease:
    slot: SlotId | None
    pages: tuple[tuple[Pool, PageId], ...]
    extents: tuple[Handle, ...]


class ReaderLeases:
    """Open leases, by handle."""

    def __init__(self, slots: SlotPool, pages: Mapping[Pool, PagePool], arena: HostArena) -> None:
        self._slots = slots
        self._arena = arena
        self._pages = dict(pages)
        self._open: HandleTable[_Lease] = HandleTable()

    def acquire(
        self,
        slot: SlotId | None = None,
        pages: Sequence[tuple[Pool, PageId]] = (),
        extents: Sequence[Handle] = (),
    ) -> Handle:
        """Protect a slot, pages and host extents. Only complete replicas are read (V-05)."""
        if slot is not None:
            self._slots.lease(slot)
        for pool, page in pages:
            self._pages[pool].lease(page)
        for extent in extents:
            self._arena.lease(extent)
        return self._open.insert(_Lease(slot, tuple(pages), tuple(extents)))

    def release(self, lease: Handle) -> None:
        """The reader is done; cells that nobody else owns are free."""
        ended = self._open.remove(lease)
        if ended.slot is not None:
            self._slots.end_lease(ended.slot)
        for pool, page in ended.pages:
            self._pages[pool].end_lease(page)
        for extent in ended.extents:
            self._arena.end_lease(extent)

    def list_open(self) -> list[Handle]:
        """Open leases. For audits: each has an owner above."""
        return [handle for handle, _ in self._open.items()]

    def list_cells(self) -> list[tuple[Pool, int]]:
        """Every leased cell, once per lease. For audits."""
        cells: list[tuple[Pool, int]] = []
        for _, lease in self._open.items():
            if lease.slot is not None:
                cells.append((Pool.STATE, lease.slot))
            cells.extend(lease.pages)
        return cells

    def list_extents(self) -> list[Handle]:
        """Every leased host extent, once per lease. For audits."""
        return [extent for _, lease in self._open.items() for extent in lease.extents]

    def audit(self) -> None:
        """Readers of each cell equal the open leases on it (V-03)."""
        self._open.audit()
        counts: dict[tuple[Pool, int], int] = {}
        for leased in self.list_cells():
            counts[leased] = counts.get(leased, 0) + 1
        pools: dict[Pool, CellPool] = {Pool.STATE: self._slots, **self._pages}
        for pool, cells in pools.items():
            for cell, readers in enumerate(cells.list_readers()):
                if readers or counts:
                    counted = counts.get((pool, cell), 0)
                    assert readers == counted, f"V-03: {pool.value} cell {cell} has {counted} readers"
        leased_extents = Counter(self.list_extents())
        for extent, _ in self._arena.items():
            assert self._arena.readers(extent) == leased_extents[extent], f"V-03: readers of extent {extent} differ"
