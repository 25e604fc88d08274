"""The replay's device notices what a real one would get wrong: foreign pages, stale states, lost tails."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest

from ninfer.base.clock import ManualClock
from ninfer.base.ids import LaneId, PageId, SlotId, UnitId
from ninfer.base.pools import Pool
from ninfer.ports.device import (
    PageCopy,
    PageFromHost,
    PageToHost,
    SampleRow,
    SamplesDone,
    StateCut,
    StateFromHost,
    StateToHost,
    UnitBatch,
    UnitDone,
    UnitKind,
    UnitRow,
)
from ninfer.ports.sampling import SamplingParams
from ninfer.sim.replay.device import NoCosts, ReplayDevice

PAGE_BYTES, STATE_BYTES = 1000, 500


def device(host_bytes: int = 0) -> ReplayDevice:
    return ReplayDevice(
        slots=6,
        pages=12,
        page_bytes=PAGE_BYTES,
        state_bytes=STATE_BYTES,
        vocab_tokens=1000,
        speaker=lambda seed, position: (seed, position),
        clock=ManualClock(),
        costs=NoCosts(),
        host_bytes=host_bytes,
    )


def feed(
    target: ReplayDevice,
    tokens: list[int],
    start: int,
    table: list[int],
    read: int | None,
    write: int,
    cuts: tuple[tuple[int, int], ...] = (),
) -> None:
    positions = memoryview(array("i", list(range(start, start + len(tokens))) * 3))
    row = UnitRow(
        LaneId(0),
        memoryview(array("i", tokens)),
        start,
        positions,
        {Pool.MAIN_KV: memoryview(array("i", table))},
        None if read is None else SlotId(read),
        SlotId(write),
        tuple(StateCut(offset, SlotId(slot)) for offset, slot in cuts),
    )
    unit = target.submit_unit(UnitBatch(UnitKind.PREFILL, (row,)))
    assert target.poll() == [UnitDone(unit)]


FIRST = list(range(100))


def warm() -> ReplayDevice:
    """100 tokens in pages 1 and 2, their state in slot 1, that of the first 70 in slot 2."""
    target = device(host_bytes=10_000)
    feed(target, FIRST, 0, [1, 2], None, 1, cuts=((70, 2),))
    return target


def test_a_history_goes_on_from_each_of_its_states() -> None:
    """[A2]: from the end, and from a cut inside a page once its tail is copied."""
    target = warm()
    feed(target, [7] * 60, 100, [1, 2, 3], 1, 3)
    target.submit_copy([PageCopy(Pool.MAIN_KV, PageId(2), PageId(4), 6)])
    target.poll()
    feed(target, [9] * 10, 70, [1, 4], 2, 4)
    assert target.fed_tokens == 170


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda target: feed(target, [1], 100, [3, 2], 1, 3), "not of this history"),
        (lambda target: feed(target, [1], 100, [1, 5], 1, 3), "holds nothing"),
        (lambda target: feed(target, [1], 99, [1, 2], 1, 3), "the state is of 100 tokens"),
        (lambda target: feed(target, [1], 100, [1, 2], 5, 3), "holds no state"),
        (lambda target: feed(target, [1] * 40, 100, [1, 2], 1, 3), "too few pages"),
        (lambda target: feed(target, [1], 100, [1, 99], 1, 3), "no page 99"),
    ],
)
def test_a_wrong_read_is_noticed(wrong: Callable[[ReplayDevice], None], words: str) -> None:
    """[A2] settled decision 1."""
    target = warm()
    feed(target, [500] * 64, 0, [3], None, 6)
    with pytest.raises((AssertionError, IndexError), match=words):
        wrong(target)


def test_a_page_computed_again_is_not_the_same_page() -> None:
    """[D10]: equal tokens do not make contents equal that were computed apart."""
    target = warm()
    feed(target, FIRST[:64], 0, [3], None, 6)
    with pytest.raises(AssertionError, match="not of this history"):
        feed(target, [1], 100, [3, 2], 1, 4)


def test_a_tail_written_by_another_is_noticed() -> None:
    """[F2]: two writers on one page."""
    target = warm()
    feed(target, [9] * 10, 70, [1, 2], 2, 4)
    with pytest.raises(AssertionError, match="holds other tokens"):
        feed(target, [1], 100, [1, 2], 1, 5)


def test_host_copies_bring_back_what_was_saved() -> None:
    """[K1]: and until they land there is nothing."""
    target = warm()
    saves = [PageToHost(Pool.MAIN_KV, PageId(page), at, tokens) for page, at, tokens in ((1, 0, 64), (2, 1000, 36))]
    target.submit_host_copy([*saves, StateToHost(SlotId(1), 2000)])
    target.poll()
    feed(target, [5] * 64, 0, [1], None, 1)
    target.submit_host_copy(
        [
            PageFromHost(Pool.MAIN_KV, 0, PageId(7), 64),
            PageFromHost(Pool.MAIN_KV, 1000, PageId(8), 36),
            StateFromHost(2000, SlotId(3)),
        ]
    )
    target.poll()
    feed(target, [1], 100, [7, 8], 3, 4)
    target.submit_host_copy([StateFromHost(2000, SlotId(5))])
    with pytest.raises(AssertionError, match="holds no state"):
        feed(target, [1], 100, [7, 8], 6, 4)


def test_a_draw_reads_the_state_it_stands_on() -> None:
    target = warm()
    row = SampleRow(LaneId(0), SlotId(1), 100, SamplingParams(temperature=0.0, seed=3), 0.0)
    target.submit_sampling([row])
    done = target.poll()
    assert isinstance(done[0], SamplesDone)
    assert done[0].runs[0].token_ids == (3, 100)
    target.submit_sampling([SampleRow(LaneId(0), SlotId(2), 100, SamplingParams(temperature=0.0), 0.0)])
    with pytest.raises(AssertionError, match="hidden row of 70"):
        target.poll()


class _Slow:
    def unit_s(self, batch: UnitBatch) -> float:
        return 2.0

    def copy_s(self, copied_bytes: int) -> float:
        return 5.0


def test_work_lands_when_the_clock_has_passed_it() -> None:
    clock = ManualClock()
    target = ReplayDevice(
        slots=2,
        pages=4,
        page_bytes=PAGE_BYTES,
        state_bytes=STATE_BYTES,
        vocab_tokens=10,
        speaker=lambda seed, position: (0,),
        clock=clock,
        costs=_Slow(),
        host_bytes=5000,
    )
    positions = memoryview(array("i", [0, 0, 0]))
    row = UnitRow(LaneId(0), memoryview(array("i", [1])), 0, positions, {}, None, SlotId(1))
    row = UnitRow(row.lane, row.token_ids, 0, positions, {Pool.MAIN_KV: memoryview(array("i", [1]))}, None, SlotId(1))
    unit = target.submit_unit(UnitBatch(UnitKind.PREFILL, (row,)))
    assert target.next_due_s == 2.0
    assert target.poll() == []
    clock.advance(2.0)
    assert target.poll() == [UnitDone(UnitId(unit))]
    transfer = target.submit_host_copy([StateToHost(SlotId(1), 0)])
    assert target.next_due_s == 7.0
    clock.advance(5.0)
    assert [done for done in target.poll() if getattr(done, "transfer", None) == transfer]
    assert target.next_due_s is None
