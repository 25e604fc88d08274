"""One request's error ends that request only; a device error ends all, loudly (SCHED-09, settled decision 12)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sim_engine import GREEDY, Caller, Letters, SimEngine, filler, make_plan

from ninfer.base.errors import DeviceFailure, RequestFailed
from ninfer.engine import failure
from ninfer.ports.output import Event, Failed, Finished, GenerationStart, OutputDelta
from ninfer.sim.device import SimFaults


class Broken(Exception):
    """What no one expects."""


def once(target: object, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call of `target.name` raises; later ones work."""
    original = getattr(target, name)
    calls = [0]

    def raising(*args: object, **kwargs: object) -> object:
        calls[0] += 1
        if calls[0] == 1:
            raise Broken(name)
        return original(*args, **kwargs)

    monkeypatch.setattr(target, name, raising)


PLACES: list[Callable[[SimEngine], tuple[object, str]]] = [
    lambda engine: (engine.resources, "list_sources"),
    lambda engine: (engine.resources, "explain"),
    lambda engine: (engine.resources, "adopt"),
    lambda engine: (engine.resources, "publish_captured"),
    lambda engine: (engine.program, "quote_source"),
    lambda engine: (engine.program, "bind"),
    lambda engine: (engine.program, "reserve_prefill"),
    lambda engine: (engine.program, "reserve_capture"),
    lambda engine: (engine.program, "reserve_decode"),
    lambda engine: (engine.program, "commit_run"),
    lambda engine: (engine.program, "freeze_end"),
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place(SimEngine())[1])
def test_an_error_for_one_request_ends_only_that_request(
    place: Callable[[SimEngine], tuple[object, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = SimEngine(chunk=64)
    neighbour = engine.submit(filler(200, 7), 30, recovery=150)
    while len(neighbour.tokens) < 3:
        engine.turn()
    resident = dict(engine.state.requests)
    once(*place(engine), monkeypatch)
    victim = engine.submit(filler(200, 1), 30, recovery=150)
    engine.run()
    failed = [caller for caller in (victim, neighbour) if isinstance(caller.end, Failed)]
    assert len(failed) == 1, "exactly one request pays"
    assert isinstance(failed[0].end, Failed)
    assert isinstance(failed[0].end.error, RequestFailed) or place(engine)[1] == "freeze_end"
    other = neighbour if failed[0] is victim else victim
    assert isinstance(other.end, Finished)
    for caller in (neighbour, victim):
        caller.check_output()
    assert resident
    for seed in range(10):
        engine.ask(filler(100, 20 + seed), 5).check_output()
    assert not engine.state.requests
    engine.state.audit()


def test_an_error_while_pausing_ends_the_paused_one(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = SimEngine(lanes=2, pages=16, max_context=1024)
    older = engine.submit(filler(400, 1), 400)
    younger = engine.submit(filler(400, 2), 400)
    once(failure, "pause", monkeypatch)
    engine.run()
    older.check_output()
    assert isinstance(older.end, Finished)
    assert isinstance(younger.end, Failed)
    younger.check_output()
    engine.ask(filler(500, 3), 20).check_output()


def test_an_error_in_a_decoder_or_sink_ends_its_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bad(Letters):
        def push(self, token_id: int) -> str:
            raise Broken

    engine = SimEngine()
    good = engine.submit(filler(60, 1), 10)
    monkeypatch.setattr(engine.core, "_decoder", Bad)
    bad = engine.submit(filler(60, 2), 10)
    monkeypatch.setattr(engine.core, "_decoder", Letters)

    deaf = Caller(filler(60, 3), good.params)

    def sink(event: Event) -> None:
        if isinstance(event, OutputDelta):
            raise Broken
        deaf.events.append(event)

    engine.submit_to(deaf, 10, sink)
    engine.run()
    good.check_output()
    assert isinstance(good.end, Finished)
    assert isinstance(bad.end, Failed)
    assert [type(event) for event in deaf.events if not hasattr(event, "covered_tokens")] == [GenerationStart, Failed]
    engine.state.audit()


def test_a_sink_that_raises_at_the_end_harms_nobody() -> None:
    engine = SimEngine()
    deaf = Caller(filler(60, 3), GREEDY)

    def sink(event: Event) -> None:
        if isinstance(event, Finished):
            raise Broken

    engine.submit_to(deaf, 10, sink)
    good = engine.ask(filler(60, 1), 10)
    good.check_output()
    assert not engine.state.requests


@pytest.mark.parametrize("number", [0, 3, 10, 40])
def test_a_device_error_reaches_every_waiter_once(number: int) -> None:
    engine = SimEngine(lanes=2, faults=SimFaults(fail_submission=number))
    callers = [engine.submit(filler(100, seed), 30) for seed in range(5)]
    engine.core.start()
    assert engine.core.drain(30)
    for caller in callers:
        assert isinstance(caller.events[-1], Failed)
        assert isinstance(caller.events[-1].error, DeviceFailure)
        caller.check_output()
    assert engine.core.find_failure() is not None
    with pytest.raises(DeviceFailure):
        engine.submit(filler(10, 1), 1)
    engine.core.stop()
    assert engine.core.find_failure() is not None


def test_mail_that_was_not_read_yet_is_answered_too() -> None:
    engine = SimEngine()
    callers = [engine.submit(filler(50, 1), 5)]

    def fail() -> bool:
        callers.append(engine.submit(filler(50, 2), 5))
        raise DeviceFailure("gone")

    engine.core._cycle.run = fail  # type: ignore[method-assign]
    engine.core.start()
    assert engine.core.drain(30)
    assert len(callers) == 2
    for caller in callers:
        assert [type(event) for event in caller.events] == [Failed]


def test_the_log_names_type_and_place_but_never_quotes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """OPS-06: the text of an exception may hold a prompt; so may that of its cause, and of a fatal error."""
    secret = "-".join(("SECRET", "123"))

    def leak(*_: object, **__: object) -> None:
        try:
            raise KeyError(secret)
        except KeyError as error:
            raise Broken(secret) from error

    engine = SimEngine()
    with monkeypatch.context() as patch:
        patch.setattr(engine.resources, "adopt", leak)
        engine.ask(filler(60, 1), 5)

    def sink(event: Event) -> None:
        if isinstance(event, Finished):
            leak()

    engine.submit_to(Caller(filler(60, 3), GREEDY), 5, sink)
    engine.run()
    monkeypatch.setattr(engine.program, "poll", leak)
    engine.submit(filler(60, 2), 5)
    engine.core.start()
    assert engine.core.drain(30)
    assert secret not in caplog.text
    assert secret not in (engine.core.find_failure() or "")
    assert caplog.text.count("Broken") >= 3
    assert "KeyError" in caplog.text
    assert "in adopt" in caplog.text or "admission.py" in caplog.text


def test_damage_that_a_recount_finds_ends_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """SCHED-09: going on with wrong books would be worse than stopping."""
    engine = SimEngine(audit=False)
    good = engine.submit(filler(60, 1), 50)
    engine.turn(5)
    once(engine.program, "quote_source", monkeypatch)
    engine.submit(filler(60, 2), 5)

    def broken() -> None:
        raise AssertionError("owners differ (V-02)")

    monkeypatch.setattr(engine.resources, "audit", broken)
    engine.core.start()
    assert engine.core.drain(30)
    assert isinstance(good.end, Failed)
    assert isinstance(good.end.error, DeviceFailure)
    assert "V-02" in (engine.core.find_failure() or "")

    lost = SimEngine(audit=False)
    chat = lost.ask(filler(100, 1), 5, recovery=90)
    (point, *_) = lost.program.list_points()
    lost.program.discard_point(point)
    once(lost.program, "reserve_prefill", monkeypatch)
    monkeypatch.setattr(lost.resources, "reconcile", lambda *_: None)
    with pytest.raises(AssertionError, match=r"V-02|V-13"):
        lost.ask(filler(100, 2), 5)
    assert isinstance(chat.end, Finished)


def test_who_hears_of_a_device_failure_finds_the_engine_failed() -> None:
    """A client that was told may ask /health at once; it must not hear `ok` (OPS-01)."""
    engine = SimEngine(faults=SimFaults(fail_submission=3))
    seen: list[str | None] = []

    def sink(event: Event) -> None:
        if isinstance(event, Failed):
            seen.append(engine.core.find_failure())

    engine.core.submit(make_plan(filler(200, 1)), GREEDY, max_tokens=20, sink=sink)
    engine.core.start()
    assert engine.core.drain(30)
    assert seen and None not in seen
