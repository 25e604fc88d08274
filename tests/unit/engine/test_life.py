"""Cancel at every phase, timeouts, the bounded queue, draining: LIFE-01 to LIFE-05, STATE-03."""

from __future__ import annotations

import pytest
from sim_engine import Caller, SimEngine, filler, make_plan

from ninfer.base.errors import BadInput, Overloaded, QueueTimeout, RequestTimeout
from ninfer.engine.core import Condition
from ninfer.engine.request import LEGAL, Phase
from ninfer.ports.output import Failed, FinishReason, RestorePath
from ninfer.ports.sampling import SamplingParams


def cancel(caller: Caller) -> None:
    assert caller.handle is not None
    caller.handle.cancel()


def test_a_request_cancelled_in_the_queue_never_runs() -> None:
    """LIFE-03"""
    engine = SimEngine(lanes=1)
    busy = engine.submit(filler(100, 1), 30)
    engine.turn(3)
    dead = [engine.submit(filler(100, seed), 30) for seed in range(2, 12)]
    live = engine.submit(filler(100, 20), 5)
    engine.turn()
    for caller in dead:
        cancel(caller)
    engine.run()
    busy.check_output()
    live.check_output()
    for caller in dead:
        assert [type(event).__name__ for event in caller.events] == ["Finished"]
        assert caller.finished.reason is FinishReason.CANCELLED
        assert caller.finished.timings.computed_prompt_tokens == 0


@pytest.mark.parametrize("delay_polls", [0, 3])
def test_cancel_during_prefill_stops_at_the_next_chunk(delay_polls: int) -> None:
    """LIFE-02"""
    engine = SimEngine(chunk=64, delay_polls=delay_polls)
    caller = engine.submit(filler(1000, 1), 5)
    while engine.state.prefill_in_flight is None:
        engine.turn()
    cancel(caller)
    engine.run()
    assert caller.finished.reason is FinishReason.CANCELLED
    assert caller.finished.timings.computed_prompt_tokens <= 128
    assert engine.device.fed_tokens <= 128
    assert engine.resources.facts().points == 0, "a chunk end is no restore point"
    assert engine.program.occupancy().free == engine.program.occupancy().capacity


def test_cancel_during_prefill_keeps_the_input_point_that_was_passed() -> None:
    """[F4]: what is captured survives on its own."""
    engine = SimEngine(chunk=64)
    caller = engine.submit(filler(900, 1), 5, recovery=100)
    while engine.resources.facts().points == 0:
        engine.turn()
    cancel(caller)
    engine.run()
    again = engine.ask(caller.prompt, 5, recovery=100)
    again.check_output()
    assert again.start.cached_tokens == 100


def test_cancel_during_decode_frees_the_lane_and_keeps_the_state() -> None:
    """LIFE-01, [F4]: after the prefill the state is legal, so it becomes an endpoint."""
    engine = SimEngine(lanes=1)
    caller = engine.submit(filler(100, 1), 800)
    while len(caller.tokens) < 5:
        engine.turn()
    cancel(caller)
    engine.turn(2)
    assert caller.finished.reason is FinishReason.CANCELLED
    caller.check_output()
    follow = engine.ask(caller.prompt + caller.tokens + [3], 5)
    follow.check_output()
    assert follow.start.restore_path is RestorePath.END
    assert follow.start.cached_tokens >= 100 + len(caller.tokens) - 1


@pytest.mark.parametrize("cycles", range(12))
@pytest.mark.parametrize("delay_polls", [0, 2])
def test_cancel_at_any_cycle_leaves_everything_in_order(cycles: int, delay_polls: int) -> None:
    """The audit after every cycle would name a leak; the neighbour notices nothing."""
    engine = SimEngine(chunk=64, delay_polls=delay_polls, seed=cycles)
    neighbour = engine.submit(filler(150, 9), 20)
    caller = engine.submit(filler(200, 1), 20, recovery=190)
    engine.turn(cycles)
    cancel(caller)
    cancel(caller)
    engine.run()
    neighbour.check_output()
    caller.check_output()
    assert neighbour.finished.reason is FinishReason.LENGTH
    assert not engine.state.by_sequence


def test_a_bind_under_way_is_waited_for() -> None:
    """[L3], [V-07]: no second bind starts before the cancelled one's copies have landed."""
    engine = SimEngine(delay_polls=6, seed=3)
    first = engine.submit(filler(100, 1), 200, recovery=90)
    while len(first.tokens) < 3:
        engine.turn()
    branch = engine.submit(first.prompt, 5, recovery=90)
    while engine.state.binding is None:
        engine.turn()
    cancel(branch)
    other = engine.submit(first.prompt, 5, recovery=90)
    copies = engine.program._flights._copies
    assert copies, "the tail copy is under way"
    while copies:
        assert branch.end is None
        assert engine.state.binding == branch.handle.ticket  # type: ignore[union-attr]
        engine.turn()
    engine.run()
    other.check_output()
    assert branch.finished.reason is FinishReason.CANCELLED


def test_cancel_of_a_branch_leaves_the_other_owner_its_cache() -> None:
    """LIFE-05"""
    engine = SimEngine()
    chat = engine.ask(filler(300, 1), 20, recovery=290)
    onward = chat.prompt + chat.tokens + filler(30, 2)
    going_on = engine.submit(onward, 60, recovery=len(onward) - 3)
    again = engine.submit(chat.prompt, 60, recovery=290)
    engine.turn(10)
    cancel(going_on)
    engine.run()
    again.check_output()
    assert again.start.cached_tokens == 290
    after = engine.ask(onward, 10, recovery=len(onward) - 3)
    after.check_output()
    assert after.start.cached_tokens >= 290


def test_cancelled_before_anything_ran_leaves_no_entry() -> None:
    """STATE-03"""
    engine = SimEngine()
    for seed in range(50):
        cancel(engine.submit(filler(1 + seed % 3, seed), 5))
    engine.run()
    assert engine.resources.facts() == SimEngine().resources.facts()
    for seed in range(20):
        engine.ask(filler(100, seed), 5).check_output()


def test_a_late_cancel_is_no_error() -> None:
    engine = SimEngine()
    caller = engine.ask(filler(50, 1), 5)
    cancel(caller)
    engine.turn(3)
    assert caller.finished.reason is FinishReason.LENGTH


def test_the_queue_has_an_end() -> None:
    engine = SimEngine(lanes=1, max_queue=2)
    callers = [engine.submit(filler(50, seed), 5) for seed in range(3)]
    with pytest.raises(Overloaded):
        engine.submit(filler(50, 9), 5)
    engine.run()
    for caller in callers:
        caller.check_output()
    engine.ask(filler(50, 9), 5).check_output()


def test_waiting_too_long_ends_with_a_queue_timeout() -> None:
    engine = SimEngine(lanes=1, queue_timeout_s=5)
    busy = engine.submit(filler(50, 1), 100)
    engine.turn(3)
    late = engine.submit(filler(50, 2), 5)
    engine.turn()
    engine.clock.advance(6)
    engine.run()
    assert isinstance(late.end, Failed)
    assert isinstance(late.end.error, QueueTimeout)
    busy.check_output()
    assert busy.finished.reason is FinishReason.LENGTH, "a request with a lane has no queue deadline [N2]"


def test_a_request_may_not_take_for_ever() -> None:
    engine = SimEngine(request_timeout_s=5)
    caller = engine.submit(filler(50, 1), 500)
    other = engine.submit(filler(50, 2), 5)
    engine.turn(20)
    engine.clock.advance(6)
    engine.run()
    other.check_output()
    assert isinstance(caller.end, Failed)
    assert isinstance(caller.end.error, RequestTimeout)
    caller.check_output()
    assert caller.tokens, "what was drawn before stays published"


def test_two_deadlines_may_fall_together() -> None:
    """[N2]: who never had a lane was in the queue too long, who had one took too long; the engine lives on."""
    engine = SimEngine(lanes=1, queue_timeout_s=5, request_timeout_s=5)
    busy, late = engine.submit(filler(50, 1), 500), engine.submit(filler(50, 2), 5)
    engine.turn(3)
    engine.clock.advance(6)
    engine.run()
    for caller, kind in ((busy, RequestTimeout), (late, QueueTimeout)):
        assert isinstance(caller.end, Failed)
        assert isinstance(caller.end.error, kind)
    engine.ask(filler(50, 3), 5).check_output()


def test_bad_requests_are_refused_before_they_cost_anything() -> None:
    """LIMIT-01"""
    engine = SimEngine(max_context=128)
    longest = engine.ask(filler(127, 1), 50)
    longest.check_output()
    assert longest.finished.usage.completion_tokens == 1
    assert longest.finished.reason is FinishReason.LENGTH
    with pytest.raises(BadInput, match="maximum context length is 128 tokens") as error:
        engine.submit(filler(128, 1), 1)
    assert error.value.code == "context_length_exceeded"
    for call in (
        lambda: engine.submit([], 1),
        lambda: engine.submit([1], 0),
        lambda: engine.submit([1], 1, stop=["a", ""]),
    ):
        with pytest.raises(BadInput):
            call()
    assert not engine.state.requests


def test_the_budget_is_cut_to_what_the_context_leaves() -> None:
    engine = SimEngine(max_context=128)
    events: list[object] = []
    engine.core.submit(make_plan(filler(100, 1)), SamplingParams(temperature=0.0), sink=events.append)
    engine.run()
    assert events[-1].usage.completion_tokens == 28  # type: ignore[attr-defined]


def test_draining_refuses_new_requests_and_finishes_the_old() -> None:
    engine = SimEngine()
    caller = engine.submit(filler(50, 1), 5)
    assert not engine.core.drain(0)
    with pytest.raises(Overloaded):
        engine.submit(filler(50, 2), 5)
    assert engine.core.health().condition is Condition.DRAINING
    engine.run()
    caller.check_output()
    assert engine.core.drain(0)


def test_health_counts_who_is_where() -> None:
    """OPS-01"""
    engine = SimEngine(lanes=2)
    for seed in range(5):
        engine.submit(filler(60, seed), 50)
    assert engine.core.health().waiting == 5
    engine.turn(4)
    facts = engine.core.health()
    assert (facts.residents, facts.waiting, facts.paused, facts.lanes) == (2, 3, 0, 2)
    engine.clock.advance(100)
    assert engine.core.health().idle_s >= 100, "busy without progress is visible"
    engine.run()
    assert engine.core.health().idle_s == 0


def test_phases_change_along_the_table_only() -> None:
    engine = SimEngine()
    engine.submit(filler(60, 1), 5)
    engine.turn()
    request = next(iter(engine.state.requests.values()))
    with pytest.raises(AssertionError):
        request.enter(Phase.QUEUED)
    reachable = {Phase.QUEUED}
    for _ in Phase:
        reachable |= {after for before in reachable for after in LEGAL[before]}
    assert reachable == set(Phase)
    assert not LEGAL[Phase.ENDED]
