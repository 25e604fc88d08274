"""The engine with a host: what leaves the device comes back, pauses keep their place, failed copies cost little."""

from __future__ import annotations

import pytest
from sim_engine import Caller, SimEngine, filler

from ninfer.base.pools import Pool
from ninfer.engine.request import Phase
from ninfer.engine.room import revoke_snapshot
from ninfer.ports.output import FinishReason
from ninfer.sim.device import SIM_PAGE_BYTES, SIM_STATE_BYTES, SimFaults

PLENTY = 32 * SIM_STATE_BYTES
BOTH = (Pool.MAIN_KV, Pool.MTP_KV)


def chat(engine: SimEngine, seed: int, length: int = 200) -> list[int]:
    """One finished turn; the history that its caller sends back."""
    prompt = filler(length, seed)
    caller = engine.ask(prompt, 8)
    caller.check_output()
    return [*prompt, *caller.tokens]


def is_empty(engine: SimEngine) -> bool:
    """Everything comes back when all points go (V-02)."""
    for point in engine.program.list_points():
        engine.program.discard_point(point)
    occupancy = engine.program.occupancy()
    return occupancy.free == occupancy.capacity


def until_pause(engine: SimEngine, caller: Caller) -> None:
    assert caller.handle is not None
    for _ in range(2000):
        engine.turn()
        if engine.state.requests[caller.handle.ticket].phase is Phase.PAUSED:
            return
    raise AssertionError("it is never paused")


@pytest.mark.parametrize("pools", [(Pool.MAIN_KV,), BOTH])
def test_what_was_demoted_is_restored_on_a_hit(pools: tuple[Pool, ...]) -> None:
    """[B7], [C4], [F3], [I6]: three chats that the device cannot hold together all go on where they ended."""
    engine = SimEngine(lanes=1, slots=2, pages=8, max_context=512, host=PLENTY, delay_polls=2, pools=pools)
    histories = [chat(engine, seed) for seed in range(3)]
    assert engine.state.counters.demotions > 0
    for history in histories:
        again = engine.ask([*history, 1, 2, 3], 4)
        again.check_output()
        assert again.start.cached_tokens == len(history) - 1, "all but the token that was never fed"
    assert engine.state.counters.failed_transfers == 0


def test_without_a_host_the_same_chats_are_deleted() -> None:
    """[C2]: host 0 is allowed; nothing is demoted, and what has to go is gone."""
    engine = SimEngine(lanes=1, slots=2, pages=8, max_context=512)
    histories = [chat(engine, seed) for seed in range(3)]
    assert engine.state.counters.demotions == 0
    assert engine.ask([*histories[0], 1], 2).start.cached_tokens == 0


def crowd(engine: SimEngine) -> tuple[Caller, Caller]:
    """Two that cannot both grow to their end: the younger one is paused."""
    return engine.submit(filler(400, 1), 500), engine.submit(filler(400, 2), 300)


@pytest.mark.parametrize("late", [0, 3])
@pytest.mark.parametrize("pools", [(Pool.MAIN_KV,), BOTH])
def test_a_pause_with_room_on_the_host_replays_nothing(late: int, pools: tuple[Pool, ...]) -> None:
    """[K1], [K2], [A5]: the request goes on from its snapshot, and no token is computed twice."""
    engine = SimEngine(lanes=2, pages=16, max_context=1024, host=PLENTY, delay_polls=late, pools=pools)
    older, younger = crowd(engine)
    engine.run()
    for caller in (older, younger):
        caller.check_output()
        assert caller.finished.reason is FinishReason.LENGTH
    assert younger.finished.timings.pauses >= 1
    assert younger.finished.timings.replayed_tokens == 0
    counters = engine.state.counters
    assert counters.snapshots == counters.snapshots_resumed == counters.pauses > 0
    assert engine.device.fed_tokens == 400 + 499 + 400 + 299


def test_a_snapshot_that_finds_no_room_is_a_replay() -> None:
    """[K2]: no recursive preemption; without room the pause is destructive and allocates nothing."""
    engine = SimEngine(lanes=2, pages=16, max_context=1024, host=SIM_STATE_BYTES)
    older, younger = crowd(engine)
    engine.run()
    older.check_output()
    younger.check_output()
    assert engine.state.counters.snapshots == 0
    assert younger.finished.timings.replayed_tokens > 0


def test_a_snapshot_is_revoked_for_an_older_one_and_replayed() -> None:
    """[K3]: its references go, Replay rebuilds the request, and the words stay the same."""
    engine = SimEngine(lanes=2, pages=16, max_context=1024, host=PLENTY)
    older, younger = crowd(engine)
    until_pause(engine, younger)
    while engine.program.transaction_open:
        engine.turn()
    (request,) = engine.state.list_snapshots()
    record = request.record
    assert record is not None
    assert record.user == request.ticket, "nobody takes the history of a paused request over"
    revoke_snapshot(engine.state, request)
    engine.state.audit()
    assert PLENTY - engine.program.occupancy().free.host == 7 * SIM_PAGE_BYTES, "the input point stays on its own"
    assert record.user is None
    engine.run()
    older.check_output()
    younger.check_output()
    assert younger.finished.timings.replayed_tokens > 0


@pytest.mark.parametrize("after", [0, 30])
def test_a_paused_request_that_is_cancelled_leaves_nothing(after: int) -> None:
    """[L3], [V-13]: with its copies still under way, or long after; the bytes come back."""
    engine = SimEngine(lanes=2, pages=16, max_context=1024, host=PLENTY, delay_polls=6, seed=2)
    older, younger = crowd(engine)
    until_pause(engine, younger)
    engine.turn(after)
    if engine.state.list_snapshots():
        assert younger.handle is not None
        younger.handle.cancel()
    engine.run()
    older.check_output()
    younger.check_output()
    engine.land()
    assert is_empty(engine)


def test_a_failed_restore_is_computed_again() -> None:
    """[L3], [V-05]: what could not be read back is no source; the request is right, and says what it cost."""
    engine = SimEngine(lanes=1, slots=2, pages=8, max_context=512, host=PLENTY)
    histories = [chat(engine, seed) for seed in range(3)]
    engine.device._faults = SimFaults(host_failures=1.0)
    for history in histories:
        again = engine.ask([*history, 1, 2, 3], 4)
        again.check_output()
        timings = again.finished.timings
        assert timings.pauses == 0
        assert (timings.failed_restores > 0) == (timings.replayed_tokens > 0)
    assert engine.state.counters.failed_transfers > 0
    assert is_empty(engine)


def test_a_pause_whose_copies_fail_is_a_replay() -> None:
    """[K2], [L2]: the room was needed, so the snapshot does not stay on the device."""
    engine = SimEngine(lanes=2, pages=16, max_context=1024, host=PLENTY, faults=SimFaults(host_failures=1.0))
    older, younger = crowd(engine)
    engine.run()
    older.check_output()
    younger.check_output()
    counters = engine.state.counters
    assert counters.snapshots_revoked == counters.snapshots > 0
    assert counters.failed_transfers == counters.snapshots + counters.demotions
    assert younger.finished.timings.replayed_tokens > 0


def test_a_failed_demotion_gives_way_to_deletion() -> None:
    """[L2]: optional copies are given up, counted, and nobody waits for them for ever."""
    engine = SimEngine(lanes=1, slots=2, pages=8, max_context=512, host=PLENTY, faults=SimFaults(host_failures=1.0))
    for seed in range(4):
        chat(engine, seed)
    counters = engine.state.counters
    assert counters.failed_transfers == counters.demotions + counters.host_captures > 0
    assert counters.failed == 0


def test_a_state_without_a_device_slot_is_saved_on_the_host() -> None:
    """[E2], [E3]: one slot for the active state alone; the point at the prompt's end goes to the host, and serves."""
    engine = SimEngine(lanes=1, slots=1, pages=16, max_context=512, host=PLENTY, delay_polls=1)
    prompt = filler(150, 5)
    first = engine.ask(prompt, 30)
    assert engine.state.counters.host_captures == 1
    again = engine.ask(prompt, 30)
    assert again.start.cached_tokens == 150
    assert again.tokens == first.tokens
    again.check_output()


def test_others_go_on_while_a_transaction_is_under_way() -> None:
    """[L1], [C8], [V-07]: a demotion of many polls holds up whom it makes room for, not the one who decodes."""
    engine = SimEngine(lanes=2, slots=4, pages=10, max_context=512, host=PLENTY)
    history = chat(engine, 1)
    engine.device._faults = SimFaults(delay_polls=20)
    talker = engine.submit(filler(60, 2), 100)
    while not talker.tokens:
        engine.turn()
    engine.submit(filler(250, 3), 4)
    said = 0
    for _ in range(200):
        before = len(talker.tokens)
        engine.turn()
        if engine.program.transaction_open:
            said += len(talker.tokens) - before
            assert engine.state.binding is None or engine.state.counters.demotions
    assert said > 0
    engine.run()
    assert len(history) == 208


def test_a_moved_input_point_stays_on_the_host() -> None:
    """[F3]: too few slots for the point and the active state; it is copied out first, its slot passes on."""
    engine = SimEngine(lanes=1, slots=1, pages=16, max_context=512, host=PLENTY)
    prompt = filler(150, 7)
    engine.ask(prompt, 8)
    stays = [point for point in engine.program.list_points() if engine.program.point_frontier(point) == 150]
    assert len(stays) == 1
    for _ in range(3):
        again = engine.ask(prompt, 8)
        again.check_output()
        assert again.start.cached_tokens == 150
