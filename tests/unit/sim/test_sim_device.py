"""SimDevice sees what a real device would silently compute: foreign pages, stale states, lost copies, reused cells."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest

from ninfer.base.errors import DeviceFailure
from ninfer.base.ids import LaneId, PageId, SlotId
from ninfer.base.pools import Pool
from ninfer.ports.device import (
    CopyDone,
    PageCopy,
    SampleRow,
    SamplesDone,
    StateCopy,
    StateCut,
    UnitBatch,
    UnitDone,
    UnitKind,
    UnitRow,
)
from ninfer.ports.sampling import SamplingParams
from ninfer.sim.chain import Link, draw_token, expected_tokens, extend_digest
from ninfer.sim.device import SimDevice, SimFaults

GREEDY = SamplingParams(temperature=0.0)
PROMPT = [(3 * i * i + 1) % 500 for i in range(100)]


def ints(values: Sequence[int]) -> memoryview:
    return memoryview(array("i", values))


def row(
    tokens: Sequence[int],
    start: int,
    pages: Sequence[int],
    *,
    read: int | None,
    write: int,
    lane: int = 0,
    cuts: tuple[StateCut, ...] = (),
) -> UnitRow:
    return UnitRow(
        lane=LaneId(lane),
        token_ids=ints(tokens),
        start=start,
        positions=ints(list(range(start, start + len(tokens))) * 3),
        pages={Pool.MAIN_KV: ints(pages)},
        read_slot=None if read is None else SlotId(read),
        write_slot=SlotId(write),
        cuts=cuts,
    )


def feed(device: SimDevice, *rows: UnitRow, kind: UnitKind = UnitKind.PREFILL) -> None:
    device.submit_unit(UnitBatch(kind, rows))
    assert isinstance(device.poll()[0], UnitDone)


def draw(device: SimDevice, slot: int, position: int, **options: object) -> tuple[int, ...]:
    device.submit_sampling([SampleRow(LaneId(0), SlotId(slot), position, GREEDY, 0.0, **options)])  # type: ignore[arg-type]
    (done,) = device.poll()
    assert isinstance(done, SamplesDone)
    return done.runs[0].token_ids


@pytest.fixture
def device() -> SimDevice:
    """100 tokens of PROMPT in pages 1 and 2, state in slot 1."""
    sim = SimDevice(slots=4, pages={Pool.MAIN_KV: 8}, vocab_tokens=500)
    feed(sim, row(PROMPT, 0, [1, 2], read=None, write=1))
    return sim


def test_tokens_follow_the_closed_form_however_the_prompt_is_cut(device: SimDevice) -> None:
    """[D5] V-15: chunks and cuts change nothing in what is drawn."""
    expected = expected_tokens(PROMPT, 2, vocab_tokens=500)
    assert draw(device, 1, 100) == (expected[0],)
    feed(device, row(PROMPT[:33], 0, [3], read=None, write=2, lane=1, cuts=(StateCut(7), StateCut(20, SlotId(3)))))
    feed(device, row(PROMPT[33:], 33, [3, 4], read=2, write=2, lane=1))
    feed(device, row([expected[0]], 100, [3, 4], read=2, write=2, lane=1), kind=UnitKind.DECODE)
    assert draw(device, 2, 101) == (expected[1],)
    feed(device, row(PROMPT[20:], 20, [3, 4], read=3, write=4, lane=2))
    assert draw(device, 4, 100) == (expected[0],)


def test_positions_enter_what_is_drawn() -> None:
    """[B1] a wrong rotary position gives other tokens."""
    shifted = [(i + 1, i, i) for i in range(len(PROMPT))]
    assert expected_tokens(PROMPT, 3, vocab_tokens=500) != expected_tokens(
        PROMPT, 3, vocab_tokens=500, positions=shifted
    )
    assert extend_digest(5, 1, (0, 0, 1)) != extend_digest(5, 1, (0, 1, 0))


def test_a_uniform_number_enters_what_is_drawn_unless_greedy() -> None:
    """Sampling is a pure function of what was fed and of the number."""
    link = Link(None, 3, (0, 0, 0))
    assert draw_token(link.digest, 500, 0.25) == draw_token(link.digest, 500, 0.25)
    assert len({draw_token(link.digest, 500, index / 8) for index in range(8)}) > 4


def test_a_foreign_page_is_seen(device: SimDevice) -> None:
    """[A2] attention would read another history."""
    feed(device, row(PROMPT[::-1], 0, [3, 4], read=None, write=2, lane=1))
    with pytest.raises(AssertionError, match="main_kv at 63"):
        feed(device, row([7], 100, [3, 2], read=1, write=1))


def test_equal_tokens_computed_apart_are_not_spliced(device: SimDevice) -> None:
    """[D10] state and KV that were computed independently do not belong together."""
    feed(device, row(PROMPT, 0, [3, 4], read=None, write=2, lane=1))
    with pytest.raises(AssertionError, match="main_kv at"):
        feed(device, row([7], 100, [3, 4], read=1, write=1))


def test_a_state_of_another_position_is_seen(device: SimDevice) -> None:
    """[A2] a state resumes at exactly its own position."""
    with pytest.raises(AssertionError, match="the state is of 100 tokens"):
        feed(device, row([7], 99, [1, 2], read=1, write=1))
    with pytest.raises(AssertionError, match="holds no state"):
        feed(device, row([7], 100, [1, 2], read=3, write=1))


def test_a_lost_tail_copy_is_seen(device: SimDevice) -> None:
    """[F2] two writers on one partly filled page."""
    device.submit_copy([StateCopy(SlotId(1), SlotId(2))])
    assert isinstance(device.poll()[0], CopyDone)
    feed(device, row([7], 100, [1, 2], read=1, write=1))
    feed(device, row([8], 100, [1, 2], read=2, write=2, lane=1))
    with pytest.raises(AssertionError, match="main_kv at 100"):
        feed(device, row([9], 101, [1, 2], read=1, write=1))


def test_a_tail_copy_carries_only_the_tokens_it_names(device: SimDevice) -> None:
    """[F2] what lies above is not content."""
    device.submit_copy([PageCopy(Pool.MAIN_KV, PageId(2), PageId(5), 35), StateCopy(SlotId(1), SlotId(2))])
    device.poll()
    with pytest.raises(AssertionError, match="is empty"):
        feed(device, row([7], 100, [1, 5], read=2, write=2))


def test_a_view_that_changes_in_flight_is_seen(device: SimDevice) -> None:
    """Views stay unchanged until the unit is done."""
    changing = row([7], 100, [1, 2], read=1, write=1)
    device.submit_unit(UnitBatch(UnitKind.DECODE, (changing,)))
    changing.pages[Pool.MAIN_KV][0] = 3
    with pytest.raises(AssertionError, match="in flight"):
        device.poll()


def test_a_slot_given_away_in_flight_is_seen() -> None:
    """[L3] work reads its inputs when it lands, not when it is submitted."""
    device = SimDevice(slots=4, pages={Pool.MAIN_KV: 8}, vocab_tokens=500)
    feed(device, row(PROMPT, 0, [1, 2], read=None, write=1))
    device.submit_unit(UnitBatch(UnitKind.PREFILL, (row([7], 0, [3], read=None, write=1, lane=1),)))
    device.submit_unit(UnitBatch(UnitKind.PREFILL, (row([7], 100, [1, 2], read=1, write=1),)))
    with pytest.raises(AssertionError, match="the state is of 1 tokens"):
        device.poll()


@pytest.mark.parametrize(
    "bad",
    [
        row([7], 100, [1], read=1, write=1),
        row([7], 100, [1, 9], read=1, write=1),
        row([7], 100, [1, 0], read=1, write=1),
        row([7], 100, [1, 2], read=1, write=5),
        row([7], 100, [1, 2], read=1, write=0),
    ],
)
def test_cells_outside_the_pools_and_the_scratch_cells_are_refused(device: SimDevice, bad: UnitRow) -> None:
    """Page 0 and slot 0 are scratch: no history lives there."""
    with pytest.raises(AssertionError):
        feed(device, bad)


def test_two_rows_do_not_write_one_slot(device: SimDevice) -> None:
    """V-09 at the device: a batch has one writer a slot."""
    rows = (row([7], 100, [1, 2], read=1, write=1), row([7], 100, [1, 3], read=1, write=1, lane=1))
    with pytest.raises(AssertionError, match="two rows write one slot"):
        device.submit_unit(UnitBatch(UnitKind.DECODE, rows))


def test_a_mask_is_obeyed_and_logprobs_have_the_asked_length(device: SimDevice) -> None:
    """Settled decision 16: a mask may come between forward and sampling."""
    mask = bytearray(63)
    mask[200 // 8] |= 1 << (200 % 8)
    assert draw(device, 1, 100, mask=bytes(mask)) == (200,)
    device.submit_sampling([SampleRow(LaneId(0), SlotId(1), 100, GREEDY, 0.0, logprobs=3)])
    (done,) = device.poll()
    assert isinstance(done, SamplesDone)
    assert done.runs[0].logprobs is not None
    (first,) = done.runs[0].logprobs
    assert first.top[0][1] == first.chosen
    assert len(first.top) == 3


def test_delays_come_from_the_seed_and_keep_units_in_order() -> None:
    """Late work is the same on every run."""

    def arrivals(seed: int) -> list[int]:
        device = SimDevice(slots=4, pages={Pool.MAIN_KV: 8}, faults=SimFaults(seed, 5))
        device.submit_unit(UnitBatch(UnitKind.PREFILL, (row(PROMPT, 0, [1, 2], read=None, write=1),)))
        device.submit_unit(UnitBatch(UnitKind.DECODE, (row([5], 100, [1, 2], read=1, write=1),)))
        device.submit_sampling([SampleRow(LaneId(0), SlotId(1), 101, GREEDY, 0.0)])
        times, order = [], []
        for poll in range(30):
            for done in device.poll():
                times.append(poll)
                order.append(type(done))
        assert order == [UnitDone, UnitDone, SamplesDone]
        return times

    assert arrivals(3) == arrivals(3)
    assert len({tuple(arrivals(seed)) for seed in range(8)}) > 3


def test_failures_come_where_the_seed_says() -> None:
    """[L3] copies and submissions can fail."""
    device = SimDevice(slots=4, pages={Pool.MAIN_KV: 8}, faults=SimFaults(fail_copy=1))
    device.submit_copy([StateCopy(SlotId(1), SlotId(2))])
    with pytest.raises(DeviceFailure):
        device.submit_copy([StateCopy(SlotId(1), SlotId(2))])
