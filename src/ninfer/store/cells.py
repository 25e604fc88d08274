"""One pool of equal cells on the device: states, references, generations, free order.

Knows integers only. Does not know what a cell holds, who refers to it, or which tensor it indexes.
Cell 0 is scratch: never given out, outside the capacity (settled decision 18).
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ninfer.base.pools import Pool

from .epoch import Epoch


class CellState(IntEnum):
    """Where a cell stands. Only LIVE content is visible to queries (V-05)."""

    FREE = 0
    RESERVED = 1
    """Promised to one reservation, without content."""
    FILLING = 2
    """Owned, and the target of a copy or unit that has not landed."""
    LIVE = 3


TRANSITIONS: dict[CellState, frozenset[CellState]] = {
    CellState.FREE: frozenset({CellState.RESERVED}),
    CellState.RESERVED: frozenset({CellState.FREE, CellState.FILLING}),
    CellState.FILLING: frozenset({CellState.LIVE, CellState.FREE}),
    CellState.LIVE: frozenset({CellState.FREE, CellState.FILLING}),
}


class CellWatcher(Protocol):
    """Who must know what happens to the content of cells: the table of host replicas."""

    def cell_written(self, pool: Pool, cell: int) -> None: ...

    def cell_freed(self, pool: Pool, cell: int) -> None: ...


class CellPool:
    """`capacity` cells, ids 1..capacity. The lowest free ids go first, so that histories tend to be contiguous."""

    def __init__(self, pool: Pool, capacity: int, epoch: Epoch) -> None:
        assert capacity >= 0
        self.pool = pool
        self.capacity = capacity
        self._epoch = epoch
        self._state = array("b", [CellState.FREE]) * (capacity + 1)
        self._refs = array("i", [0]) * (capacity + 1)
        self._readers = array("i", [0]) * (capacity + 1)
        self._generation = array("q", [0]) * (capacity + 1)
        self._free = list(range(1, capacity + 1))
        self._reserved_cells = 0
        self._filling_cells = 0
        self._leases = 0
        self._touched = bytearray(capacity + 1)
        self._watcher: CellWatcher | None = None

    def watch(self, watcher: CellWatcher) -> None:
        """Tell the one watcher of writes and ends from here on."""
        assert self._watcher is None
        self._watcher = watcher

    @property
    def free_cells(self) -> int:
        """Cells that a reservation can take now."""
        return len(self._free)

    @property
    def unfilled_cells(self) -> int:
        """Cells taken but not yet with complete content: reserved or filling."""
        return self._reserved_cells + self._filling_cells

    @property
    def leased_cells(self) -> int:
        """Reader leases on cells of this pool, in all."""
        return self._leases

    def state(self, cell: int) -> CellState:
        """State of one cell."""
        self._check_id(cell)
        return CellState(self._state[cell])

    def refs(self, cell: int) -> int:
        """Owners of one cell: directories, checkpoints, sequences and reader leases."""
        self._check_id(cell)
        return self._refs[cell]

    def readers(self, cell: int) -> int:
        """Reader leases on one cell; each of them is also a reference."""
        self._check_id(cell)
        return self._readers[cell]

    def list_counts(self) -> tuple[Sequence[int], Sequence[int]]:
        """References and readers of every cell, by id: views for who asks about many cells at one moment."""
        return self._refs, self._readers

    def touch(self, cell: int) -> None:
        """Owners, readers or the host replica of a cell changed."""
        self._touched[cell] = 1

    def take_touched(self) -> npt.NDArray[np.int64]:
        """Cells whose owners, readers or host replica changed since the last call, ascending. For who keeps answers."""
        marks = np.frombuffer(self._touched, np.bool_)
        touched = np.flatnonzero(marks)
        if len(touched):
            marks[touched] = False
        return touched

    def generation(self, cell: int) -> int:
        """How often the cell has been freed."""
        self._check_id(cell)
        return self._generation[cell]

    def reserve(self, count: int) -> list[int]:
        """free -> reserved, lowest ids first. The caller has checked that there are enough."""
        assert 0 <= count <= len(self._free), f"V-04: {count} cells of {self.pool.value} asked, {len(self._free)} free"
        cells = [heapq.heappop(self._free) for _ in range(count)]
        for cell in cells:
            self._move(cell, CellState.RESERVED)
        self._reserved_cells += count
        self._epoch.advance()
        return cells

    def forfeit(self, cells: Sequence[int]) -> None:
        """reserved -> free, at once (V-04)."""
        for cell in cells:
            assert self._state[cell] == CellState.RESERVED, f"V-01: cell {cell} is forfeited but not reserved"
            self._return(cell)
        self._reserved_cells -= len(cells)
        self._epoch.advance()

    def fill(self, cells: Sequence[int]) -> None:
        """reserved -> filling; the caller becomes the one owner."""
        for cell in cells:
            self._move(cell, CellState.FILLING)
            self._refs[cell] = 1
        self._reserved_cells -= len(cells)
        self._filling_cells += len(cells)
        self._epoch.advance()

    def publish(self, cells: Iterable[int]) -> None:
        """filling -> live. From here on queries may see the content (V-05)."""
        for cell in cells:
            self._move(cell, CellState.LIVE)
            self._filling_cells -= 1
        self._epoch.advance()

    def exchange(self, live: int, filling: int) -> None:
        """The content of `filling` is complete and takes the place of `live`, which is void and will be filled again.

        Nobody else owns or reads either of them.
        """
        assert self._refs[live] == self._refs[filling] == 1, f"V-03: cells {live} and {filling} are not one owner's"
        self._move(live, CellState.FILLING)
        self._move(filling, CellState.LIVE)
        self.note_write(live)
        self._epoch.advance()

    def share(self, cell: int) -> None:
        """One owner more. Only complete content is shared (V-05)."""
        assert self._state[cell] == CellState.LIVE, f"V-05: cell {cell} of {self.pool.value} is shared but not live"
        self._refs[cell] += 1
        self._touched[cell] = 1
        self._epoch.advance()

    def note_write(self, cell: int) -> None:
        """The content of a live cell goes on: a writer has appended, or a step runs in place."""
        if self._watcher is not None:
            self._watcher.cell_written(self.pool, cell)

    def lease(self, cell: int) -> None:
        """One reader more (V-03)."""
        self.share(cell)
        self._readers[cell] += 1
        self._leases += 1

    def end_lease(self, cell: int) -> None:
        """One reader less."""
        assert self._readers[cell] > 0, f"V-03: cell {cell} of {self.pool.value} has no reader"
        self._readers[cell] -= 1
        self._leases -= 1
        self.drop(cell)

    def drop(self, cell: int) -> bool:
        """One owner less; True when that was the last one and the cell is free again."""
        assert self._refs[cell] > 0, f"V-02: cell {cell} of {self.pool.value} has no owner to drop"
        assert self._refs[cell] > self._readers[cell], f"V-03: cell {cell} of {self.pool.value} is only being read"
        self._epoch.advance()
        self._refs[cell] -= 1
        self._touched[cell] = 1
        if self._refs[cell]:
            return False
        if self._state[cell] == CellState.FILLING:
            self._filling_cells -= 1
        self._return(cell)
        if self._watcher is not None:
            self._watcher.cell_freed(self.pool, cell)
        return True

    def list_cells(self, state: CellState) -> list[int]:
        """Ids in that state, ascending. For audits."""
        wanted = int(state)
        return [cell for cell, found in enumerate(self._state) if found == wanted and cell]

    def count_cells(self, state: CellState) -> int:
        """How many cells are in that state, scratch left out."""
        return self._state.count(state) - (state is CellState.FREE)

    def list_states(self) -> array[int]:
        """State of every cell by id, scratch included. For audits."""
        return self._state

    def list_owners(self) -> array[int]:
        """Owners of every cell by id, scratch included. For audits."""
        return self._refs

    def list_readers(self) -> array[int]:
        """Readers of every cell by id, scratch included. For audits."""
        return self._readers

    def audit(self) -> None:
        """V-01: each cell is in one state and the states add up; references fit the state."""
        name = self.pool.value
        assert len(self._state) == len(self._refs) == self.capacity + 1
        assert self._state[0] == CellState.FREE, "V-01: the scratch cell was given out"
        assert self._refs[0] == 0, "V-02: the scratch cell has an owner"
        for cell, (state, refs, readers) in enumerate(zip(self._state, self._refs, self._readers, strict=True)):
            if refs or readers or state:
                assert 0 <= readers <= refs, f"V-03: {name} cell {cell} has more readers than refs"
                owned = state >= CellState.FILLING
                assert (refs > 0) == owned, f"V-02: {name} cell {cell} is {CellState(state).name}, refs {refs}"
        assert sorted(self._free) == self.list_cells(CellState.FREE), f"V-01: the free list of {name} differs"
        reserved, filling = (self._state.count(state) for state in (CellState.RESERVED, CellState.FILLING))
        assert reserved == self._reserved_cells, f"V-01: reserved cells of {name} differ"
        assert filling == self._filling_cells, f"V-01: filling cells of {name} differ"

    def _move(self, cell: int, state: CellState) -> None:
        before = CellState(self._state[cell])
        assert state in TRANSITIONS[before], f"V-01: {self.pool.value} cell {cell}: {before.name} -> {state.name}"
        self._state[cell] = state

    def _return(self, cell: int) -> None:
        self._move(cell, CellState.FREE)
        self._generation[cell] += 1
        heapq.heappush(self._free, cell)

    def _check_id(self, cell: int) -> None:
        assert 1 <= cell <= self.capacity, f"{self.pool.value} has no cell {cell}"
