"""A table whose entries are named by handles. Knows that a name can be used again; does not know what is stored.

An index is reused, lowest first, with the next generation: a stale handle fails an assertion and never reaches the
entry that took its place (V-13).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

from ninfer.base.ids import Handle

T = TypeVar("T")


class HandleTable(Generic[T]):
    """Entries by handle, in deterministic order."""

    __slots__ = ("_entries", "_free", "_generations")

    def __init__(self) -> None:
        self._entries: dict[int, T] = {}
        self._generations: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, handle: Handle) -> bool:
        return handle.index in self._entries and self._generations[handle.index] == handle.generation

    def __getitem__(self, handle: Handle) -> T:
        index = handle.index
        entry = self._entries.get(index)
        assert entry is not None and self._generations[index] == handle.generation, f"V-13: stale handle {handle}"
        return entry

    def at(self, index: int) -> Handle:
        """The handle now in use for an index: for owners that keep plain integers, and hold what they name."""
        assert index in self._entries, f"V-13: nothing stands at {index}"
        return Handle(index, self._generations[index])

    def holds(self, index: int) -> bool:
        """Whether something stands at an index."""
        return index in self._entries

    def insert(self, entry: T) -> Handle:
        """Store an entry under a fresh handle."""
        if self._free:
            index = heapq.heappop(self._free)
        else:
            index = len(self._generations)
            self._generations.append(0)
        self._entries[index] = entry
        return Handle(index, self._generations[index])

    def replace(self, handle: Handle, entry: T) -> None:
        """Put another entry under a valid handle."""
        assert handle in self, f"V-13: stale handle {handle}"
        self._entries[handle.index] = entry

    def remove(self, handle: Handle) -> T:
        """End the handle; returns the entry."""
        assert handle in self, f"V-13: stale handle {handle}"
        entry = self._entries.pop(handle.index)
        self._generations[handle.index] += 1
        heapq.heappush(self._free, handle.index)
        return entry

    def items(self) -> Iterator[tuple[Handle, T]]:
        """All entries, by index."""
        for index in sorted(self._entries):
            yield Handle(index, self._generations[index]), self._entries[index]

    def audit(self) -> None:
        """Every index is either used or free, exactly once."""
        assert len(set(self._free)) == len(self._free), "V-01: a free index is listed twice"
        used = set(self._entries)
        assert used.isdisjoint(self._free), "V-01: an index is both free and used"
        assert used | set(self._free) == set(range(len(self._generations))), "V-01: an index is lost"
