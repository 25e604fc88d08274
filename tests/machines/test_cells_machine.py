"""Cell pools against a dict of (state, owners, readers): V-01, V-02, V-03, V-05."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from machine_profile import machine_settings

from ninfer.base.pools import Pool
from ninfer.store.cells import CellState
from ninfer.store.epoch import Epoch
from ninfer.store.pages import PagePool


@dataclass
class Naive:
    state: CellState = CellState.FREE
    owners: int = 0
    readers: int = 0
    generation: int = 0

    @property
    def refs(self) -> int:
        return self.owners + self.readers


class CellMachine(RuleBasedStateMachine):
    @initialize(capacity=st.integers(1, 12))
    def begin(self, capacity: int) -> None:
        self.epoch = Epoch()
        self.pool = PagePool(Pool.MAIN_KV, capacity, self.epoch)
        self.model = {cell: Naive() for cell in range(1, capacity + 1)}

    def cells(self, state: CellState) -> list[int]:
        return [cell for cell, naive in self.model.items() if naive.state is state]

    def pick(self, data: st.DataObject, cells: list[int]) -> int:
        return data.draw(st.sampled_from(cells))

    @rule(data=st.data())
    def reserve(self, data: st.DataObject) -> None:
        free = self.cells(CellState.FREE)
        count = data.draw(st.integers(0, len(free)))
        taken = self.pool.reserve(count)
        assert taken == sorted(free)[:count], "the lowest ids go first"
        for cell in taken:
            self.model[cell].state = CellState.RESERVED

    @rule()
    def reserve_too_many(self) -> None:
        with pytest.raises(AssertionError, match="V-04"):
            self.pool.reserve(self.pool.free_cells + 1)

    @precondition(lambda self: self.cells(CellState.RESERVED))
    @rule(data=st.data(), forfeits=st.booleans())
    def settle_reserved(self, data: st.DataObject, forfeits: bool) -> None:
        cell = self.pick(data, self.cells(CellState.RESERVED))
        if forfeits:
            self.pool.forfeit([cell])
            self.model[cell] = Naive(generation=self.model[cell].generation + 1)
        else:
            self.pool.fill([cell])
            self.model[cell] = Naive(CellState.FILLING, 1, 0, self.model[cell].generation)

    @precondition(lambda self: self.cells(CellState.FILLING))
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        cell = self.pick(data, self.cells(CellState.FILLING))
        with pytest.raises(AssertionError, match="V-05"):
            self.pool.share(cell)
        self.pool.publish([cell])
        self.model[cell].state = CellState.LIVE

    @precondition(lambda self: self.cells(CellState.LIVE))
    @rule(data=st.data(), reads=st.booleans())
    def share(self, data: st.DataObject, reads: bool) -> None:
        cell = self.pick(data, self.cells(CellState.LIVE))
        if reads:
            self.pool.lease(cell)
            self.model[cell].readers += 1
        else:
            self.pool.share(cell)
            self.model[cell].owners += 1

    @precondition(lambda self: self.cells(CellState.LIVE))
    @rule(data=st.data())
    def share_several(self, data: st.DataObject) -> None:
        cells = data.draw(st.lists(st.sampled_from(self.cells(CellState.LIVE)), min_size=1, unique=True))
        self.pool.share_table(memoryview(array("i", cells)))
        for cell in cells:
            self.model[cell].owners += 1

    @rule(data=st.data(), reads=st.booleans())
    def drop(self, data: st.DataObject, reads: bool) -> None:
        held = [c for c, n in self.model.items() if (n.readers if reads else n.owners)]
        if not held:
            return
        cell = self.pick(data, held)
        naive = self.model[cell]
        if reads:
            self.pool.end_lease(cell)
            naive.readers -= 1
        else:
            assert self.pool.drop(cell) == (naive.refs == 1)
            naive.owners -= 1
        if not naive.refs:
            self.model[cell] = Naive(generation=naive.generation + 1)

    @rule(data=st.data())
    def no_owner_drops_for_a_reader(self, data: st.DataObject) -> None:
        """V-03: what only readers hold cannot be dropped by anybody else."""
        held = [c for c, n in self.model.items() if n.readers and not n.owners]
        if held:
            cell = self.pick(data, held)
            with pytest.raises(AssertionError, match="V-03"):
                self.pool.drop(cell)

    @rule(data=st.data())
    def nobody_drops_what_is_not_owned(self, data: st.DataObject) -> None:
        """V-02"""
        unowned = [c for c, n in self.model.items() if not n.refs]
        if unowned:
            with pytest.raises(AssertionError, match="V-02"):
                self.pool.drop(self.pick(data, unowned))

    @rule(data=st.data())
    def count_what_dropping_frees(self, data: st.DataObject) -> None:
        owned = [c for c, n in self.model.items() if n.owners]
        tables = data.draw(st.lists(st.lists(st.sampled_from(owned), unique=True), max_size=3)) if owned else []
        drops = {cell: sum(cell in table for table in tables) for cell in owned}
        expected = sum(drops[cell] == self.model[cell].refs for cell in owned)
        assert self.pool.count_freed([memoryview(array("i", table)) for table in tables]) == expected

    @invariant()
    def pool_equals_model(self) -> None:
        """V-01, V-02"""
        if not hasattr(self, "pool"):
            return
        self.pool.audit()
        for cell, naive in self.model.items():
            assert self.pool.state(cell) is naive.state
            assert self.pool.refs(cell) == naive.refs
            assert self.pool.readers(cell) == naive.readers
            assert self.pool.generation(cell) == naive.generation
        assert self.pool.free_cells == len(self.cells(CellState.FREE))
        assert self.pool.unfilled_cells == len(self.cells(CellState.RESERVED)) + len(self.cells(CellState.FILLING))


CellMachine.TestCase.settings = machine_settings(60, 40)
test_cells = CellMachine.TestCase


def test_an_audit_sees_a_cell_that_was_moved_behind_its_back() -> None:
    """V-01: the audit can fail."""
    pool = PagePool(Pool.MAIN_KV, 4, Epoch())
    pool.fill(pool.reserve(2))
    pool._state[1] = CellState.FREE
    with pytest.raises(AssertionError, match="V-0"):
        pool.audit()
