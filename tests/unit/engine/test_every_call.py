"""An error at any call that the engine makes: it costs the requests it was made for, and nothing else (SCHED-09).

A mixed load runs once to count the calls into Program and ResourceManager, then again and again, each time with one of
them broken: before it did anything, or after it did everything and its answer is lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from sim_engine import Caller, SimEngine, filler

from ninfer.base.errors import DeviceFailure, RequestFailed
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Pool
from ninfer.engine.request import Phase
from ninfer.ports.native import PrefillDone, Progress
from ninfer.ports.output import Failed, Finished, FinishReason
from ninfer.ports.sampling import SamplingParams
from ninfer.resource.admission import Claim, Right
from ninfer.resource.manager import CacheFacts

ENGINE_WIDE = frozenset({"poll", "count_leaving", "count_transfers", "collect_ends", "take_revoked", "audit"})
"""Calls that are made for nobody: what they break is the engine."""
SAMPLES = 240
HOST_BYTES = (0, 3 << 20, 64 << 20)
"""By seed: none, little, plenty."""


class Broken(Exception):
    """What no one expects."""


@dataclass
class Breaker:
    """Counts calls and breaks one of them."""

    due: int | None = None
    after: bool = False
    is_armed: bool = True
    calls: list[str] = field(default_factory=list)
    concerned: int = 1
    """Requests for which the broken call was made."""

    def run(self, name: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not self.is_armed or name in ENGINE_WIDE:
            return call(*args, **kwargs)
        number = len(self.calls)
        self.calls.append(name)
        if number != self.due:
            return call(*args, **kwargs)
        if name == "submit":
            draws, prefill = args
            self.concerned = len(draws) + (prefill is not None)
        self.is_armed = False
        if self.after:
            call(*args, **kwargs)
        raise Broken("SECRET-123")


class Watched:
    """Passes every call on through a breaker."""

    def __init__(self, inner: object, breaker: Breaker) -> None:
        self._inner = inner
        self._breaker = breaker

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value):
            return value
        return lambda *args, **kwargs: self._breaker.run(name, value, *args, **kwargs)


class World:
    """Chats with several turns, twins, one-shots and cancels on three lanes with too little room."""

    def __init__(self, seed: int, breaker: Breaker) -> None:
        self.random = random.Random(seed)
        self.engine = SimEngine(
            lanes=3,
            slots=8,
            pages=8,
            max_context=500,
            chunk=64,
            delay_polls=seed % 3,
            seed=seed,
            audit=False,
            host=HOST_BYTES[seed],
        )
        self.baseline = self.engine.program.occupancy()
        program = Watched(self.engine.program, breaker)
        self.engine.resources._program = program  # type: ignore[assignment]
        self.engine.state.program = program  # type: ignore[assignment]
        self.engine.state.resources = Watched(self.engine.resources, breaker)  # type: ignore[assignment]
        self.callers: list[tuple[Caller, int, int | None]] = []
        self.turns: dict[int, list[int]] = {}

    def start(
        self, prompt: list[int], most: int, *, recovery: int | None = None, cancel_after: int | None = None
    ) -> None:
        params = SamplingParams(temperature=self.random.choice((0.0, 1.0)), seed=len(self.callers))
        caller = self.engine.submit(prompt, most, recovery=recovery, params=params)
        self.callers.append((caller, most, cancel_after))

    def start_turn(self, chat: int) -> None:
        history = self.turns.setdefault(chat, filler(90 + 40 * chat, chat))
        history += filler(20, len(history))
        self.start(list(history), 6, recovery=len(history) - 3)
        history += self.callers[-1][0].expected(6) if chat % 2 else filler(8, chat)

    def run(self) -> None:
        """The load depends on nothing that a fault changes but who has ended."""
        for chat in range(2):
            self.start_turn(chat)
        waiting = [0, 1, 1, 2, 0, 2, 1]
        one_shots = 3
        cycles = 0
        while waiting or any(caller.end is None for caller, _, _ in self.callers):
            self.engine.turn()
            cycles += 1
            assert cycles < 5000
            for caller, _, cancel_after in self.callers:
                if cancel_after is not None and len(caller.tokens) >= cancel_after:
                    caller.handle.cancel()  # type: ignore[union-attr]
            if cycles % 25 == 0 and waiting:
                self.start_turn(waiting.pop(0))
                if len(waiting) == 4:
                    for seed in range(3):
                        self.start(filler(100 + 20 * seed, 10 + seed), 110, recovery=90)
            if cycles % 40 == 0 and one_shots:
                one_shots -= 1
                self.start(filler(50, 50 + one_shots), 30, cancel_after=5 if one_shots else 0)

    def check(self, concerned: int) -> None:
        """Who failed, what the others said, and that nothing is lost."""
        failed = [caller for caller, _, _ in self.callers if isinstance(caller.end, Failed)]
        assert len(failed) == concerned
        for caller in failed:
            assert isinstance(caller.end, Failed)
            assert isinstance(caller.end.error, RequestFailed)
            assert "SECRET" not in str(caller.end.error)
        for caller, most, cancel_after in self.callers:
            caller.check_output()
            if caller not in failed and cancel_after is None:
                assert caller.finished.reason is FinishReason.LENGTH
                assert len(caller.tokens) == most
        for number in range(10):
            caller = self.engine.ask(filler(60 + number, 300 + number), 4, recovery=50)
            caller.check_output()
            assert isinstance(caller.end, Finished)
        self.engine.state.audit()
        resources = self.engine.resources
        for pool in Pool:
            resources.reclaim(Shortfall(pool, 1 << 30, 0), Claim(Right.NECESSARY))
        assert self.engine.program.occupancy() == self.baseline
        assert resources.facts() == CacheFacts(0, 0, 0)
        self.engine.state.audit()


def count_calls(seed: int) -> list[str]:
    breaker = Breaker()
    world = World(seed, breaker)
    world.run()
    breaker.is_armed = False
    world.check(0)
    assert world.engine.state.counters.pauses > 0
    return breaker.calls


@pytest.mark.parametrize("seed", range(3))
def test_an_error_at_any_call_costs_only_whom_it_was_made_for(seed: int) -> None:
    """SCHED-09: exactly these fail, all are answered once, ten more succeed, and every pool is as it was."""
    calls = count_calls(seed)
    chance = random.Random(seed)
    places: dict[str, list[int]] = {}
    for number, name in enumerate(calls):
        places.setdefault(name, []).append(number)
    rare = [number for numbers in places.values() for number in chance.sample(numbers, min(2, len(numbers)))]
    rest = chance.sample(range(len(calls)), SAMPLES // 3 - len(rare))
    for index, due in enumerate(rare + rest):
        breaker = Breaker(due, after=bool(index % 2))
        world = World(seed, breaker)
        try:
            world.run()
            assert not breaker.is_armed
            world.check(breaker.concerned)
        except Exception as error:
            raise AssertionError(f"call {due} ({calls[due]}), {'after' if index % 2 else 'before'}") from error


def test_the_load_makes_every_kind_of_call() -> None:
    """The sample above can only find what the load does."""
    made = set(count_calls(0)) | set(count_calls(1)) | set(count_calls(2))
    program = {"quote_source", "bind", "reserve_prefill", "reserve_decode", "reserve_capture", "submit", "commit_run"}
    program |= {"freeze_end", "release", "point_frontier", "list_delete_actions", "delete", "occupancy"}
    program |= {"pause", "demote", "list_demote_actions"}
    resources = {"list_sources", "explain", "adopt", "note_prefill", "plan_capture", "note_retired", "publish_captured"}
    resources |= {"publish_end", "vacate", "close", "plan_room", "carry_out"}
    assert made >= program | resources, program | resources - made


@pytest.mark.parametrize("place", ["bind", "reserve_decode", "submit", "commit_run", "freeze_end"])
def test_a_device_error_in_the_middle_of_anything_is_heard_once(place: str) -> None:
    """SCHED-09, settled decision 12: also by the request that was just ending."""
    engine = SimEngine(lanes=2)
    callers = [engine.submit(filler(100, seed), 10) for seed in range(5)]
    engine.turn(5)

    def gone(*_: object, **__: object) -> None:
        raise DeviceFailure("gone")

    setattr(engine.program, place, gone)
    engine.core.start()
    assert engine.core.drain(30)
    failures = [caller.end for caller in callers if isinstance(caller.end, Failed)]
    assert all(isinstance(end.error, DeviceFailure) for end in failures)
    assert len(failures) == engine.state.counters.failed >= 3
    for caller in callers:
        caller.check_output()


def test_a_poll_that_breaks_is_the_end_of_the_engine() -> None:
    """SCHED-09: nobody knows what became of the work in flight; everybody hears it once, nobody is taken any more."""
    engine = SimEngine(lanes=2)
    callers = [engine.submit(filler(100, seed), 30) for seed in range(5)]
    engine.turn(5)

    def broken() -> None:
        raise Broken("SECRET-123")

    engine.program.poll = broken  # type: ignore[method-assign, assignment]
    engine.core.start()
    assert engine.core.drain(30)
    for caller in callers:
        caller.check_output()
        assert isinstance(caller.end, Failed)
        assert isinstance(caller.end.error, DeviceFailure)
    assert "SECRET" not in (engine.core.find_failure() or "")
    with pytest.raises(DeviceFailure):
        engine.submit(filler(10, 1), 1)


def test_what_a_failed_request_left_in_flight_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """[L3], [C10]: its pages come back when its unit lands; until then the next one waits, no contract is broken."""
    engine = SimEngine(lanes=1, slots=1, pages=4, max_context=256, chunk=256, delay_polls=6, seed=3)
    failed, waiting = engine.submit(filler(200, 1), 5), engine.submit(filler(200, 2), 5)
    submit = engine.program.submit

    def cut_short(*turns: Any, **more: Any) -> None:
        submit(*turns, **more)
        raise Broken

    with monkeypatch.context() as patch:
        patch.setattr(engine.program, "submit", cut_short)
        while failed.end is None:
            engine.turn()
    assert engine.program.count_leaving() == 1
    assert engine.state.has_work_in_flight
    engine.run()
    waiting.check_output()
    assert waiting.finished.reason is FinishReason.LENGTH


def test_an_error_costs_no_capture_that_landed_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """[E1], SCHED-09: a point that was reported and is not yet published belongs to somebody."""
    engine = SimEngine(lanes=2)
    failed = engine.submit(filler(40, 1), 50)
    while not failed.tokens:
        engine.turn()
    commit, poll = engine.program.commit_run, engine.program.poll
    held: list[Progress] = []

    def poll_later() -> list[Progress]:
        """The news of a cycle in one piece: a run and a capture that land between two polls."""
        held.extend(poll())
        turn_comes = any(request.phase is Phase.PREFILL for request in engine.state.residents())
        if engine.state.draws_in_flight and engine.state.prefill_in_flight is None and turn_comes:
            return []
        news, held[:] = list(held), []
        return news

    def broken(*given: Any) -> None:
        if any(isinstance(progress, PrefillDone) and progress.captured for progress in engine.state.reported):
            raise Broken
        commit(*given)

    monkeypatch.setattr(engine.program, "commit_run", broken)
    monkeypatch.setattr(engine.program, "poll", poll_later)
    other = engine.ask(filler(100, 2), 5, recovery=90)
    assert isinstance(failed.end, Failed)
    other.check_output()
    assert isinstance(other.end, Finished)
    again = engine.ask([*filler(90, 2), *filler(20, 3)], 5)
    again.check_output()
    assert again.start.cached_tokens == 90
