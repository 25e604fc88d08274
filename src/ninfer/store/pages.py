"""One KV pool: pages of 64 tokens. Adds to the plain cells what a whole page table needs at once.

Whole tables are counted as vectors, so that a fork of a 200k-token history costs microseconds. Which tokens a page
holds is the directory's knowledge.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninfer.base.pools import KV_POOLS, Pool

from .cells import CellPool, CellState
from .epoch import Epoch


class PagePool(CellPool):
    """Pages of one KV pool. `table` arguments are int32 views of distinct page ids."""

    def __init__(self, pool: Pool, capacity: int, epoch: Epoch) -> None:
        assert pool in KV_POOLS
        super().__init__(pool, capacity, epoch)
        self._refs_vector = np.frombuffer(self._refs, dtype=np.int32)
        self._state_vector = np.frombuffer(self._state, dtype=np.int8)
        self._touched_vector = np.frombuffer(self._touched, dtype=np.int8)

    def list_refs(self) -> npt.NDArray[np.int32]:
        """References of every page, by id: a view, for who asks about whole tables."""
        return self._refs_vector

    def share_table(self, table: memoryview) -> None:
        """One owner more for every page of the table. Only complete pages are shared (V-05)."""
        ids = np.frombuffer(table, dtype=np.int32)
        assert (self._state_vector[ids] == CellState.LIVE).all(), f"V-05: an unfinished page of {self.pool.value}"
        self._refs_vector[ids] += 1
        self._touched_vector[ids] = 1
        self._epoch.advance()

    def list_freed(self, tables: list[memoryview]) -> list[int]:
        """Pages that dropping all these tables together would free; a page may stand in several of them.

        Entries below 0 stand for pages that are not on the device, and are passed over.
        """
        if not tables:
            return []
        ids = np.concatenate([np.frombuffer(table, dtype=np.int32) for table in tables])
        ids = ids[ids > 0]
        if len(tables) == 1:
            freed: list[int] = ids[self._refs_vector[ids] == 1].tolist()
        else:
            ids, drops = np.unique(ids, return_counts=True)
            freed = ids[self._refs_vector[ids] == drops].tolist()
        return freed

    def count_freed(self, tables: list[memoryview]) -> int:
        """How many pages `list_freed` would name."""
        return len(self.list_freed(tables))
