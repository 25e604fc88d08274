"""Turns: what the device is given, what a landing commits, captures, ends, late completions."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest

from ninfer.base.buffers import IntBuffer
from ninfer.base.errors import DeviceFailure
from ninfer.base.ids import Handle, LaneId, UnitId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import ZERO, Amounts, Pool
from ninfer.ports.device import SampleRow, TransferId, UnitBatch, UnitKind
from ninfer.ports.native import Bound, CaptureRequest, DrawTurn, PointKind, PrefillDone, PrefillTurn, Prompt
from ninfer.sim.chain import expected_tokens
from ninfer.sim.device import SimDevice, SimFaults
from ninfer.sim.driver import GREEDY, Driver, make_prompt
from ninfer.sim.script import ReplyScript, cut_every

VOCAB = 1000
PROMPT = [(7 * i * i + 3) % VOCAB for i in range(150)]


class WatchedDevice(SimDevice):
    """Keeps what was submitted."""

    def __init__(self, slots: int = 6, pages: int = 30, faults: SimFaults | None = None) -> None:
        super().__init__(slots=slots, pages={Pool.MAIN_KV: pages}, faults=faults)
        self.log: list[UnitBatch | tuple[SampleRow, ...]] = []

    def submit_unit(self, batch: UnitBatch, after: Sequence[TransferId] = ()) -> UnitId:
        self.log.append(batch)
        return super().submit_unit(batch, after)

    def submit_sampling(self, rows: Sequence[SampleRow]) -> UnitId:
        self.log.append(tuple(rows))
        return super().submit_sampling(rows)


def start(driver: Driver, prompt: Prompt, lane: int = 0) -> Handle:
    bound = driver.start(prompt, lane=lane)
    assert isinstance(bound, Bound)
    return bound.sequence


def cuts(batch: UnitBatch | tuple[SampleRow, ...]) -> list[tuple[int, bool]]:
    assert isinstance(batch, UnitBatch)
    return [(cut.offset, cut.slot is not None) for cut in batch.rows[0].cuts]


def test_a_chunk_is_cut_at_execution_frontiers_whether_or_not_a_state_is_kept() -> None:
    """[D5] the mathematics is split by the prompt; a capture adds a slot to a cut and moves none."""
    logs = []
    for capture_at in (None, 100):
        device = WatchedDevice()
        driver = Driver(device)
        sequence = start(driver, make_prompt(PROMPT, [40, 100, 130]))
        driver.prefill(sequence, 120, capture_at=capture_at)
        driver.prefill(sequence, 30)
        logs.append([cuts(batch) for batch in device.log])
    assert logs == [[[(40, False), (100, False)], [(10, False)]], [[(40, False), (100, True)], [(10, False)]]]


def test_a_chunk_end_saves_nothing() -> None:
    """[A6] [E1] V-11: a chunk only divides work, and no frontier but the prompt's can be asked for."""
    driver = Driver(SimDevice(slots=3, pages={Pool.MAIN_KV: 9}))
    sequence = start(driver, make_prompt(PROMPT, [100]))
    assert driver.prefill(sequence, 64) is None
    with pytest.raises(AssertionError, match="V-11"):
        driver.program.reserve_capture(sequence, CaptureRequest(120, PointKind.INPUT_POINT), None)
    with pytest.raises(AssertionError, match="V-11"):
        driver.program.freeze_end(sequence)
    assert driver.program.list_delete_actions(Pool.STATE) == []


def test_prompts_positions_are_given_and_output_counts_on_from_rope_delta() -> None:
    """[B1] positions belong to the frontend; beyond them every axis is index + rope_delta."""
    device = WatchedDevice()
    driver = Driver(device)
    triples = [(0, 0, 0), (1, 1, 1), (1, 1, 2), (1, 2, 1), (3, 3, 3)]
    axes = IntBuffer([triple[axis] for axis in range(3) for triple in triples])
    prompt = Prompt(IntBuffer([9, 8, 7, 6, 5]), 5, b"sim", (2,), positions=axes, rope_delta=-1)
    sequence = start(driver, prompt)
    driver.prefill(sequence, 2)
    driver.prefill(sequence, 3)
    drawn = driver.generate(sequence, 3)
    rows = [batch.rows[0] for batch in device.log if isinstance(batch, UnitBatch)]
    assert [list(row.positions) for row in rows] == [
        [0, 1, 0, 1, 0, 1],
        [1, 1, 3, 1, 2, 3, 2, 1, 3],
        [4, 4, 4],
        [5, 5, 5],
    ]
    assert drawn == expected_tokens([9, 8, 7, 6, 5], 3, vocab_tokens=VOCAB, positions=triples, rope_delta=-1)


def test_a_replay_past_the_prompt_continues_the_positions() -> None:
    """[D8] committed output that is recomputed gets the positions it had when it was decoded."""
    axes = IntBuffer([0, 1, 2] * 3)
    device = WatchedDevice()
    driver = Driver(device)
    sequence = start(driver, Prompt(IntBuffer([4, 5, 6, 7, 8, 9]), 5, b"sim", positions=axes, rope_delta=10))
    driver.prefill(sequence, 5, replay=True)
    row = device.log[0]
    assert isinstance(row, UnitBatch)
    assert row.kind is UnitKind.REPLAY
    assert list(row.rows[0].positions) == [0, 1, 2, 13, 14] * 3


def test_one_submit_is_one_decode_batch_then_all_draws_then_the_chunk() -> None:
    """[D9] a row that drew from its prompt's hidden row is in the draws and not in the batch."""
    device = WatchedDevice()
    driver = Driver(device)
    sequences = [start(driver, make_prompt(PROMPT[: 20 + lane]), lane) for lane in range(4)]
    for lane in range(3):
        driver.prefill(sequences[lane], 20 + lane)
    for lane in range(2):
        driver.draw(sequences[lane], decode=False)
        assert driver.program.reserve_decode(sequences[lane]) is None
    device.log.clear()
    draws = [DrawTurn(sequences[lane], lane < 2, GREEDY, 0.0) for lane in range(3)]
    driver.program.submit(draws, PrefillTurn(sequences[3], 23))
    decode, samples, chunk = device.log
    assert isinstance(decode, UnitBatch)
    assert isinstance(chunk, UnitBatch)
    assert (decode.kind, chunk.kind) == (UnitKind.DECODE, UnitKind.PREFILL)
    assert [row.lane for row in decode.rows] == [0, 1]
    assert [(row.lane, row.position) for row in samples if isinstance(row, SampleRow)] == [(0, 21), (1, 22), (2, 22)]
    progress = driver.settle(sequences[3])
    assert sorted(type(event).__name__ for event in progress) == ["PrefillDone", "RunDone", "RunDone", "RunDone"]


def test_a_decode_feeds_in_place_and_takes_a_page_only_at_a_page_boundary() -> None:
    """[A4] ordinary execution reserves for the next unit only; [C2] C lanes can run on C slots."""
    device = WatchedDevice(slots=1)
    driver = Driver(device)
    sequence = start(driver, make_prompt(PROMPT[:62]))
    driver.prefill(sequence, 62)
    free = [driver.program.occupancy().free.main_kv for _ in driver.generate(sequence, 1)]
    for _ in range(4):
        driver.draw(sequence, decode=True)
        free.append(driver.program.occupancy().free.main_kv)
    assert free == [29, 29, 29, 28, 28]
    assert all(
        batch.rows[0].read_slot == batch.rows[0].write_slot for batch in device.log[2:] if isinstance(batch, UnitBatch)
    )


def test_only_what_is_accepted_is_committed() -> None:
    """[D8] V-08: a rejected draw leaves the ledger at the execution frontier, and the draw can be repeated."""
    driver = Driver(SimDevice(slots=2, pages={Pool.MAIN_KV: 5}))
    prompt = make_prompt(PROMPT[:10])
    sequence = start(driver, prompt)
    driver.prefill(sequence, 10)
    first = driver.draw(sequence, decode=False, accepted=0)
    assert len(prompt.tokens) == 10
    assert driver.draw(sequence, decode=False) == first
    assert len(prompt.tokens) == 11
    with pytest.raises(AssertionError, match="V-08"):
        driver.program.submit([DrawTurn(sequence, False, GREEDY, 0.0)], None)


@pytest.mark.parametrize("run_tokens", [1, 2, 3, 8])
@pytest.mark.parametrize("accepted_of_last", [0, 1, 2])
def test_a_longer_run_is_fed_and_kept_to_exactly_its_accepted_prefix(run_tokens: int, accepted_of_last: int) -> None:
    """[D9] an uncommitted suffix is never part of a restore point: state and KV follow what was accepted."""
    reply = list(range(100, 124))
    device = SimDevice(slots=3, pages={Pool.MAIN_KV: 9}, script=ReplyScript(lambda _: cut_every(reply, run_tokens), 1))
    driver = Driver(device)
    prompt = make_prompt(PROMPT[:60])
    sequence = start(driver, prompt)
    driver.prefill(sequence, 60)
    said: list[int] = []
    while len(said) < 16:
        said += driver.draw(sequence, decode=bool(said))
    run = driver.draw(sequence, decode=True, accepted=min(accepted_of_last, run_tokens))
    kept = [*PROMPT[:60], *said, *run[: min(accepted_of_last, run_tokens)]]
    assert list(prompt.tokens) == kept
    end = driver.program.freeze_end(sequence)
    assert driver.program.point_frontier(end) == 60 + len(said)
    again = driver.start(make_prompt([*kept, 7]), end, takes_over=True)
    assert isinstance(again, Bound)
    driver.prefill(again.sequence, len(kept) + 1 - again.frontier)


def test_a_capture_takes_one_slot_and_becomes_visible_when_its_unit_lands() -> None:
    """[E2] [F2] V-05: no page is copied, and an unfinished point is no point."""
    driver = Driver(SimDevice(slots=2, pages={Pool.MAIN_KV: 9}, faults=SimFaults(0, 3)))
    sequence = start(driver, make_prompt(PROMPT, [100]))
    capture = CaptureRequest(100, PointKind.INPUT_POINT)
    free = driver.program.occupancy().free
    assert driver.program.reserve_capture(sequence, capture, None) is None
    assert free - driver.program.occupancy().free == Amounts(state=1)
    driver.program.submit([], PrefillTurn(sequence, 150, (capture,)))
    assert driver.program.list_delete_actions(Pool.STATE) == []
    done = driver.settle(sequence)
    assert isinstance(done[0], PrefillDone)
    ((frontier, point),) = done[0].captured
    assert frontier == driver.program.point_frontier(point) == 100


def test_an_outdated_input_point_ends_before_the_new_destination_is_taken() -> None:
    """[E2] [D6] with a single spare slot the new point takes the old one's place; without room nothing ends."""
    driver = Driver(SimDevice(slots=2, pages={Pool.MAIN_KV: 9}))
    sequence = start(driver, make_prompt(PROMPT, [50, 100]))
    old = driver.prefill(sequence, 64, capture_at=50)
    assert old is not None
    new = driver.prefill(sequence, 86, capture_at=100, retires=old)
    assert new is not None
    with pytest.raises(AssertionError, match="V-13"):
        driver.program.point_frontier(old)
    assert driver.program.point_frontier(new) == 100
    assert driver.program.occupancy().free.state == 0


def test_a_capture_without_room_is_a_value_and_changes_nothing() -> None:
    """[E3] the save is skipped; execution goes on, cut at the same places."""
    driver = Driver(SimDevice(slots=1, pages={Pool.MAIN_KV: 9}))
    sequence = start(driver, make_prompt(PROMPT, [50]))
    before = driver.program.occupancy()
    gap = driver.program.reserve_capture(sequence, CaptureRequest(50, PointKind.INPUT_POINT), None)
    assert gap == Shortfall(Pool.STATE, 1, 0)
    assert driver.program.occupancy() == before
    driver.prefill(sequence, 150)
    assert driver.generate(sequence, 2) == expected_tokens(PROMPT, 2, vocab_tokens=VOCAB)


def test_one_chunk_may_keep_several_positions() -> None:
    """[E2] [D11] each with a slot of its own; what a turn does not name returns."""
    driver = Driver(SimDevice(slots=4, pages={Pool.MAIN_KV: 9}))
    sequence = start(driver, make_prompt(PROMPT, [50, 100, 120]))
    captures = [CaptureRequest(frontier, PointKind.INPUT_POINT) for frontier in (50, 100, 120)]
    for capture in captures:
        assert driver.program.reserve_capture(sequence, capture, None) is None
    assert driver.program.occupancy().free.state == 0
    driver.program.submit([], PrefillTurn(sequence, 150, (captures[0], captures[2])))
    (done,) = driver.settle(sequence)
    assert isinstance(done, PrefillDone)
    assert [frontier for frontier, _ in done.captured] == [50, 120]
    assert driver.program.occupancy().free.state == 1
    driver.program.release(sequence)
    for frontier, point in done.captured:
        kept = PROMPT[:frontier]
        again = driver.start(make_prompt(kept), point)
        assert isinstance(again, Bound)
        assert driver.generate(again.sequence, 2) == expected_tokens(kept, 2, vocab_tokens=VOCAB)
        driver.program.release(again.sequence)


def test_an_unused_destination_returns_with_the_next_chunk() -> None:
    """V-04: forfeited remainders return at once."""
    driver = Driver(SimDevice(slots=2, pages={Pool.MAIN_KV: 9}))
    sequence = start(driver, make_prompt(PROMPT, [100]))
    driver.program.reserve_capture(sequence, CaptureRequest(100, PointKind.INPUT_POINT), None)
    assert driver.program.occupancy().free.state == 0
    driver.prefill(sequence, 64)
    assert driver.program.occupancy().free.state == 1


def test_a_release_in_flight_takes_effect_when_the_unit_has_landed() -> None:
    """[L3] V-13: the handle is stale at once, nothing more is reported, and nothing is given away before."""
    driver = Driver(SimDevice(slots=2, pages={Pool.MAIN_KV: 5}, faults=SimFaults(1, 4)))
    sequence = start(driver, make_prompt(PROMPT, [100]))
    capture = CaptureRequest(100, PointKind.INPUT_POINT)
    driver.program.reserve_capture(sequence, capture, None)
    driver.program.submit([], PrefillTurn(sequence, 150, (capture,)))
    driver.program.release(sequence)
    driver.program.audit()
    with pytest.raises(AssertionError, match="V-13"):
        driver.program.in_flight(sequence)
    assert driver.program.occupancy().free == Amounts(main_kv=2)
    for _ in range(9):
        assert driver.program.poll() == []
        driver.program.audit()
    assert driver.program.occupancy().free == driver.program.occupancy().capacity


def test_a_release_while_the_bind_copies_waits_for_the_copy() -> None:
    """[L3] V-03: the page being read stays, though its point is deleted meanwhile."""
    driver = Driver(SimDevice(slots=3, pages={Pool.MAIN_KV: 9}, faults=SimFaults(3, 6)))
    sequence = start(driver, make_prompt(PROMPT))
    driver.prefill(sequence, 150)
    end = driver.program.freeze_end(sequence)
    prompt = make_prompt([*PROMPT, 1])
    quote = driver.program.quote_source(prompt, end, takes_over=False, first_unit_tokens=64)
    assert quote is not None
    bound = driver.program.bind(quote, prompt, LaneId(1))
    assert isinstance(bound, Bound)
    assert driver.program.in_flight(bound.sequence)
    for pool in (Pool.STATE, Pool.MAIN_KV):
        assert driver.program.list_delete_actions(pool) == [], "the only point is being read"
    driver.program.release(bound.sequence)
    for _ in range(20):
        driver.program.poll()
        driver.program.audit()
    (action,) = driver.program.list_delete_actions(Pool.STATE)
    assert driver.program.delete(action) == Amounts(state=1, main_kv=3)


def test_deleting_counts_what_really_returns() -> None:
    """[B7] a shared page frees nothing until its last owner goes; an inner point frees a slot and no page."""
    driver = Driver(SimDevice(slots=6, pages={Pool.MAIN_KV: 30}))
    sequence = start(driver, make_prompt(PROMPT, [70, 128]))
    inner = driver.prefill(sequence, 150, capture_at=128)
    end = driver.program.freeze_end(sequence)
    branches = []
    for _ in range(2):
        bound = driver.start(make_prompt([*PROMPT[:128], 1]), inner)
        assert isinstance(bound, Bound)
        driver.prefill(bound.sequence, 1)
        branches.append(driver.program.freeze_end(bound.sequence))
    by_points = {action.points: action.frees for action in driver.program.list_delete_actions(Pool.STATE)}
    assert by_points == {
        (inner,): Amounts(state=1),
        (end,): Amounts(state=1, main_kv=1),
        (branches[0],): Amounts(state=1, main_kv=1),
        (branches[1],): Amounts(state=1, main_kv=1),
    }
    pages = {action.points: action.frees.main_kv for action in driver.program.list_delete_actions(Pool.MAIN_KV)}
    assert pages == {(end,): 1, (branches[0],): 1, (branches[1],): 1}


def test_histories_that_free_nothing_alone_are_offered_together() -> None:
    """[B7] all holders of shared pages must go before a page returns."""
    driver = Driver(SimDevice(slots=6, pages={Pool.MAIN_KV: 30}))
    sequence = start(driver, make_prompt(PROMPT[:128]))
    inner = driver.prefill(sequence, 128, capture_at=128)
    ends = []
    for _ in range(2):
        bound = driver.start(make_prompt(PROMPT[:128]), inner, first_unit_tokens=0)
        assert isinstance(bound, Bound)
        ends.append(driver.program.freeze_end(bound.sequence))
    driver.program.release(sequence)
    (action,) = driver.program.list_delete_actions(Pool.MAIN_KV)
    assert set(action.points) == {inner, *ends}
    assert action.frees == Amounts(state=1, main_kv=2)
    assert driver.program.delete(action) == action.frees


def test_an_old_action_is_refused() -> None:
    """V-14"""
    driver = Driver(SimDevice(slots=3, pages={Pool.MAIN_KV: 9}))
    sequence = start(driver, make_prompt(PROMPT))
    driver.prefill(sequence, 150)
    driver.program.freeze_end(sequence)
    (action,) = driver.program.list_delete_actions(Pool.STATE)
    start(driver, make_prompt(PROMPT[:3]))
    with pytest.raises(AssertionError, match="V-14"):
        driver.program.delete(action)


def test_a_unit_without_a_permit_is_refused() -> None:
    """[A4] nothing runs on pages that were not granted."""
    driver = Driver(SimDevice(slots=3, pages={Pool.MAIN_KV: 9}))
    bound = driver.start(make_prompt(PROMPT), first_unit_tokens=64)
    assert isinstance(bound, Bound)
    with pytest.raises(AssertionError, match="V-04"):
        driver.program.submit([], PrefillTurn(bound.sequence, 65))


def test_permits_are_all_or_nothing_over_the_typed_pools() -> None:
    """V-04: the pool that is short names itself, and the other one keeps its pages."""
    driver = Driver(SimDevice(slots=3, pages={Pool.MAIN_KV: 9, Pool.MTP_KV: 2}))
    bound = driver.start(make_prompt(PROMPT), first_unit_tokens=64)
    assert isinstance(bound, Bound)
    before = driver.program.occupancy()
    assert driver.program.reserve_prefill(bound.sequence, 150) == Shortfall(Pool.MTP_KV, 2, 1)
    assert driver.program.occupancy() == before
    assert driver.program.reserve_prefill(bound.sequence, 128) is None
    assert driver.program.reserve_prefill(bound.sequence, 100) is None, "a smaller permit is free"


def test_a_device_failure_reaches_the_caller() -> None:
    """[L3] plain shortages are values; a device error is an exception."""
    driver = Driver(SimDevice(slots=3, pages={Pool.MAIN_KV: 9}, faults=SimFaults(fail_submission=1)))
    sequence = start(driver, make_prompt(PROMPT))
    driver.prefill(sequence, 150)
    with pytest.raises(DeviceFailure):
        driver.program.submit([DrawTurn(sequence, False, GREEDY, 0.0)], None)


def test_an_audit_sees_a_lost_reference() -> None:
    """V-02: the recount starts from the owners, so that a reference nobody holds is seen."""
    driver = Driver(SimDevice(slots=3, pages={Pool.MAIN_KV: 9}))
    sequence = start(driver, make_prompt(PROMPT))
    driver.prefill(sequence, 150)
    driver.program._stores.pages[Pool.MAIN_KV].share(1)
    with pytest.raises(AssertionError, match="V-02"):
        driver.program.audit()


def test_three_kinds_of_record_stay_apart() -> None:
    """[A3] ending a point ends neither the history others hold nor the pages they share."""
    driver = Driver(SimDevice(slots=5, pages={Pool.MAIN_KV: 9}))
    sequence = start(driver, make_prompt(PROMPT, [100]))
    inner = driver.prefill(sequence, 150, capture_at=100)
    end = driver.program.freeze_end(sequence)
    (action,) = [a for a in driver.program.list_delete_actions(Pool.STATE) if a.points == (end,)]
    assert driver.program.delete(action) == Amounts(state=1, main_kv=1)
    bound = driver.start(make_prompt([*PROMPT[:100], 8]), inner, takes_over=True)
    assert isinstance(bound, Bound)
    driver.prefill(bound.sequence, 1)
    assert driver.generate(bound.sequence, 2) == expected_tokens([*PROMPT[:100], 8], 2, vocab_tokens=VOCAB)


def test_occupancy_adds_up() -> None:
    """V-01: capacity, free and unfilled; scratch page and slot are outside."""
    driver = Driver(SimDevice(slots=3, pages={Pool.MAIN_KV: 9}))
    assert driver.program.occupancy().capacity == Amounts(state=3, main_kv=9)
    assert driver.program.occupancy().free == driver.program.occupancy().capacity
    assert driver.program.occupancy().reserved == ZERO


def test_runs_and_views_are_plain_memory() -> None:
    """Tokens and page tables reach the device as int32 views without a copy."""
    device = WatchedDevice()
    driver = Driver(device)
    prompt = make_prompt(PROMPT)
    sequence = start(driver, prompt)
    driver.program.submit([], PrefillTurn(sequence, 150))
    batch = device.log[0]
    assert isinstance(batch, UnitBatch)
    row = batch.rows[0]
    assert row.token_ids.obj is prompt.tokens.view().obj
    assert array("i", row.pages[Pool.MAIN_KV]).tolist() == [1, 2, 3]
    assert row.cuts == ()
    driver.settle(sequence)
