"""Append-only int32 buffers: token ledgers and page tables are memory, not Python lists (settled decision 21)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

_FIRST_CAPACITY = 64


class IntBuffer:
    """A growing run of int32. Views stay valid while the buffer grows: growth moves to a new store.

    `truncate` followed by `append` writes where an old view still looks; only page tables do that, and never
    while a unit that reads the view is in flight.
    """

    __slots__ = ("_count", "_store")

    def __init__(self, values: Iterable[int] | bytes | memoryview = ()) -> None:
        if isinstance(values, (bytes, memoryview)):
            self._store = array("i", bytes(values))
        else:
            self._store = array("i", values)
        self._count = len(self._store)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> int:
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._store[index if index >= 0 else self._count + index]

    def __iter__(self) -> Iterator[int]:
        return iter(self.view())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntBuffer):
            return NotImplemented
        return len(self) == len(other) and self.starts_with(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"IntBuffer({self._count} ints)"

    def append(self, value: int) -> None:
        """Add one value at the end."""
        if self._count == len(self._store):
            self._grow(self._count + 1)
        self._store[self._count] = value
        self._count += 1

    def extend(self, values: Iterable[int]) -> None:
        """Add values at the end, in order."""
        fresh = values if isinstance(values, array) and values.typecode == "i" else array("i", values)
        if not fresh:  # an empty slice assignment counts as a resize, which views forbid
            return
        end = self._count + len(fresh)
        if end > len(self._store):
            self._grow(end)
        self._store[self._count : end] = fresh
        self._count = end

    def truncate(self, count: int) -> None:
        """Keep the first `count` values."""
        assert 0 <= count <= self._count
        self._count = count

    def renew(self) -> None:
        """Move to a new store: old views keep what they show, whatever is written from here on."""
        self._store = array("i", self._store)

    def view(self, start: int = 0, stop: int | None = None) -> memoryview:
        """int32 view of [start, stop), no copy. numpy and torch can wrap it."""
        stop = self._count if stop is None else stop
        assert 0 <= start <= stop <= self._count
        return memoryview(self._store)[start:stop]

    def to_bytes(self, start: int = 0, stop: int | None = None) -> bytes:
        """The values of [start, stop) as native int32 bytes: what is compared and hashed."""
        return self.view(start, stop).tobytes()

    def starts_with(self, other: IntBuffer, count: int | None = None) -> bool:
        """Whether the first `count` (default: all) values of `other` stand at the front of this buffer."""
        count = len(other) if count is None else count
        if count > self._count or count > len(other):
            return False
        return self.to_bytes(0, count) == other.to_bytes(0, count)

    def common_prefix(self, other: IntBuffer) -> int:
        """Length of the longest common prefix."""
        low, high = 0, min(self._count, len(other))
        if self.to_bytes(0, high) == other.to_bytes(0, high):
            return high
        while low + 1 < high:  # equal on [0, low), different somewhere in [low, high)
            middle = (low + high) // 2
            if self.to_bytes(low, middle) == other.to_bytes(low, middle):
                low = middle
            else:
                high = middle
        return low if low >= high or self[low] != other[low] else low + 1

    def _grow(self, need: int) -> None:
        capacity = max(need, 2 * len(self._store), _FIRST_CAPACITY)
        fresh = array("i", bytes(4 * capacity))
        fresh[: self._count] = self._store[: self._count]
        self._store = fresh
