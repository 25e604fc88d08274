"""What points hold, counted once: cells of the device pools and bytes of the host (H3).

Sharing is nested: whoever shares a page of a history shares all before it. So the pages of a history that an earlier
one has counted are found by bisection, and each page is looked at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from ninfer.base.frontier import backend_frontier, pages_for
from ninfer.base.ids import Handle
from ninfer.base.pools import Amounts, Pool
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
