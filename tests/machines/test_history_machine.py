"""Histories and points against lists of page objects: coverage, forks, tail copies, trims, and what really frees.

The model of a history is a Python list of objects, one a page; a page is free when no list holds it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from machine_profile import machine_settings

from ninfer.base.buffers import IntBuffer
from ninfer.base.frontier import pages_for, tail_tokens
from ninfer.base.identity import PrefixIdentity
from ninfer.base.ids import Handle, PageId, SlotId
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.device import DeviceFacts
from ninfer.ports.native import PointKind
from ninfer.store.checkpoints import Checkpoint
from ninfer.store.directory import KvDirectory
from ninfer.store.stores import ContextStores

PAGES = 14
SLOTS = 6
POOLS = (Pool.MAIN_KV, Pool.MTP_KV)
FACTS = DeviceFacts(1000, SLOTS, dict.fromkeys(POOLS, PAGES), dict.fromkeys(POOLS, 1), 1)
TOKENS = IntBuffer(range(2000))


def own(pool: Pool, frontier: int) -> int:
    """D7: MTP knows a position once the token behind it is known."""
    return frontier if pool is Pool.MAIN_KV else max(0, frontier - 1)


@dataclass(eq=False)
class History:
    directory: KvDirectory
    pages: dict[Pool, list[object]] = field(default_factory=lambda: {pool: [] for pool in POOLS})
    writer: int | None = 0
    points: dict[Handle, tuple[int, PointKind]] = field(default_factory=dict)

    def trim(self) -> None:
        kept = max([frontier for frontier, _ in self.points.values()] + [self.writer or 0])
        for pool in POOLS:
            del self.pages[pool][pages_for(own(pool, kept)) :]


class HistoryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stores = ContextStores(FACTS)
        self.histories: list[History] = []

    def free_pages(self) -> dict[Pool, int]:
        held = {pool: {id(page) for history in self.histories for page in history.pages[pool]} for pool in POOLS}
        return {pool: PAGES - len(held[pool]) for pool in POOLS}

    def lacks(self, need: dict[Pool, int]) -> bool:
        return any(count > self.free_pages()[pool] for pool, count in need.items())

    def free_slots(self) -> int:
        return SLOTS - sum(len(history.points) for history in self.histories)

    def writing(self) -> list[History]:
        return [history for history in self.histories if history.writer is not None]

    def points(self) -> list[tuple[Handle, History]]:
        return sorted(((p, h) for h in self.histories for p in h.points), key=lambda pair: pair[0])

    def take_pages(self, need: dict[Pool, int]) -> dict[Pool, list[PageId]]:
        reservation = self.stores.reservations.reserve(Amounts.of(need))
        assert isinstance(reservation, Handle)
        taken = {pool: self.stores.reservations.take_pages(reservation, pool, count) for pool, count in need.items()}
        self.stores.reservations.forfeit(reservation)
        return taken

    def take_slot(self) -> SlotId:
        slot = SlotId(self.stores.slots.reserve(1)[0])
        self.stores.slots.fill([slot])
        self.stores.slots.publish([slot])
        return slot

    def publish(self, history: History, frontier: int, kind: PointKind) -> None:
        identity = PrefixIdentity(b"", TOKENS, frontier)
        point = self.stores.checkpoints.publish(Checkpoint(identity, self.take_slot(), history.directory, kind))
        history.points[point] = (frontier, kind)

    def retire(self, point: Handle) -> None:
        self.stores.checkpoints.retire(point)
        for history in self.histories:
            if history.points.pop(point, None) is not None:
                history.trim()
        self.histories = [h for h in self.histories if h.points or h.writer is not None]

    @rule()
    def open(self) -> None:
        directory = self.stores.directories.open()
        directory.open_writer(0)
        self.histories.append(History(directory))

    @precondition(lambda self: self.writing())
    @rule(data=st.data(), tokens=st.integers(1, 200))
    def write(self, data: st.DataObject, tokens: int) -> None:
        history = data.draw(st.sampled_from(self.writing()))
        assert history.writer is not None
        stop = history.writer + tokens
        need = {pool: pages_for(own(pool, stop)) - len(history.pages[pool]) for pool in POOLS}
        assert history.directory.need_pages(stop) == {pool: count for pool, count in need.items() if count}
        if self.lacks(need):
            return
        history.directory.grow(stop, self.take_pages(need))
        history.directory.commit(stop)
        for pool, count in need.items():
            history.pages[pool] += [object() for _ in range(count)]
        history.writer = stop

    @precondition(lambda self: self.writing() and self.free_slots())
    @rule(data=st.data())
    def capture(self, data: st.DataObject) -> None:
        """F2: an inner point takes a slot and not one page."""
        history = data.draw(st.sampled_from(self.writing()))
        if not history.writer or any(kind is PointKind.INPUT_POINT for _, kind in history.points.values()):
            return
        before = self.stores.free()
        self.publish(history, data.draw(st.integers(1, history.writer)), PointKind.INPUT_POINT)
        assert before - self.stores.free() == Amounts(state=1)

    @precondition(lambda self: self.writing())
    @rule(data=st.data(), freezes=st.booleans())
    def end(self, data: st.DataObject, freezes: bool) -> None:
        history = data.draw(st.sampled_from(self.writing()))
        if freezes and history.writer and self.free_slots():
            self.publish(history, history.writer, PointKind.END)
        history.directory.close_writer()
        self.stores.directories.close_unheld(history.directory)
        history.writer = None
        history.trim()
        self.histories = [h for h in self.histories if h.points or h.writer is not None]

    @precondition(lambda self: self.points())
    @rule(data=st.data())
    def retire_one(self, data: st.DataObject) -> None:
        point, _ = data.draw(st.sampled_from(self.points()))
        self.retire(point)
        with pytest.raises(AssertionError, match="V-13"):
            self.stores.checkpoints.retire(point)

    @precondition(lambda self: self.points())
    @rule(data=st.data())
    def retire_several_as_promised(self, data: st.DataObject) -> None:
        """B7: the amount named beforehand is what really returns."""
        points = data.draw(
            st.lists(st.sampled_from([p for p, _ in self.points()]), min_size=1, max_size=4, unique=True)
        )
        promised = self.stores.checkpoints.count_freed(points)
        before = self.stores.free()
        for point in points:
            self.retire(point)
        assert self.stores.free() - before == promised

    @precondition(lambda self: self.points())
    @rule(data=st.data())
    def take_over(self, data: st.DataObject) -> None:
        """F2: deeper points end, the history is trimmed, a tail that others see is copied first."""
        point, history = data.draw(st.sampled_from(self.points()))
        if history.writer is not None:
            with pytest.raises(AssertionError, match="V-09"):
                history.directory.open_writer(history.points[point][0])
            return
        frontier = history.points[point][0]
        copies = {pool: 1 for pool in POOLS if self.shares_tail(history, pool, frontier)}
        if self.lacks(copies):
            return
        for other in [p for p, (at, kind) in history.points.items() if at > frontier or kind is PointKind.END]:
            if other != point:
                self.retire(other)
        tails = history.directory.list_shared_tails(frontier)
        assert [pool for pool, _ in tails] == list(copies)
        history.directory.open_writer(frontier)
        history.writer = frontier
        if history.points[point][1] is PointKind.END:
            self.retire(point)
        history.trim()
        for pool, pages in self.take_pages(copies).items():
            history.directory.tables[pool].replace(history.directory.page_count(pool) - 1, pages[0])
            history.pages[pool][-1] = object()

    def shares_tail(self, history: History, pool: Pool, frontier: int) -> bool:
        """Whether a writer at `frontier` would write a page that other histories have as well."""
        if not tail_tokens(own(pool, frontier)):
            return False
        page = history.pages[pool][pages_for(own(pool, frontier)) - 1]
        return sum(any(page is other for other in one.pages[pool]) for one in self.histories) > 1

    @precondition(lambda self: self.points())
    @rule(data=st.data())
    def branch(self, data: st.DataObject) -> None:
        """F2: full pages are shared, the partly filled tail is copied."""
        point, parent = data.draw(st.sampled_from(self.points()))
        frontier = parent.points[point][0]
        copies = {pool: 1 for pool in POOLS if tail_tokens(own(pool, frontier))}
        if self.lacks(copies):
            return
        before = self.stores.free()
        tails = {pool: pages[0] for pool, pages in self.take_pages(copies).items()}
        child = self.stores.directories.fork(parent.directory, frontier, tails)
        child.commit(frontier)
        assert before - self.stores.free() == Amounts.of(copies)
        pages: dict[Pool, list[object]] = {}
        for pool in POOLS:
            pages[pool] = parent.pages[pool][: own(pool, frontier) // 64]
            pages[pool] += [object() for _ in range(copies.get(pool, 0))]
        self.histories.append(History(child, pages, frontier))

    @invariant()
    def stores_equal_model(self) -> None:
        self.stores.audit()
        assert self.stores.free() == Amounts.of({Pool.STATE: self.free_slots(), **self.free_pages()})
        for pool in POOLS:
            names: dict[int, int] = {}
            for history in self.histories:
                table = history.directory.tables[pool].entries
                assert len(table) == len(history.pages[pool])
                for page, naive in zip(table, history.pages[pool], strict=True):
                    assert names.setdefault(id(naive), page) == page, "one naive page, two ids"
            assert len(set(names.values())) == len(names), "two naive pages, one id"


HistoryMachine.TestCase.settings = machine_settings(120, 40)
test_histories = HistoryMachine.TestCase
