"""Pools that are too small: reclaim, destructive pauses, Replay, and the capacity contract."""

from __future__ import annotations

from itertools import pairwise

import pytest
from sim_engine import Caller, SimEngine, filler

from ninfer.base.errors import CapacityContractError
from ninfer.base.ids import Ticket
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Pool
from ninfer.engine.admission import Admission
from ninfer.engine.failure import Endings
from ninfer.engine.request import Phase
from ninfer.engine.turns import Granted, Turns
from ninfer.ports.output import Failed, FinishReason, GenerationStart, OutputDelta, RestorePath
from ninfer.ports.sampling import SamplingParams


@pytest.mark.parametrize("host", [0, 1 << 30])
def test_growing_requests_pause_the_youngest_and_all_finish(host: int) -> None:
    """SCHED-01, [C7], [J4], [K1]: three of 45 % each, a pool of 1.3 times one maximal request; either kind of pause."""
    engine = SimEngine(lanes=3, pages=21, max_context=1024, host=host)
    prompts = [filler(300, seed) for seed in range(3)]
    callers = [engine.submit(prompt, 450) for prompt in prompts]
    ends: list[int] = []
    engine.turn()
    while engine.state.requests:
        engine.turn()
        ends += [index for index, caller in enumerate(callers) if caller.end is not None and index not in ends]
    assert ends == [0, 1, 2], "the order of finish follows arrival"
    for caller in callers:
        caller.check_output()
        assert caller.finished.reason is FinishReason.LENGTH
        assert caller.finished.timings.pauses <= 3
        assert caller.finished.timings.longest_gap_s < 2
    assert engine.state.counters.pauses > 0
    replayed = sum(caller.finished.timings.replayed_tokens for caller in callers)
    assert replayed == engine.state.counters.replayed_tokens
    assert (replayed > 0) == (host == 0)
    assert (engine.state.counters.snapshots > 0) == (host > 0)
    assert replayed <= 2 * sum(len(prompt) + 450 for prompt in prompts)


def test_a_pause_publishes_samples_and_budgets_nothing_twice() -> None:
    """[K4], [A5], SCHED-12: the same events as without a pause, and the pause is on record."""
    params = SamplingParams(temperature=1.0, seed=5, presence_penalty=1.0)
    alone = SimEngine().ask(filler(400, 2), 300, params=params)
    engine = SimEngine(lanes=2, pages=16, max_context=1024)
    older = engine.submit(filler(400, 1), 500)
    younger = engine.submit(filler(400, 2), 300, params=params)
    engine.run()
    older.check_output()
    younger.check_output()
    assert younger.tokens == alone.tokens
    assert sum(isinstance(event, OutputDelta) for event in younger.events) == 300
    assert sum(isinstance(event, GenerationStart) for event in younger.events) == 1
    timings = younger.finished.timings
    assert timings.pauses >= 1
    assert timings.paused_s > 0
    assert timings.replayed_tokens > 0
    assert older.finished.timings.pauses == 0, "the older one is never paused for the younger [J5]"
    usage = younger.finished.usage
    assert usage.cached_tokens + timings.computed_prompt_tokens == usage.prompt_tokens, "a replay is no hit (USE-03)"
    assert usage.completion_tokens == 300


def test_a_resume_starts_from_what_survived() -> None:
    """[K3]: the input point is a record of its own, so the replay begins there."""
    engine = SimEngine(lanes=2, slots=6, pages=16, max_context=1024, chunk=64)
    older = engine.submit(filler(200, 1), 400)
    younger = engine.submit(filler(300, 2), 400, recovery=290)
    engine.run()
    for caller in (older, younger):
        caller.check_output()
    assert younger.finished.timings.pauses == 1
    assert 200 < younger.finished.timings.replayed_tokens < 300, "from the input point, not from root"
    assert younger.finished.usage.cached_tokens == 0


def test_a_resume_holds_its_full_permit() -> None:
    """[C9], [J6]: between two pauses of a request lies new work; at most one request recovers at a time."""
    engine = SimEngine(lanes=3, pages=18, max_context=1024, chunk=64)
    callers = [engine.submit(filler(250, seed), 500) for seed in range(3)]
    computed_at_pause: dict[Ticket, list[int]] = {}
    recovered: set[Ticket] = set()
    engine.turn()
    while engine.state.requests:
        engine.turn()
        if engine.state.recovering is not None:
            recovered.add(engine.state.recovering)
            assert engine.state.requests[engine.state.recovering].phase is not Phase.PAUSED
        for ticket, request in engine.state.requests.items():
            marks = computed_at_pause.setdefault(ticket, [])
            if request.publication.pauses > len(marks):
                marks.append(len(request.ledger))
    paused = {ticket for ticket, marks in computed_at_pause.items() if marks}
    assert paused
    assert recovered == paused
    assert all(marks == sorted(set(marks)) for marks in computed_at_pause.values()), "paused twice without a new token"
    for caller in callers:
        caller.check_output()


def pause(engine: SimEngine, caller: Caller) -> None:
    """Pause a resident by hand, as pressure would."""
    assert caller.handle is not None
    Endings(engine.state).pause(engine.state.requests[caller.handle.ticket])


def test_no_save_while_the_full_permit_is_in_force() -> None:
    """[E4]: the first new chunk after a resume crosses the recovery frontier and saves nothing."""
    for pauses, points in ((0, 2), (1, 1)):
        engine = SimEngine(lanes=1, pages=32, max_context=1024, chunk=64)
        caller = engine.submit(filler(900, 1), 5, recovery=800)
        engine.turn()
        while engine.state.requests[caller.handle.ticket].frontier < 768:  # type: ignore[union-attr]
            engine.turn()
            engine.land()
        for _ in range(pauses):
            pause(engine, caller)
            engine.state.queue.note_capacity()
        engine.run()
        caller.check_output()
        assert caller.finished.timings.pauses == pauses
        assert engine.resources.facts().points == points


def test_the_oldest_paused_request_takes_the_lane_of_a_younger_one() -> None:
    """[J5], [J4]: at a commit boundary; with its unit in flight the younger one is only waited for."""
    engine = SimEngine(lanes=1, pages=32, delay_polls=4, seed=2)
    older = engine.submit(filler(100, 1), 40)
    while len(older.tokens) < 5:
        engine.turn()
    engine.land()
    pause(engine, older)
    younger = engine.submit(filler(100, 2), 300)
    engine.turn()
    assert engine.state.prefill_in_flight == younger.handle.ticket  # type: ignore[union-attr]
    engine.state.queue.note_capacity()
    assert not Admission(engine.state, Endings(engine.state)).resume_paused()
    assert engine.state.queue.find_paused() == older.handle.ticket, "it asks again"  # type: ignore[union-attr]
    while older.end is None:
        engine.turn()
    assert younger.end is None, "it did not wait for the younger one's end"
    engine.run()
    for caller in (older, younger):
        caller.check_output()


def test_a_resume_starts_at_most_where_it_was_paused() -> None:
    """[G1], USE-03: a deeper point of somebody else would leave prompt tokens that are neither cached nor computed."""
    engine = SimEngine(lanes=3, pages=64, chunk=64)
    engine.submit(filler(30, 3), 400)  # older than both, so that nobody is paused for the resume
    paused = engine.submit(filler(600, 1), 5, recovery=0)  # saves nothing, so that its twin does not wait for it
    twin = engine.submit(filler(600, 1), 5)
    engine.turn()
    while engine.state.requests[paused.handle.ticket].frontier < 256:  # type: ignore[union-attr]
        engine.turn()
        engine.land()
    pause(engine, paused)
    engine.submit(filler(30, 2), 400)  # takes the lane, so that the twin ends first
    while twin.end is None:
        engine.turn()
    assert not paused.tokens
    engine.run()
    paused.check_output()
    timings, usage = paused.finished.timings, paused.finished.usage
    assert usage.cached_tokens + timings.computed_prompt_tokens == usage.prompt_tokens
    assert timings.replayed_tokens == 256


def test_lanes_that_decode_stay_in_one_set() -> None:
    """[J1]: one compact decode set, also when completions come late and lanes start at different times."""
    engine = SimEngine(lanes=4, delay_polls=3, seed=1, chunk=64)
    submit, sets = engine.program.submit, list[int]()

    def spy(draws: list, prefill: object, **more: bool) -> int:
        assert not draws or engine.state.draws_in_flight == 0, "a second set beside one in flight"
        sets.append(len(draws))
        return submit(draws, prefill, **more)  # type: ignore[arg-type]

    engine.program.submit = spy  # type: ignore[method-assign, assignment]
    callers = []
    for seed in range(4):
        callers.append(engine.submit(filler(70 * (seed + 1), seed), 60))
        engine.turn(5)
    engine.run()
    for caller in callers:
        caller.check_output()
    assert sets.count(4) > 20, "all four decode together"


def test_fresh_requests_enter_beside_a_paused_one_and_never_preempt() -> None:
    """[J2], [J5], M8: a paused request blocks only itself."""
    engine = SimEngine(lanes=3, pages=17, max_context=1024, chunk=128)
    older = engine.submit(filler(500, 1), 480)
    younger = engine.submit(filler(450, 2), 400)
    while not engine.state.counters.pauses:
        engine.turn()
    short = engine.submit(filler(20, 3), 10)
    while short.end is None:
        engine.turn()
    assert older.end is None
    assert younger.end is None
    engine.run()
    for caller in (older, younger, short):
        caller.check_output()


def test_optional_points_go_before_anybody_is_paused() -> None:
    """[J3], [I8]"""
    engine = SimEngine(lanes=2, pages=16, max_context=1024)
    for seed in range(4):
        engine.ask(filler(200, seed), 5)
    assert engine.program.occupancy().free[Pool.MAIN_KV] < 6
    callers = [engine.submit(filler(400, seed), 60) for seed in (11, 12)]
    engine.run()
    for caller in callers:
        caller.check_output()
    assert engine.state.counters.pauses == 0


def test_a_request_keeps_its_source_while_it_makes_room() -> None:
    """[I8]: everything optional may go, but not what the request starts from."""
    engine = SimEngine(lanes=1, slots=3, pages=16, max_context=1024)
    chat = engine.ask(filler(400, 1), 20, recovery=390)
    engine.ask(filler(420, 2), 20, recovery=400)
    onward = chat.prompt + chat.tokens + filler(500, 3)
    caller = engine.ask(onward, 80)
    caller.check_output()
    assert caller.start.cached_tokens >= 390


def test_with_slots_for_the_lanes_alone_optional_saves_fail_and_work_goes_on() -> None:
    """[C2], [E3], M7: no slot beyond the basic ones."""
    engine = SimEngine(lanes=2, slots=2, pages=32)
    chat = engine.ask(filler(200, 1), 10, recovery=190)
    onward = chat.prompt + chat.tokens + filler(20, 2)
    second = engine.ask(onward, 10, recovery=len(onward) - 3)
    second.check_output()
    assert second.start.restore_path is RestorePath.END
    callers = [engine.submit(filler(150, seed), 10, recovery=140) for seed in range(5)]
    engine.run()
    for caller in callers:
        caller.check_output()


def test_a_lone_input_point_is_given_up_where_slots_are_too_few() -> None:
    """[F3]: one slot for the point and none for the active state: the point becomes the state."""
    engine = SimEngine(lanes=1, slots=1, pages=32)
    first = engine.submit(filler(300, 1), 5, recovery=100)
    engine.run()
    first.check_output()
    engine = SimEngine(lanes=2, slots=2, pages=32, chunk=64)
    half = engine.submit(filler(300, 1), 5, recovery=100)
    while engine.resources.facts().points == 0:
        engine.turn()
    half.handle.cancel()  # type: ignore[union-attr]
    engine.run()
    busy = engine.submit(filler(20, 2), 100)
    engine.turn(3)
    again = engine.submit(half.prompt, 5, recovery=100)
    engine.run()
    again.check_output()
    busy.check_output()
    assert again.start.cached_tokens == 100


def test_a_newcomer_gets_a_point_as_soon_as_its_reader_is_done() -> None:
    """[J2], [V-03]: what the first unit of a resident reads may not go; once it has landed the queue is asked again."""
    engine = SimEngine(lanes=2, slots=2, pages=32, chunk=64)
    chat = engine.ask(filler(300, 1), 5, recovery=290)
    assert engine.resources.facts().points == 2
    again = engine.submit(chat.prompt, 200, recovery=290)
    fresh = engine.submit(filler(50, 2), 5)
    engine.run()
    for caller in (again, fresh):
        caller.check_output()
    assert again.start.cached_tokens == 290
    assert fresh.finished.timings.queued_s < 0.02


def test_side_requests_leave_the_long_chat_its_restore_point() -> None:
    """CACHE-12 at an eighth: one lane, two states, thirty one-shots between two turns."""
    for side_requests in (3, 30):
        engine = SimEngine(lanes=1, slots=2, pages=64, max_context=2048)
        chat = engine.ask(filler(1100, 1), 20, recovery=1090)
        for seed in range(side_requests):
            engine.ask(filler(60, 100 + seed), 10, recovery=50).check_output()
        onward = chat.prompt + chat.tokens + filler(30, 2)
        caller = engine.ask(onward, 10, recovery=len(onward) - 3)
        caller.check_output()
        assert caller.start.cached_tokens >= 1090


def test_big_budgets_reserve_nothing_ahead() -> None:
    """SCHED-03 at an eighth, [A4]: four chats in turn with a huge max_tokens stay warm."""
    engine = SimEngine(lanes=1, slots=9, pages=80, max_context=4096)
    chats = [filler(1000, seed) for seed in range(4)]
    for turn in range(3):
        for index, prompt in enumerate(chats):
            caller = engine.submit(prompt, 2000, recovery=len(prompt) - 4)
            while len(caller.tokens) < 7:
                engine.turn()
            caller.handle.cancel()  # type: ignore[union-attr]
            engine.run()
            caller.check_output()
            if turn:
                assert len(prompt) - caller.start.cached_tokens <= 62
            chats[index] = prompt + caller.tokens + filler(20, turn)


def test_a_request_that_can_never_fit_names_need_and_capacity() -> None:
    """[C10]: nothing waits for a releaser that does not exist."""
    engine = SimEngine(lanes=1, pages=4, max_context=1024)
    cold = engine.ask(filler(300, 1), 5)
    assert isinstance(cold.end, Failed)
    assert isinstance(cold.end.error, CapacityContractError)
    assert "main_kv" in str(cold.end.error)
    grows = engine.ask(filler(200, 2), 200)
    assert isinstance(grows.end, Failed)
    assert isinstance(grows.end.error, CapacityContractError)
    grows.check_output()
    assert len(grows.tokens) >= 50
    engine.ask(filler(100, 3), 20).check_output()


def test_a_long_prefill_stops_nobody() -> None:
    """SCHED-05, SCHED-06: between two decode steps lies at most one chunk; a short newcomer goes first."""
    engine = SimEngine(lanes=4, slots=8, pages=256, max_context=4096, chunk=64)
    victim = engine.submit(filler(20, 1), 400)
    while len(victim.tokens) < 5:
        engine.turn()
    attackers = [engine.submit(filler(2500, seed), 3) for seed in (2, 3)]
    engine.turn(6)
    short = engine.submit(filler(200, 9), 5)
    while victim.end is None:
        before, fed = len(victim.tokens), engine.device.fed_tokens
        engine.turn()
        assert victim.end is not None or len(victim.tokens) == before + 1, "a step a cycle"
        assert engine.device.fed_tokens - fed <= 64 + 4
        if short.tokens and not attackers[0].end:
            break
    assert short.tokens
    assert not any(caller.tokens for caller in attackers)
    engine.run()
    for caller in (victim, short, *attackers):
        caller.check_output()
    assert short.finished.timings.queued_s < short.finished.timings.ttft_s


def test_more_than_half_the_pool_may_belong_to_one_request() -> None:
    """[C3]: capacity is not split among lanes."""
    engine = SimEngine(lanes=4, pages=20, max_context=1024)
    small = engine.submit(filler(60, 1), 60)
    large = engine.submit(filler(900, 2), 100)
    engine.run()
    small.check_output()
    large.check_output()
    assert engine.state.counters.pauses == 0


def test_a_newcomer_paused_before_its_turn_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """[J1], [J4]: an older one that was blocked when residents asked may pause whoever was bound since."""
    engine = SimEngine(lanes=3, chunk=64)
    callers = [engine.submit(filler(900, 1), 5), engine.submit(filler(60, 2), 60), engine.submit(filler(400, 3), 5)]
    while not callers[1].tokens or engine.state.requests[Ticket(2)].frontier == 0:
        engine.turn()
    engine.land()
    turns = Turns(engine.state, Endings(engine.state))
    assert turns.submit_draws(Granted(draws=[engine.state.requests[Ticket(1)]]))
    engine.state.rotation.note_turn(Ticket(2))  # the older one is asked first
    with monkeypatch.context() as patch:
        patch.setattr(engine.program, "reserve_prefill", lambda sequence, tokens: Shortfall(Pool.MAIN_KV, 9, 0))
        granted = Granted()
        turns.grant_newcomer(granted)
    assert granted == Granted()
    assert [r.phase for r in engine.state.requests.values()] == [Phase.PREFILL, Phase.DECODE, Phase.PAUSED]
    engine.run()
    for caller in callers:
        caller.check_output()
        assert caller.finished.reason is FinishReason.LENGTH


def test_a_blocked_request_is_passed_by_at_most_as_many_as_there_are_lanes() -> None:
    """[J2], V-10, SCHED-07: what cannot start yet lets two smaller ones by, then everybody behind it waits."""
    engine = SimEngine(lanes=2, pages=10)
    holder = engine.submit(filler(520, 1), 50)
    engine.turn(12)
    blocked = engine.submit(filler(200, 2), 2)
    small = [engine.submit(filler(20, 3 + index), 2) for index in range(4)]
    while holder.end is None:
        engine.turn()
    assert [caller.end is not None for caller in (blocked, *small)] == [False, True, True, False, False]
    engine.run()
    for caller in (holder, blocked, *small):
        caller.check_output()


@pytest.mark.parametrize("gap_s", [None, 0.0001])
def test_chunks_beside_a_decoding_lane_keep_the_gap(gap_s: float | None) -> None:
    """[J7]: with a target a long prompt goes in steps that fit while others decode; without one in whole chunks."""
    engine = SimEngine(lanes=2, pages=64, max_context=2048, chunk=512, max_gap_s=gap_s)
    alone = engine.submit(filler(600, 0), 2)
    assert list_chunks(engine, alone) == [512, 88]
    reader = engine.submit(filler(20, 1), 60)
    engine.turn(4)
    beside = engine.submit(filler(1200, 2), 4)
    assert list_chunks(engine, beside) == ([512, 512, 176] if gap_s is None else [64] * 18 + [48])
    engine.run()
    for caller in (alone, reader, beside):
        caller.check_output()


def list_chunks(engine: SimEngine, caller: Caller) -> list[int]:
    """Turn until the request has ended; lengths of its prefill chunks."""
    ends = [0]
    while caller.end is None:
        engine.turn()
        filling = [request for request in engine.state.residents() if request.phase is Phase.PREFILL]
        ends += [request.chunk_end for request in filling if request.chunk_end > ends[-1]]
    return [end - start for start, end in pairwise(ends)]
