"""Reservations over several pools: all of them or none; what is not used returns at once (V-04).

Knows counts and cells. Does not know what they are reserved for.
"""

from __future__ import annotations

from collections.abc import Mapping

from ninfer.base.ids import Handle, PageId, SlotId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import DEVICE_POOLS, Amounts, Pool

from .cells import CellPool, CellState
from .handles import HandleTable
from .pages import PagePool
from .slots import SlotPool

_Held = dict[Pool, list[int]]
"""Cells of one open reservation, per pool."""


class Reservations:
    """Open reservations, by handle. A closed one is stale and never acts (V-13)."""

    def __init__(self, slots: SlotPool, pages: Mapping[Pool, PagePool]) -> None:
        self._slots = slots
        self._pages = dict(pages)
        self._pools: dict[Pool, CellPool] = {Pool.STATE: slots, **pages}
        self._open: HandleTable[_Held] = HandleTable()

    def find_gap(self, need: Amounts) -> Shortfall | None:
        """The first pool that cannot give `need` now: state first, then the KV pools (I4)."""
        for pool in DEVICE_POOLS:
            wanted = need[pool]
            if not wanted:
                continue
            free = self._pools[pool].free_cells if pool in self._pools else 0
            if wanted > free:
                return Shortfall(pool, wanted, free)
        return None

    def reserve(self, need: Amounts) -> Handle | Shortfall:
        """Take `need` from all its pools, or change nothing and say what was missing (V-04)."""
        gap = self.find_gap(need)
        if gap is not None:
            return gap
        handle = self._open.insert({})
        self._take_more(handle, need)
        return handle

    def extend(self, reservation: Handle, need: Amounts) -> Shortfall | None:
        """Add to an open reservation, in all pools or in none."""
        assert reservation in self._open, f"V-13: stale reservation {reservation}"
        gap = self.find_gap(need)
        if gap is None:
            self._take_more(reservation, need)
        return gap

    def held(self, reservation: Handle, pool: Pool) -> int:
        """Cells of one pool still reserved."""
        return len(self._open[reservation].get(pool, ()))

    def take_slot(self, reservation: Handle) -> SlotId:
        """One reserved slot becomes filling and belongs to the caller."""
        slot = SlotId(self._open[reservation][Pool.STATE].pop(0))
        self._slots.fill([slot])
        return slot

    def take_pages(self, reservation: Handle, pool: Pool, count: int) -> list[PageId]:
        """`count` reserved pages, lowest first, become filling and belong to the caller."""
        held = self._open[reservation].get(pool, [])
        assert count <= len(held), f"V-04: a unit needs {count} pages of {pool.value}, its permit has {len(held)}"
        taken = [PageId(page) for page in held[:count]]
        del held[:count]
        self._pages[pool].fill(taken)
        return taken

    def forfeit(self, reservation: Handle) -> None:
        """Close the reservation; what was not taken is free again at once (V-04)."""
        for pool, cells in self._open.remove(reservation).items():
            self._pools[pool].forfeit(cells)

    def count_reserved(self) -> dict[Pool, int]:
        """Cells in open reservations, recounted. For audits."""
        counts = dict.fromkeys(self._pools, 0)
        for _, held in self._open.items():
            for pool, cells in held.items():
                counts[pool] += len(cells)
        return counts

    def list_open(self) -> list[Handle]:
        """Open reservations. For audits: each has an owner above."""
        return [handle for handle, _ in self._open.items()]

    def audit(self) -> None:
        """Every reserved cell stands in exactly one open reservation (V-01, V-04)."""
        self._open.audit()
        for pool, cells in self._pools.items():
            mine = sorted(cell for _, held in self._open.items() for cell in held.get(pool, ()))
            if not mine and not cells.count_cells(CellState.RESERVED):
                continue
            assert mine == cells.list_cells(CellState.RESERVED), f"V-04: reserved cells of {pool.value} differ"

    def _take_more(self, reservation: Handle, need: Amounts) -> None:
        held = self._open[reservation]
        for pool in DEVICE_POOLS:
            count = need[pool]
            if count:
                held.setdefault(pool, []).extend(self._pools[pool].reserve(count))
