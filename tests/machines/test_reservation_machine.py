"""Reservations over three pools against a dict of counts: all or nothing, remainders at once (V-04, V-13)."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from machine_profile import machine_settings

from ninfer.base.ids import Handle
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.store.epoch import Epoch
from ninfer.store.pages import PagePool
from ninfer.store.reservations import Reservations
from ninfer.store.slots import SlotPool

POOLS = (Pool.STATE, Pool.MAIN_KV, Pool.MTP_KV)
NEEDS = st.builds(Amounts, state=st.integers(0, 2), main_kv=st.integers(0, 5), mtp_kv=st.integers(0, 4))


class ReservationMachine(RuleBasedStateMachine):
    @initialize(slots=st.integers(1, 4), main=st.integers(1, 9), mtp=st.integers(1, 7))
    def begin(self, slots: int, main: int, mtp: int) -> None:
        epoch = Epoch()
        self.slots = SlotPool(slots, epoch)
        self.pages = {Pool.MAIN_KV: PagePool(Pool.MAIN_KV, main, epoch), Pool.MTP_KV: PagePool(Pool.MTP_KV, mtp, epoch)}
        self.reservations = Reservations(self.slots, self.pages)
        self.free = {Pool.STATE: slots, Pool.MAIN_KV: main, Pool.MTP_KV: mtp}
        self.open: dict[Handle, dict[Pool, int]] = {}
        self.owned: list[tuple[Pool, int]] = []
        self.closed: list[Handle] = []

    def missing(self, need: Amounts) -> Shortfall | None:
        short = [pool for pool in POOLS if need[pool] > self.free[pool]]
        return Shortfall(short[0], need[short[0]], self.free[short[0]]) if short else None

    def take(self, handle: Handle, need: Amounts) -> None:
        for pool in POOLS:
            self.free[pool] -= need[pool]
            self.open[handle][pool] += need[pool]

    @rule(need=NEEDS)
    def reserve(self, need: Amounts) -> None:
        expected = self.missing(need)
        outcome = self.reservations.reserve(need)
        if expected is not None:
            assert outcome == expected
            return
        assert isinstance(outcome, Handle)
        self.open[outcome] = dict.fromkeys(POOLS, 0)
        self.take(outcome, need)

    @rule()
    def reserve_in_a_pool_the_device_lacks(self) -> None:
        assert self.reservations.reserve(Amounts(dflash_kv=1)) == Shortfall(Pool.DFLASH_KV, 1, 0)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), need=NEEDS)
    def extend(self, data: st.DataObject, need: Amounts) -> None:
        handle = data.draw(st.sampled_from(sorted(self.open)))
        expected = self.missing(need)
        assert self.reservations.extend(handle, need) == expected
        if expected is None:
            self.take(handle, need)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def take_some(self, data: st.DataObject) -> None:
        handle = data.draw(st.sampled_from(sorted(self.open)))
        held = self.open[handle]
        if held[Pool.STATE] and data.draw(st.booleans()):
            self.owned.append((Pool.STATE, self.reservations.take_slot(handle)))
            held[Pool.STATE] -= 1
        pool = data.draw(st.sampled_from(POOLS[1:]))
        count = data.draw(st.integers(0, held[pool]))
        self.owned += [(pool, page) for page in self.reservations.take_pages(handle, pool, count)]
        held[pool] -= count

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def take_more_than_reserved(self, data: st.DataObject) -> None:
        """V-04: a unit cannot spend another one's permit."""
        handle = data.draw(st.sampled_from(sorted(self.open)))
        with pytest.raises(AssertionError, match="V-04"):
            self.reservations.take_pages(handle, Pool.MAIN_KV, self.open[handle][Pool.MAIN_KV] + 1)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def forfeit(self, data: st.DataObject) -> None:
        handle = data.draw(st.sampled_from(sorted(self.open)))
        self.reservations.forfeit(handle)
        for pool, count in self.open.pop(handle).items():
            self.free[pool] += count
        self.closed.append(handle)

    @precondition(lambda self: self.owned)
    @rule(data=st.data())
    def drop_owned(self, data: st.DataObject) -> None:
        pool, cell = self.owned.pop(data.draw(st.integers(0, len(self.owned) - 1)))
        assert (self.slots if pool is Pool.STATE else self.pages[pool]).drop(cell)
        self.free[pool] += 1

    @precondition(lambda self: self.closed)
    @rule(data=st.data())
    def use_a_closed_one(self, data: st.DataObject) -> None:
        """V-13"""
        handle = data.draw(st.sampled_from(self.closed))
        with pytest.raises(AssertionError, match="V-13"):
            self.reservations.forfeit(handle)
        with pytest.raises(AssertionError, match="V-13"):
            self.reservations.extend(handle, Amounts(state=1))

    @invariant()
    def stores_equal_model(self) -> None:
        if not hasattr(self, "reservations"):
            return
        self.reservations.audit()
        self.slots.audit()
        for pool, pages in self.pages.items():
            pages.audit()
            assert pages.free_cells == self.free[pool]
        assert self.slots.free_cells == self.free[Pool.STATE]
        assert self.reservations.list_open() == sorted(self.open)
        for handle, held in self.open.items():
            assert {pool: self.reservations.held(handle, pool) for pool in POOLS} == held


ReservationMachine.TestCase.settings = machine_settings(50, 35)
test_reservations = ReservationMachine.TestCase
