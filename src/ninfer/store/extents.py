"""The pinned host arena as accounting: extents of bytes, their references, readers and generations (C4).

First fit by address, split on allocation, merged when the last reference goes. Answers what would fit after given
releases without changing anything (I11). Knows offsets and bytes; what an extent holds, and whether it is complete, is
the knowledge of `copies`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninfer.base.ids import Handle

from .epoch import Epoch
from .handles import HandleTable


@dataclass(frozen=True, slots=True)
class HostNeed:
    """`count` allocations of `extent_bytes` each: a StateImage whole, KV page by page (I11)."""

    extent_bytes: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Some allocation finds no room. A value: the caller may free something and ask again.

    `extent_bytes`: the largest allocation that did not fit. Enough free bytes in sum is not room (I11).
    """

    need_bytes: int
    free_bytes: int
    extent_bytes: int

    @property
    def gap_bytes(self) -> int:
        """What a release is worth at most: the gap in sum, or, without one, the largest allocation left out (I11)."""
        gap = self.need_bytes - self.free_bytes
        return gap if gap > 0 else self.extent_bytes


@dataclass(slots=True)
class _Extent:
    offset: int
    extent_bytes: int
    refs: int = 1
    readers: int = 0


class FreeRuns:
    """Disjoint free runs in order of address, never touching each other."""

    __slots__ = ("lengths", "starts")

    def __init__(self, starts: list[int], lengths: list[int]) -> None:
        self.starts = starts
        self.lengths = lengths

    def fork(self) -> FreeRuns:
        """An independent copy, for a question."""
        return FreeRuns(self.starts.copy(), self.lengths.copy())

    def take(self, extent_bytes: int, count: int) -> list[int]:
        """Offsets of up to `count` equal extents by first fit; the runs shrink.

        One pass: a run too short for an extent stays too short for the next of the same length.
        """
        offsets: list[int] = []
        emptied = False
        for index, length in enumerate(self.lengths):
            if length < extent_bytes:
                continue
            fits = min(length // extent_bytes, count - len(offsets))
            start, taken = self.starts[index], fits * extent_bytes
            offsets.extend(range(start, start + taken, extent_bytes))
            self.starts[index], self.lengths[index] = start + taken, length - taken
            emptied |= length == taken
            if len(offsets) == count:
                break
        if emptied:
            kept = [index for index, length in enumerate(self.lengths) if length]
            self.starts[:] = [self.starts[index] for index in kept]
            self.lengths[:] = [self.lengths[index] for index in kept]
        return offsets

    def give(self, offset: int, extent_bytes: int) -> None:
        """Return a run; it merges with the neighbours that it touches."""
        at = bisect_left(self.starts, offset)
        before = at > 0 and self.starts[at - 1] + self.lengths[at - 1] == offset
        after = at < len(self.starts) and self.starts[at] == offset + extent_bytes
        match before, after:
            case True, True:
                self.lengths[at - 1] += extent_bytes + self.lengths[at]
                del self.starts[at], self.lengths[at]
            case True, False:
                self.lengths[at - 1] += extent_bytes
            case False, True:
                self.starts[at] = offset
                self.lengths[at] += extent_bytes
            case _:
                self.starts.insert(at, offset)
                self.lengths.insert(at, extent_bytes)

    def audit(self) -> None:
        """In order, none of them empty, no two of them touching (V-01)."""
        reach = -1
        for start, length in zip(self.starts, self.lengths, strict=True):
            assert start > reach, f"V-01: two free runs touch or cross at {start}"
            assert length > 0, f"V-01: an empty run at {start}"
            reach = start + length


class HostArena:
    """`capacity_bytes` of host memory, shared by StateImages, KV pages and snapshots without quotas (C2, C4)."""

    def __init__(self, capacity_bytes: int, epoch: Epoch) -> None:
        assert capacity_bytes >= 0
        self.capacity_bytes = capacity_bytes
        self._epoch = epoch
        self._free = FreeRuns([0], [capacity_bytes]) if capacity_bytes else FreeRuns([], [])
        self._free_bytes = capacity_bytes
        self._extents: HandleTable[_Extent] = HandleTable()
        self._sole_bytes = np.zeros(64, np.int64)
        self._touched: set[int] = set()

    @property
    def free_bytes(self) -> int:
        """Bytes free in sum; whether an allocation fits is a question of placement."""
        return self._free_bytes

    def __len__(self) -> int:
        return len(self._extents)

    def __contains__(self, extent: Handle) -> bool:
        return extent in self._extents

    def at(self, index: int) -> Handle:
        """The extent that an owner remembers by its index alone."""
        return self._extents.at(index)

    def holds(self, index: int) -> bool:
        """Whether an extent stands at that index."""
        return self._extents.holds(index)

    def offset(self, extent: Handle) -> int:
        """First byte of an extent."""
        return self._extents[extent].offset

    def extent_bytes(self, extent: Handle) -> int:
        """Length of an extent in bytes."""
        return self._extents[extent].extent_bytes

    def refs(self, extent: Handle) -> int:
        """References of one extent, reader leases included."""
        return self._extents[extent].refs

    def readers(self, extent: Handle) -> int:
        """Reader leases on one extent; each of them is also a reference."""
        return self._extents[extent].readers

    def reserve(self, needs: Sequence[HostNeed]) -> list[Handle] | Unplaced:
        """Place all allocations, or change nothing (V-04). They are charged from here on (C4).

        Extents come in the order of `needs`; the caller owns one reference of each.
        """
        unplaced = self.find_unplaced(needs)
        if unplaced is not None:
            return unplaced
        placed: list[Handle] = []
        for need in needs:
            for offset in self._free.take(need.extent_bytes, need.count):
                placed.append(self._extents.insert(_Extent(offset, need.extent_bytes)))
        for extent in placed:
            self._note_owners(extent)
        self._free_bytes -= _sum_bytes(needs)
        self._epoch.advance()
        return placed

    def find_unplaced(self, needs: Sequence[HostNeed], drops: Iterable[Handle] = ()) -> Unplaced | None:
        """Would `needs` fit, one after another, once a reference of each handle in `drops` is gone? Changes nothing.

        A handle may stand in `drops` several times: once for each reference. None: everything fits.
        """
        assert all(need.extent_bytes > 0 and need.count >= 0 for need in needs)
        free = self._free.fork()
        free_bytes = self._free_bytes
        for extent in self._list_ended(drops):
            free.give(extent.offset, extent.extent_bytes)
            free_bytes += extent.extent_bytes
        missing = 0
        for need in needs:
            if len(free.take(need.extent_bytes, need.count)) < need.count:
                missing = max(missing, need.extent_bytes)
        return Unplaced(_sum_bytes(needs), free_bytes, missing) if missing else None

    def count_freed(self, drops: Iterable[Handle]) -> int:
        """Bytes that come free when one reference of each handle in `drops` goes; shared ones count once (I11)."""
        return sum(extent.extent_bytes for extent in self._list_ended(drops))

    def list_sole_bytes(self, indexes: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Of many extents at once, by index: the bytes that come free with one reference of each; 0 where others stay.

        No index may stand twice.
        """
        return self._sole_bytes[indexes]

    def share(self, extent: Handle) -> None:
        """One reference more."""
        self._extents[extent].refs += 1
        self._note_owners(extent)
        self._epoch.advance()

    def drop(self, extent: Handle) -> bool:
        """One reference less; True when that was the last one and the bytes are free and merged."""
        held = self._extents[extent]
        assert held.refs > held.readers, f"V-03: extent {extent} is only being read"
        self._epoch.advance()
        held.refs -= 1
        self._note_owners(extent)
        if held.refs:
            return False
        self._extents.remove(extent)
        self._free.give(held.offset, held.extent_bytes)
        self._free_bytes += held.extent_bytes
        return True

    def lease(self, extent: Handle) -> None:
        """One reader more (V-03)."""
        self.share(extent)
        self._extents[extent].readers += 1

    def end_lease(self, extent: Handle) -> None:
        """One reader less."""
        held = self._extents[extent]
        assert held.readers > 0, f"V-03: extent {extent} has no reader"
        held.readers -= 1
        self.drop(extent)

    def take_touched(self) -> list[int]:
        """Indexes of extents whose owners or readers changed since the last call, ascending. For who keeps answers."""
        touched = sorted(self._touched)
        self._touched.clear()
        return touched

    def items(self) -> Iterator[tuple[Handle, int]]:
        """Extents and their references, in order of handle. For audits."""
        return ((extent, held.refs) for extent, held in self._extents.items())

    def audit(self) -> None:
        """Extents and free runs tile the arena, no two free runs touch, references are positive (V-01, V-02)."""
        self._extents.audit()
        self._free.audit()
        spans = [(held.offset, held.extent_bytes) for _, held in self._extents.items()]
        spans += zip(self._free.starts, self._free.lengths, strict=True)
        reach = 0
        for start, length in sorted(spans):
            assert start == reach, f"V-01: the arena has a hole or an overlap at {min(start, reach)}"
            assert length > 0, f"V-01: an empty extent at {start}"
            reach = start + length
        assert reach == self.capacity_bytes, f"V-01: the arena ends at {reach}, not at {self.capacity_bytes}"
        assert sum(self._free.lengths) == self._free_bytes, "V-01: free host bytes differ"
        counted = np.zeros_like(self._sole_bytes)
        for extent, held in self._extents.items():
            counted[extent.index] = held.extent_bytes if held.refs == 1 else 0
        assert np.array_equal(counted, self._sole_bytes), "V-02: bytes of extents with one owner differ"
        for extent, held in self._extents.items():
            assert 0 <= held.readers <= held.refs, f"V-03: extent {extent} has more readers than references"
            assert held.refs > 0, f"V-02: extent {extent} has no owner"

    def _note_owners(self, extent: Handle) -> None:
        self._touched.add(extent.index)
        if extent.index >= len(self._sole_bytes):
            self._sole_bytes = np.concatenate([self._sole_bytes, np.zeros(extent.index + 1, np.int64)])
        held = self._extents[extent]
        self._sole_bytes[extent.index] = held.extent_bytes if held.refs == 1 else 0

    def _list_ended(self, drops: Iterable[Handle]) -> list[_Extent]:
        """Extents whose last reference is among `drops`."""
        counts: dict[Handle, int] = {}
        for extent in drops:
            counts[extent] = counts.get(extent, 0) + 1
        ended = []
        for extent, dropped in counts.items():
            held = self._extents[extent]
            assert dropped <= held.refs, f"V-02: extent {extent} has {held.refs} references, {dropped} would go"
            if dropped == held.refs:
                ended.append(held)
        return ended


def _sum_bytes(needs: Iterable[HostNeed]) -> int:
    return sum(need.extent_bytes * need.count for need in needs)
