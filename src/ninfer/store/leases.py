"""Reader leases: who reads which slot and pages until a unit or copy has landed (B7, V-03).

A lease owns a reference of each cell it protects: the replica outlives its checkpoint until the reader is done.
Whoever would write in place or delete asks `is_read` first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ninfer.base.ids import Handle, PageId, SlotId
from ninfer.base.pools import Pool

from .handles import HandleTable
from .pages import PagePool
from .slots import SlotPool


@dataclass(frozen=True, slots=True)
class _Lease:
    slot: SlotId | None
    pages: tuple[tuple[Pool, PageId], ...]


class ReaderLeases:
    """Open leases, by handle."""

    def __init__(self, slots: SlotPool, pages: Mapping[Pool, PagePool]) -> None:
        self._slots = slots
        self._pages = dict(pages)
        self._open: HandleTable[_Lease] = HandleTable()
        self._slot_readers: dict[SlotId, int] = {}

    def acquire(self, slot: SlotId | None = None, pages: Sequence[tuple[Pool, PageId]] = ()) -> Handle:
        """Protect a slot and pages. Only complete replicas are read (V-05)."""
        if slot is not None:
            self._slots.share(slot)
            self._slot_readers[slot] = self._slot_readers.get(slot, 0) + 1
        for pool, page in pages:
            self._pages[pool].share(page)
        return self._open.insert(_Lease(slot, tuple(pages)))

    def release(self, lease: Handle) -> None:
        """The reader is done; cells that nobody else owns are free."""
        ended = self._open.remove(lease)
        if ended.slot is not None:
            self._slots.drop(ended.slot)
            self._slot_readers[ended.slot] -= 1
            if not self._slot_readers[ended.slot]:
                del self._slot_readers[ended.slot]
        for pool, page in ended.pages:
            self._pages[pool].drop(page)

    def is_read(self, slot: SlotId) -> bool:
        """Whether some reader is on the slot."""
        return slot in self._slot_readers

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

    def audit(self) -> None:
        """Readers per slot equal the open leases on it (V-02, V-03)."""
        self._open.audit()
        counts: dict[int, int] = {}
        for pool, cell in self.list_cells():
            if pool is Pool.STATE:
                counts[cell] = counts.get(cell, 0) + 1
        assert counts == self._slot_readers, "V-03: readers per slot differ from the open leases"
