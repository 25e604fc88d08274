"""Which medium holds a complete copy of which content: host replicas of live device cells, and saves under way.

A cell's content has a version: the cell's generation and how often it was written on since. A host replica counts only
for the version that was copied, and only once the copy has landed (V-05); it is charged from the moment its extent is
reserved (C4). Content that is on the host alone belongs to its owners (points, page tables), not to this table.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninfer.base.ids import Handle
from ninfer.base.pools import Pool

from .cells import CellPool, CellState
from .extents import HostArena, HostNeed, Unplaced
from .handles import HandleTable

Cell = tuple[Pool, int]
"""A device cell: its pool and its id there."""


@dataclass(frozen=True, slots=True)
class Version:
    """Names one content of a cell; it changes with every write and every new use of the cell."""

    generation: int
    writes: int


@dataclass(frozen=True, slots=True)
class SaveTarget:
    """One block to copy to the host: which cell, of which version, into which extent."""

    pool: Pool
    cell: int
    version: Version
    extent: Handle


class Copies:
    """Host replicas by device cell, and saves by handle. `block_bytes`: bytes of one cell, per pool."""

    def __init__(self, arena: HostArena, pools: Mapping[Pool, CellPool], block_bytes: Mapping[Pool, int]) -> None:
        self.arena = arena
        self._pools = dict(pools)
        self._block_bytes = dict(block_bytes)
        self._writes = {pool: array("q", [0]) * (cells.capacity + 1) for pool, cells in pools.items()}
        self._replicas: dict[Cell, Handle] = {}
        self._replica_of = {pool: np.full(cells.capacity + 1, -1, np.int32) for pool, cells in pools.items()}
        self._saves: HandleTable[tuple[SaveTarget, ...]] = HandleTable()
        self._saving: set[Cell] = set()
        for cells in pools.values():
            cells.watch(self)

    def block_bytes(self, pool: Pool) -> int:
        """Bytes of one page or StateImage on the host, the same as on the device (settled decision 19)."""
        return self._block_bytes[pool]

    def version(self, pool: Pool, cell: int) -> Version:
        """What the cell holds now."""
        return Version(self._pools[pool].generation(cell), self._writes[pool][cell])

    def find_host(self, pool: Pool, cell: int) -> Handle | None:
        """A complete host replica of what the cell holds now (V-05)."""
        return self._replicas.get((pool, cell))

    def list_hosts(self, pool: Pool, cells: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """`find_host` for many cells at once: indexes of extents, -1 where there is no replica."""
        return self._replica_of[pool][cells]

    def find_unplaced(self, cells: Iterable[Cell], drops: Iterable[Handle] = ()) -> Unplaced | None:
        """Would saves of these cells fit, after these references went? Changes nothing (I11)."""
        return self.arena.find_unplaced(self._list_needs(self._list_unsaved(cells)), drops)

    def reserve_saves(self, cells: Iterable[Cell]) -> Handle | Unplaced:
        """Extents for all cells that have no replica yet, or nothing (V-04).

        The caller protects the cells by a reader lease until the save is completed or abandoned (V-03).
        """
        missing = self._list_unsaved(cells)
        assert self._saving.isdisjoint(missing), "V-05: a cell is in two saves at once"
        for pool, cell in missing:
            assert self._pools[pool].state(cell) is CellState.LIVE, f"V-05: {pool.value} cell {cell} is not complete"
        extents = self.arena.reserve(self._list_needs(missing))
        if isinstance(extents, Unplaced):
            return extents
        self._saving.update(missing)
        targets = zip(missing, extents, strict=True)
        return self._saves.insert(
            tuple(SaveTarget(pool, cell, self.version(pool, cell), extent) for (pool, cell), extent in targets)
        )

    def list_targets(self, save: Handle) -> tuple[SaveTarget, ...]:
        """What a save still has to copy."""
        return self._saves[save]

    def complete_save(self, save: Handle) -> None:
        """The copies have landed: replicas are visible from here on, but those of outdated content (V-05)."""
        for target in self._close(save):
            if target.version == self.version(target.pool, target.cell):
                self._set_replica(target.pool, target.cell, target.extent)
            else:
                self.arena.drop(target.extent)

    def abandon_save(self, save: Handle) -> None:
        """Nothing was copied, or it failed: the extents are free again."""
        for target in self._close(save):
            self.arena.drop(target.extent)

    def adopt_replica(self, pool: Pool, cell: int, extent: Handle) -> None:
        """A restore has landed in the cell; the extent it came from is its replica. Takes over a reference."""
        assert (pool, cell) not in self._replicas, f"V-01: {pool.value} cell {cell} has two replicas"
        assert self._pools[pool].state(cell) is CellState.LIVE, f"V-05: {pool.value} cell {cell} is not complete"
        assert self.arena.extent_bytes(extent) == self._block_bytes[pool]
        self._set_replica(pool, cell, extent)

    def hand_over_replica(self, pool: Pool, cell: int) -> Handle:
        """The device copy is about to go: the reference of its replica passes to the caller."""
        return self._take_replica(pool, cell)

    def drop_replica(self, pool: Pool, cell: int) -> bool:
        """Give up a safe duplicate; the device copy stays (I11). True: its bytes are free."""
        return self.arena.drop(self._take_replica(pool, cell))

    @property
    def replicas(self) -> int:
        """How many safe duplicates there are."""
        return len(self._replicas)

    def list_replicas(self) -> list[tuple[Pool, int, Handle]]:
        """All safe duplicates, in order of pool and cell."""
        order = {pool: index for index, pool in enumerate(self._pools)}
        cells = sorted(self._replicas, key=lambda cell: (order[cell[0]], cell[1]))
        return [(pool, cell, self._replicas[pool, cell]) for pool, cell in cells]

    def list_saves(self) -> list[Handle]:
        """Saves under way. For audits: each belongs to a transaction."""
        return [save for save, _ in self._saves.items()]

    def count_references(self) -> dict[Handle, int]:
        """References of extents that this table owns. For audits."""
        counts: dict[Handle, int] = {}
        for extent in self._replicas.values():
            counts[extent] = counts.get(extent, 0) + 1
        for _, targets in self._saves.items():
            for target in targets:
                counts[target.extent] = counts.get(target.extent, 0) + 1
        return counts

    def cell_written(self, pool: Pool, cell: int) -> None:
        """The cell's content goes on: what was copied of it is another version."""
        self._writes[pool][cell] += 1
        self._forget(pool, cell)

    def cell_freed(self, pool: Pool, cell: int) -> None:
        """Nobody needs the content any more."""
        assert (pool, cell) not in self._saving, f"V-03: {pool.value} cell {cell} was freed while it is copied"
        self._forget(pool, cell)

    def audit(self) -> None:
        """Replicas are of live cells, each save's cells are live and in no other, and all bytes are the pool's."""
        self._saves.audit()
        saving: list[Cell] = []
        for _, targets in self._saves.items():
            saving += [(target.pool, target.cell) for target in targets]
        assert len(saving) == len(set(saving)), "V-01: a cell stands in two saves"
        assert set(saving) == self._saving, "V-01: the cells being saved differ"
        for pool, cell in [*saving, *self._replicas]:
            assert self._pools[pool].state(cell) is CellState.LIVE, f"V-05: {pool.value} cell {cell} is not complete"
        for pool, indexes in self._replica_of.items():
            known = {cell: extent.index for (held, cell), extent in self._replicas.items() if held is pool}
            listed = {int(cell): int(indexes[cell]) for cell in np.nonzero(indexes >= 0)[0]}
            assert listed == known, f"V-02: replicas of {pool.value} differ"
        for (pool, _), extent in self._replicas.items():
            assert self.arena.extent_bytes(extent) == self._block_bytes[pool], "V-01: a replica of another length"

    def _forget(self, pool: Pool, cell: int) -> None:
        if (pool, cell) in self._replicas:
            self.arena.drop(self._take_replica(pool, cell))

    def _set_replica(self, pool: Pool, cell: int, extent: Handle) -> None:
        self._replicas[pool, cell] = extent
        self._replica_of[pool][cell] = extent.index
        self._pools[pool].touch(cell)

    def _take_replica(self, pool: Pool, cell: int) -> Handle:
        self._replica_of[pool][cell] = -1
        self._pools[pool].touch(cell)
        return self._replicas.pop((pool, cell))

    def _close(self, save: Handle) -> tuple[SaveTarget, ...]:
        targets = self._saves.remove(save)
        self._saving.difference_update((target.pool, target.cell) for target in targets)
        return targets

    def _list_unsaved(self, cells: Iterable[Cell]) -> list[Cell]:
        return [cell for cell in dict.fromkeys(cells) if cell not in self._replicas]

    def _list_needs(self, cells: Sequence[Cell]) -> list[HostNeed]:
        """Runs of equal length, in the order of the cells."""
        needs: list[HostNeed] = []
        for pool, _ in cells:
            length = self._block_bytes[pool]
            count = 1
            if needs and needs[-1].extent_bytes == length:
                count += needs.pop().count
            needs.append(HostNeed(length, count))
        return needs
