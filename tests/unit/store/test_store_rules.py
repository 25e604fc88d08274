"""Rules of the stores, one by one, each with the assertion that guards it."""

from __future__ import annotations

import pytest

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import PrefixIdentity
from ninfer.base.ids import Handle, PageId, SlotId
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.device import DeviceFacts
from ninfer.ports.native import PointKind
from ninfer.store.audit import Owned, audit_stores
from ninfer.store.checkpoints import Checkpoint
from ninfer.store.directory import KvDirectory
from ninfer.store.epoch import Epoch
from ninfer.store.pages import PagePool
from ninfer.store.stores import ContextStores

MAIN = Pool.MAIN_KV
TOKENS = IntBuffer(range(1000))


@pytest.fixture
def stores() -> ContextStores:
    return ContextStores(DeviceFacts(1000, 4, {MAIN: 12}, {MAIN: 1}, 1))


def write(stores: ContextStores, directory: KvDirectory, tokens: int) -> None:
    need = directory.need_pages(tokens).get(MAIN, 0)
    reservation = stores.reservations.reserve(Amounts(main_kv=need))
    assert isinstance(reservation, Handle)
    directory.grow(tokens, {MAIN: stores.reservations.take_pages(reservation, MAIN, need)})
    stores.reservations.forfeit(reservation)
    directory.commit(tokens)


def open_history(stores: ContextStores, tokens: int) -> KvDirectory:
    directory = stores.directories.open()
    directory.open_writer(0)
    write(stores, directory, tokens)
    return directory


def live_slot(stores: ContextStores) -> SlotId:
    (slot,) = stores.slots.reserve(1)
    stores.slots.fill([slot])
    stores.slots.publish([slot])
    return SlotId(slot)


def point(stores: ContextStores, directory: KvDirectory, frontier: int, kind: PointKind = PointKind.END) -> Handle:
    identity = PrefixIdentity(b"", TOKENS, frontier)
    return stores.checkpoints.publish(Checkpoint(identity, live_slot(stores), directory, kind))


def test_the_lowest_pages_go_first_and_scratch_never() -> None:
    """Histories tend to be contiguous; page 0 is outside the capacity. V-01"""
    pool = PagePool(MAIN, 5, Epoch())
    assert pool.reserve(2) == [1, 2]
    rest = pool.reserve(3)
    assert rest == [3, 4, 5]
    pool.forfeit([4, 2][1:])
    pool.forfeit([4])
    assert pool.reserve(2) == [2, 4]


def test_a_point_needs_a_complete_state_and_its_whole_coverage(stores: ContextStores) -> None:
    """[D7] V-05 V-06"""
    directory = open_history(stores, 100)
    (slot,) = stores.slots.reserve(1)
    stores.slots.fill([slot])
    unfinished = Checkpoint(PrefixIdentity(b"", TOKENS, 100), SlotId(slot), directory, PointKind.END)
    with pytest.raises(AssertionError, match="V-05"):
        stores.checkpoints.publish(unfinished)
    with pytest.raises(AssertionError, match="V-06"):
        point(stores, directory, 101)


def test_a_history_has_one_writer(stores: ContextStores) -> None:
    """V-09"""
    directory = open_history(stores, 10)
    with pytest.raises(AssertionError, match="V-09"):
        directory.open_writer(10)


def test_a_writer_never_starts_below_a_point_that_stays(stores: ContextStores) -> None:
    """V-09: what others can restore is not overwritten."""
    directory = open_history(stores, 100)
    point(stores, directory, 100)
    directory.close_writer()
    with pytest.raises(AssertionError, match="V-09"):
        directory.open_writer(50)


def test_a_page_that_another_history_sees_is_never_written(stores: ContextStores) -> None:
    """[F2] V-09: a write into a shared page goes through a copy of it."""
    directory = open_history(stores, 130)
    point(stores, directory, 100, PointKind.INPUT_POINT)
    child = stores.directories.fork(directory, 128, {})
    directory.close_writer()
    directory.open_writer(100)
    assert directory.list_shared_tails(100) == [(MAIN, PageId(2))]
    with pytest.raises(AssertionError, match="V-09"):
        directory.grow(101, {})
    (copy,) = stores.pages[MAIN].reserve(1)
    stores.pages[MAIN].fill([copy])
    directory.tables[MAIN].replace(directory.page_count(MAIN) - 1, PageId(copy))
    directory.grow(101, {})
    assert list(directory.tables[MAIN].entries) == [1, copy]
    assert list(child.tables[MAIN].entries) == [1, 2]


def test_an_unfinished_page_is_not_shared(stores: ContextStores) -> None:
    """V-05"""
    directory = open_history(stores, 64)
    reservation = stores.reservations.reserve(Amounts(main_kv=1))
    assert isinstance(reservation, Handle)
    directory.grow(128, {MAIN: stores.reservations.take_pages(reservation, MAIN, 1)})
    with pytest.raises(AssertionError, match="V-06"):
        stores.directories.fork(directory, 128, {})
    assert list(stores.directories.fork(directory, 64, {}).tables[MAIN].entries) == [1]


def test_what_is_read_outlives_its_point(stores: ContextStores) -> None:
    """V-03: the replica under a lease is neither freed nor given to somebody else. [B7]"""
    directory = open_history(stores, 100)
    end = point(stores, directory, 100)
    slot = stores.checkpoints[end].slot
    directory.close_writer()
    lease = stores.leases.acquire(slot, [(MAIN, PageId(2))])
    assert stores.checkpoints.count_freed([end]) == Amounts(main_kv=1)
    stores.checkpoints.retire(end)
    assert slot not in stores.slots.reserve(3)
    assert stores.pages[MAIN].reserve(11) == [1, *range(3, 13)]
    stores.leases.release(lease)
    assert stores.slots.reserve(1) == [slot]


def test_the_deepest_coverage_left_decides_what_stays(stores: ContextStores) -> None:
    """[F2]"""
    directory = open_history(stores, 300)
    inner = point(stores, directory, 70, PointKind.INPUT_POINT)
    end = point(stores, directory, 300)
    directory.close_writer()
    assert stores.checkpoints.count_freed([inner]) == Amounts(state=1)
    assert stores.checkpoints.count_freed([end]) == Amounts(state=1, main_kv=3)
    stores.checkpoints.retire(end)
    assert directory.page_count(MAIN) == 2
    stores.checkpoints.retire(inner)
    assert stores.free() == stores.capacity()
    assert list(stores.directories) == []


def test_every_owner_must_be_known(stores: ContextStores) -> None:
    """V-02 V-03 V-04 V-09: the recount names what nobody owns."""
    directory = open_history(stores, 10)
    mine = Owned((), (), (), (), directory.serial)
    audit_stores(stores, [mine])
    with pytest.raises(AssertionError, match="V-09"):
        audit_stores(stores, [])
    slot = live_slot(stores)
    with pytest.raises(AssertionError, match="V-02"):
        audit_stores(stores, [mine])
    lease = stores.leases.acquire(slot)
    with pytest.raises(AssertionError, match="V-03"):
        audit_stores(stores, [Owned((slot,), (), (), (), directory.serial)])
    audit_stores(stores, [Owned((slot,), (), (), (lease,), directory.serial)])
    stores.reservations.reserve(Amounts(main_kv=1))
    with pytest.raises(AssertionError, match="V-04"):
        audit_stores(stores, [Owned((slot,), (), (), (lease,), directory.serial)])


def test_every_change_advances_the_epoch(stores: ContextStores) -> None:
    """V-14: quotes of before are void."""
    seen = {stores.epoch.value}
    directory = open_history(stores, 100)
    seen.add(stores.epoch.value)
    end = point(stores, directory, 100)
    seen.add(stores.epoch.value)
    directory.close_writer()
    seen.add(stores.epoch.value)
    lease = stores.leases.acquire(stores.checkpoints[end].slot)
    seen.add(stores.epoch.value)
    stores.leases.release(lease)
    seen.add(stores.epoch.value)
    stores.checkpoints.retire(end)
    seen.add(stores.epoch.value)
    assert len(seen) == 7
