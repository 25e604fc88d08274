"""Reader leases against a list: what is read outlives its owner and is never freed under the reader (V-03)."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from machine_profile import machine_settings

from ninfer.base.ids import Handle, PageId, SlotId
from ninfer.base.pools import Pool
from ninfer.store.cells import CellState
from ninfer.store.epoch import Epoch
from ninfer.store.extents import HostArena
from ninfer.store.leases import ReaderLeases
from ninfer.store.pages import PagePool
from ninfer.store.slots import SlotPool


class LeaseMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        epoch = Epoch()
        self.slots = SlotPool(5, epoch)
        self.pages = PagePool(Pool.MAIN_KV, 5, epoch)
        self.leases = ReaderLeases(self.slots, {Pool.MAIN_KV: self.pages}, HostArena(0, epoch))
        self.owned: set[tuple[Pool, int]] = set()
        self.open: dict[Handle, list[tuple[Pool, int]]] = {}
        self.ended: list[Handle] = []

    def pool(self, pool: Pool) -> SlotPool | PagePool:
        return self.slots if pool is Pool.STATE else self.pages

    def read(self) -> set[tuple[Pool, int]]:
        return {cell for cells in self.open.values() for cell in cells}

    @rule(pool=st.sampled_from((Pool.STATE, Pool.MAIN_KV)))
    def create(self, pool: Pool) -> None:
        cells = self.pool(pool)
        if cells.free_cells:
            fresh = cells.reserve(1)
            cells.fill(fresh)
            cells.publish(fresh)
            self.owned.add((pool, fresh[0]))

    @precondition(lambda self: self.owned)
    @rule(data=st.data())
    def owner_leaves(self, data: st.DataObject) -> None:
        pool, cell = data.draw(st.sampled_from(sorted(self.owned, key=str)))
        self.owned.remove((pool, cell))
        is_read = (pool, cell) in self.read()
        assert self.pool(pool).drop(cell) == (not is_read)

    @rule(data=st.data())
    def acquire(self, data: st.DataObject) -> None:
        slots = sorted(cell for pool, cell in self.owned if pool is Pool.STATE)
        pages = sorted(cell for pool, cell in self.owned if pool is Pool.MAIN_KV)
        slot = data.draw(st.sampled_from([None, *slots]))
        read = data.draw(st.lists(st.sampled_from(pages), unique=True, max_size=2)) if pages else []
        lease = self.leases.acquire(
            None if slot is None else SlotId(slot), [(Pool.MAIN_KV, PageId(page)) for page in read]
        )
        self.open[lease] = [(Pool.MAIN_KV, page) for page in read] + ([] if slot is None else [(Pool.STATE, slot)])

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(sorted(self.open)))
        del self.open[lease]
        self.leases.release(lease)
        self.ended.append(lease)

    @precondition(lambda self: self.ended)
    @rule(data=st.data())
    def release_again(self, data: st.DataObject) -> None:
        """V-13: a late reader cannot end the lease that took its place."""
        with pytest.raises(AssertionError, match="V-13"):
            self.leases.release(data.draw(st.sampled_from(self.ended)))

    @invariant()
    def stores_equal_model(self) -> None:
        self.leases.audit()
        for pool in (Pool.STATE, Pool.MAIN_KV):
            cells = self.pool(pool)
            cells.audit()
            for cell in range(1, cells.capacity + 1):
                readers = sum((pool, cell) in read for read in self.open.values())
                owners = int((pool, cell) in self.owned)
                assert cells.readers(cell) == readers
                assert cells.refs(cell) == readers + owners
                assert (cells.state(cell) is CellState.LIVE) == bool(readers + owners)


LeaseMachine.TestCase.settings = machine_settings(50, 35)
test_leases = LeaseMachine.TestCase
