"""What points hold, counted once: cells of the device pools and bytes of the host (H3).

Sharing is nested: whoever shares a page of a history shares all before it. So the pages of a history that an earlier
one has counted are found by bisection, and each page is looked at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ninfer.base.frontier import backend_frontier, pages_for
from ninfer.base.ids import Handle
from ninfer.base.pools import Amounts, Pool
from ninfer.store.checkpoints import Checkpoint
from ninfer.store.stores import ContextStores


def list_footprints(stores: ContextStores, groups: Sequence[Sequence[Handle]]) -> list[Amounts]:
    """For each group what it holds and no group before it does."""
    count = _Count(stores)
    return [count.add(group) for group in groups]


class _Count:
    """Everything counted so far."""

    def __init__(self, stores: ContextStores) -> None:
        self._stores = stores
        self._images: set[object] = set()
        self._entries: dict[Pool, set[int]] = {pool: set() for pool in stores.pages}
        self._reached: dict[int, int] = {}

    def add(self, group: Sequence[Handle]) -> Amounts:
        """Count a group; returns what was new."""
        stores = self._stores
        amounts = dict.fromkeys((Pool.STATE, Pool.HOST, *stores.pages), 0)
        for point in group:
            checkpoint = stores.checkpoints[point]
            image = checkpoint.image if checkpoint.slot is None else checkpoint.slot
            if image not in self._images:
                self._images.add(image)
                amounts[Pool.STATE] += checkpoint.slot is not None
                amounts[Pool.HOST] += stores.copies.block_bytes(Pool.STATE) * (checkpoint.slot is None)
            directory = checkpoint.directory
            if self._reached.get(directory.serial, 0) >= checkpoint.frontier:
                continue
            self._reached[directory.serial] = checkpoint.frontier
            for pool, table in directory.tables.items():
                pages = pages_for(backend_frontier(pool, checkpoint.frontier))
                fresh = self._list_fresh(pool, table.entries.view(0, pages))
                on_host = sum(entry < 0 for entry in fresh) if table.host_pages else 0
                amounts[pool] += len(fresh) - on_host
                amounts[Pool.HOST] += on_host * stores.copies.block_bytes(pool)
        return Amounts.of(amounts)

    def _list_fresh(self, pool: Pool, entries: memoryview) -> list[int]:
        seen = self._entries[pool]
        low, high = 0, len(entries)
        while low < high:
            middle = (low + high) // 2
            if entries[middle] in seen:
                low = middle + 1
            else:
                high = middle
        fresh = entries[low:].tolist()
        seen.update(fresh)
        return fresh


_Cells = list[tuple[Pool, npt.NDArray[np.int64]]]
"""Cells of one group, once each; extents stand under `Pool.HOST`, by index."""


class Footprint:
    """What several groups of points hold together; groups come and go. Good while no content changes its medium."""

    def __init__(self, stores: ContextStores) -> None:
        self._stores = stores
        self._groups: dict[int, _Cells] = {}
        self._counts: dict[Pool, npt.NDArray[np.int32]] = {}
        self._amounts: dict[Pool, int] = {}
        self._extent_bytes: dict[int, int] = {}
        self.clear()

    @property
    def moves(self) -> int:
        """How often content went to another medium or page."""
        return self._stores.directories.moves

    def clear(self) -> None:
        """No groups."""
        stores = self._stores
        sizes = {Pool.STATE: stores.slots.capacity + 1, Pool.HOST: 64}
        sizes |= {pool: pages.capacity + 1 for pool, pages in stores.pages.items()}
        self._counts = {pool: np.zeros(size, np.int32) for pool, size in sizes.items()}
        self._amounts = dict.fromkeys(sizes, 0)
        self._groups.clear()

    def add(self, key: int, points: Sequence[Handle]) -> None:
        """One group more."""
        assert key not in self._groups, f"group {key} is counted already"
        cells = self._groups[key] = list(self._list_cells(points))
        for pool, indexes in cells:
            if pool is Pool.HOST:
                self._note_extents(indexes.tolist())
            counts = self._reach(pool, indexes)
            fresh = indexes[counts[indexes] == 0]
            counts[indexes] += 1
            self._amounts[pool] += self._weigh(pool, fresh)

    def drop(self, key: int) -> None:
        """One group less."""
        for pool, indexes in self._groups.pop(key):
            counts = self._counts[pool]
            counts[indexes] -= 1
            self._amounts[pool] -= self._weigh(pool, indexes[counts[indexes] == 0])

    def count(self, points: Sequence[Handle]) -> Amounts:
        """What one group holds by itself."""
        return list_footprints(self._stores, [points])[0]

    def amounts(self) -> Iterator[tuple[Pool, int]]:
        """What all groups hold together."""
        return iter(self._amounts.items())

    def _list_cells(self, points: Sequence[Handle]) -> Iterator[tuple[Pool, npt.NDArray[np.int64]]]:
        stores, slots, extents = self._stores, set[int](), set[int]()
        deepest: dict[int, Checkpoint] = {}
        for point in points:
            checkpoint = stores.checkpoints[point]
            if checkpoint.slot is not None:
                slots.add(checkpoint.slot)
            elif checkpoint.image is not None:
                extents.add(checkpoint.image.index)
            known = deepest.get(checkpoint.directory.serial)
            if known is None or known.frontier < checkpoint.frontier:
                deepest[checkpoint.directory.serial] = checkpoint
        pages: dict[Pool, list[npt.NDArray[np.int32]]] = {}
        for checkpoint in deepest.values():
            for pool, table in checkpoint.directory.tables.items():
                stop = pages_for(backend_frontier(pool, checkpoint.frontier))
                pages.setdefault(pool, []).append(np.frombuffer(table.entries.view(0, stop), np.int32))
        for pool, tables in pages.items():
            entries = tables[0] if len(tables) == 1 else np.unique(np.concatenate(tables))
            yield pool, entries[entries > 0].astype(np.int64)
            extents.update((~entries[entries < 0]).tolist())
        if slots:
            yield Pool.STATE, np.array(sorted(slots), np.int64)
        if extents:
            yield Pool.HOST, np.array(sorted(extents), np.int64)

    def _reach(self, pool: Pool, indexes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        counts = self._counts[pool]
        if pool is Pool.HOST and len(indexes) and indexes.max() >= len(counts):
            grown = np.zeros(2 * int(indexes.max()) + 2, np.int32)
            grown[: len(counts)] = counts
            counts = self._counts[pool] = grown
        return counts

    def _weigh(self, pool: Pool, indexes: npt.NDArray[np.int64]) -> int:
        if pool is not Pool.HOST:
            return len(indexes)
        return sum(self._extent_bytes[index] for index in indexes.tolist())

    def _note_extents(self, indexes: Sequence[int]) -> None:
        """Their lengths, which are asked for again when they may have gone."""
        arena = self._stores.arena
        self._extent_bytes |= {index: arena.extent_bytes(arena.at(index)) for index in indexes}
