"""The host arena against a map of bytes: first fit, split, merge, references, what-if. C4, I11, V-01 to V-04, V-13."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from machine_profile import machine_settings

from ninfer.base.ids import Handle
from ninfer.store.epoch import Epoch
from ninfer.store.extents import FreeRuns, HostArena, HostNeed, Unplaced

SIZES = (1, 2, 3, 5, 8)


@dataclass(eq=False)
class Owned:
    """One naive extent: where it lies, who owns and who reads it."""

    offset: int
    length: int
    owners: int = 1
    readers: int = 0


class ByteMap:
    """The model: who has each byte. A reader believes it at sight."""

    def __init__(self, capacity: int) -> None:
        self.bytes: list[Owned | None] = [None] * capacity

    def place(self, length: int) -> int | None:
        """First fit by address."""
        for offset in range(len(self.bytes) - length + 1):
            if all(byte is None for byte in self.bytes[offset : offset + length]):
                return offset
        return None

    def fill(self, owned: Owned) -> None:
        for at in range(owned.offset, owned.offset + owned.length):
            assert self.bytes[at] is None
            self.bytes[at] = owned

    def clear(self, owned: Owned) -> None:
        self.bytes = [None if byte is owned else byte for byte in self.bytes]

    def fork(self) -> ByteMap:
        copy = ByteMap(0)
        copy.bytes = list(self.bytes)
        return copy

    @property
    def free(self) -> int:
        return sum(byte is None for byte in self.bytes)


class ExtentMachine(RuleBasedStateMachine):
    @initialize(capacity=st.integers(0, 40))
    def begin(self, capacity: int) -> None:
        self.epoch = Epoch()
        self.arena = HostArena(capacity, self.epoch)
        self.map = ByteMap(capacity)
        self.live: dict[Handle, Owned] = {}
        self.gone: list[Handle] = []

    def pick(self, data: st.DataObject) -> Handle:
        return data.draw(st.sampled_from(sorted(self.live)))

    def draw_needs(self, data: st.DataObject) -> list[HostNeed]:
        pairs = st.tuples(st.sampled_from(SIZES), st.integers(0, 4))
        return [HostNeed(size, count) for size, count in data.draw(st.lists(pairs, min_size=1, max_size=3))]

    def expect(self, needs: list[HostNeed], model: ByteMap) -> tuple[list[Owned], int]:
        """Place on the model one by one; returns what was placed and the largest length that was not."""
        placed, missing = [], 0
        for need in needs:
            for _ in range(need.count):
                offset = model.place(need.extent_bytes)
                if offset is None:
                    missing = max(missing, need.extent_bytes)
                else:
                    placed.append(Owned(offset, need.extent_bytes))
                    model.fill(placed[-1])
        return placed, missing

    def compare(self, answer: Unplaced | None, needs: list[HostNeed], free: int, missing: int) -> None:
        if not missing:
            assert answer is None
            return
        wanted = sum(need.extent_bytes * need.count for need in needs)
        assert answer == Unplaced(wanted, free, missing)
        assert answer.gap_bytes == (wanted - free if wanted > free else missing) > 0

    @rule(data=st.data())
    def reserve(self, data: st.DataObject) -> None:
        """All or nothing, by first fit (V-04)."""
        needs = self.draw_needs(data)
        free = self.map.free
        placed, missing = self.expect(needs, self.map.fork())
        before = self.epoch.value
        answer = self.arena.reserve(needs)
        if isinstance(answer, Unplaced):
            self.compare(answer, needs, free, missing)
            assert self.epoch.value == before
            return
        assert not missing
        assert [self.arena.offset(extent) for extent in answer] == [owned.offset for owned in placed]
        assert not set(answer) & set(self.gone), "V-13: a handle was given out twice"
        for extent, owned in zip(answer, placed, strict=True):
            self.live[extent] = owned
            self.map.fill(owned)

    @rule(data=st.data())
    def ask_what_if(self, data: st.DataObject) -> None:
        """I11: the answer is that of really dropping and placing, and nothing changes."""
        needs = self.draw_needs(data)
        drops: list[Handle] = []
        for extent in sorted(self.live):
            owned = self.live[extent]
            drops += [extent] * data.draw(st.sampled_from((0, 0, owned.owners)))
        model = self.map.fork()
        freed = [self.live[e] for e in sorted(set(drops)) if not self.live[e].readers]
        for owned in freed:
            model.clear(owned)
        assert self.arena.count_freed(drops) == sum(owned.length for owned in freed)
        free = model.free
        _, missing = self.expect(needs, model)
        before = self.epoch.value
        self.compare(self.arena.find_unplaced(needs, drops), needs, free, missing)
        assert self.epoch.value == before

    @precondition(lambda self: self.live)
    @rule(data=st.data(), reads=st.booleans())
    def share(self, data: st.DataObject, reads: bool) -> None:
        extent = self.pick(data)
        if reads:
            self.arena.lease(extent)
            self.live[extent].readers += 1
        else:
            self.arena.share(extent)
            self.live[extent].owners += 1

    @precondition(lambda self: self.live)
    @rule(data=st.data(), reads=st.booleans())
    def drop(self, data: st.DataObject, reads: bool) -> None:
        extent = self.pick(data)
        owned = self.live[extent]
        if reads and owned.readers:
            self.arena.end_lease(extent)
            owned.readers -= 1
        elif owned.owners:
            assert self.arena.drop(extent) == (owned.owners + owned.readers == 1)
            owned.owners -= 1
        else:
            with pytest.raises(AssertionError, match="V-03"):
                self.arena.drop(extent)
        if not owned.owners and not owned.readers:
            self.map.clear(owned)
            del self.live[extent]
            self.gone.append(extent)

    @rule()
    def stale_handles_never_act(self) -> None:
        """V-13"""
        for extent in self.gone[-3:]:
            assert extent not in self.arena
            for act in (self.arena.share, self.arena.drop, self.arena.lease, self.arena.offset):
                with pytest.raises(AssertionError, match="V-13"):
                    act(extent)

    @invariant()
    def arena_equals_map(self) -> None:
        """V-01, V-02"""
        if not hasattr(self, "arena"):
            return
        self.arena.audit()
        assert self.arena.free_bytes == self.map.free
        assert len(self.arena) == len(self.live)
        for extent, owned in self.live.items():
            assert self.arena.offset(extent) == owned.offset
            assert self.arena.extent_bytes(extent) == owned.length
            assert self.arena.refs(extent) == owned.owners + owned.readers
            assert self.arena.readers(extent) == owned.readers


ExtentMachine.TestCase.settings = machine_settings(120, 40)
test_extents = ExtentMachine.TestCase


def test_an_audit_sees_runs_that_touch_and_bytes_that_are_lost() -> None:
    """V-01: the audit can fail, in each of its ways."""
    for runs in (FreeRuns([0, 4], [4, 6]), FreeRuns([0], [9]), FreeRuns([1], [9]), FreeRuns([0], [11])):
        arena = HostArena(10, Epoch())
        arena._free = runs
        with pytest.raises(AssertionError, match="V-01"):
            arena.audit()


def test_enough_bytes_in_sum_are_not_room() -> None:
    """I11: a StateImage must lie in one piece; the gap then is the largest allocation."""
    arena = HostArena(30, Epoch())
    extents = arena.reserve([HostNeed(10, 3)])
    assert isinstance(extents, list)
    arena.drop(extents[0])
    arena.drop(extents[2])
    answer = arena.reserve([HostNeed(15)])
    assert answer == Unplaced(15, 20, 15)
    assert answer.gap_bytes == 15
    assert arena.find_unplaced([HostNeed(15)], [extents[1]]) is None
