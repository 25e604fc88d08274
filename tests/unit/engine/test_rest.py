"""The control thread at rest: it turns no cycles while nothing can change, and no call ever goes unheard (V-16)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sim_engine import GREEDY, SimEngine, filler, make_plan

from ninfer.base.clock import SystemClock
from ninfer.base.errors import NInferError
from ninfer.engine.core import DEVICE_WAIT_S, RequestHandle
from ninfer.ports.device import Completion
from ninfer.ports.output import Event, Failed, Finished

LIMIT_S = 20.0
"""What was not heard by then never will be: an engine at rest has nothing to wake it."""


class Ear:
    """A sink that can be waited on."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ended = threading.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Finished | Failed):
            self.ended.set()


@contextmanager
def running(**options: object) -> Iterator[SimEngine]:
    engine = SimEngine(audit=False, **options)  # type: ignore[arg-type]
    engine.state.clock = SystemClock()
    engine.core.start()
    yield engine
    engine.core.stop()


def submit(engine: SimEngine, seed: int, max_tokens: int = 2, prompt_tokens: int = 20) -> tuple[RequestHandle, Ear]:
    ear = Ear()
    handle = engine.core.submit(make_plan(filler(prompt_tokens, seed)), GREEDY, max_tokens=max_tokens, sink=ear)
    return handle, ear


def count_cycles(engine: SimEngine, seconds: float) -> tuple[int, float]:
    """Cycles of the control thread over a waiting period, and how long that really was."""
    before, start = engine.state.counters.cycles, time.monotonic()
    time.sleep(seconds)
    return engine.state.counters.cycles - before, time.monotonic() - start


def wait_until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < limit, "it never came to hold"
        time.sleep(0.005)


def test_an_engine_without_requests_turns_no_cycle() -> None:
    """[V-16], B8: before the first request and after the last one, restore points or not."""
    with running() as engine:
        wait_until(lambda: engine.state.counters.cycles > 0)
        assert count_cycles(engine, 0.3)[0] <= 1
        for seed in range(3):
            assert submit(engine, seed)[1].ended.wait(LIMIT_S)
        wait_until(lambda: not engine.state.requests)
        time.sleep(0.05)
        assert engine.resources.facts().points
        assert count_cycles(engine, 0.3)[0] <= 1


def test_a_cancelled_queue_leaves_nothing_to_wake_for() -> None:
    """[V-16]: deadlines of requests that are gone wake nobody."""
    with running(lanes=1, queue_timeout_s=0.2, request_timeout_s=0.25) as engine:
        for handle, ear in [submit(engine, seed, max_tokens=900) for seed in range(4)]:
            handle.cancel()
            assert ear.ended.wait(LIMIT_S)
        wait_until(lambda: not engine.state.requests)
        time.sleep(0.05)
        assert count_cycles(engine, 0.4)[0] <= 1


class StuckDevice:
    """From the moment that `begins` holds nothing lands, and waiting for it takes its time, as for a long unit."""

    def __init__(self, engine: SimEngine, begins: Callable[[], bool]) -> None:
        self._poll, self._begins, self._is_free = engine.device.poll, begins, False
        self.is_stuck = threading.Event()
        engine.device.poll = self.poll  # type: ignore[method-assign]
        engine.core._device_wait = self.wait

    def poll(self) -> list[Completion]:
        """Called on the control thread."""
        if not self._is_free and self._begins():
            self.is_stuck.set()
        return self._poll() if self._is_free or not self.is_stuck.is_set() else []

    def wait(self, timeout_s: float) -> None:
        """Nothing comes before the time is over."""
        if self.is_stuck.is_set() and not self._is_free:
            time.sleep(timeout_s)

    def free(self) -> None:
        """The long unit has landed."""
        self._is_free = True


@pytest.mark.parametrize("host_bytes", [0, 10_000_000])
def test_while_others_wait_for_a_long_unit_nobody_is_quoted_again(host_bytes: int) -> None:
    """[J2] [J9] [V-16]: a paused and a queued request cost nothing until something is released."""
    with running(lanes=3, pages=17, chunk=1024, host=host_bytes) as engine:
        queue, members = engine.state.queue, engine.state.members
        device = StuckDevice(engine, lambda: len(queue) > queue.fresh_count > 0 and len(members) == 1)
        for seed in (1, 2):
            submit(engine, seed, max_tokens=900, prompt_tokens=100)
        behind = [submit(engine, seed, max_tokens=3, prompt_tokens=1000) for seed in (3, 4)]
        assert device.is_stuck.wait(LIMIT_S), "lanes are free, and for nobody there is room"
        time.sleep(0.1)
        quotes: list[object] = []
        quote = engine.program.quote_source
        engine.program.quote_source = lambda *a, **k: quotes.append(a) or quote(*a, **k)  # type: ignore[method-assign, func-returns-value]
        cycles, seconds = count_cycles(engine, 0.5)
        assert cycles <= seconds / DEVICE_WAIT_S + 2, "it waits for the device, and for nothing less"
        assert quotes == []
        handle, ear = behind[-1]
        handle.cancel()
        assert ear.ended.wait(LIMIT_S), "a cancel is heard while the device is busy"
        device.free()


class Interrupted(threading.Event):
    """A wake-up signal in whose midst somebody calls, as the worst timing would have it."""

    def __init__(self, place: str, call: Callable[[], None]) -> None:
        super().__init__()
        self._place, self._call = place, call

    def wait(self, timeout: float | None = None) -> bool:
        self._call_at("before it sleeps")
        return super().wait(timeout)

    def clear(self) -> None:
        self._call_at("before it is taken back")
        super().clear()
        self._call_at("after it was taken back")

    def _call_at(self, place: str) -> None:
        if place == self._place:
            self._call()


@pytest.mark.parametrize("place", ["before it sleeps", "before it is taken back", "after it was taken back"])
def test_no_call_is_lost_however_it_falls(place: str) -> None:
    """B8, [V-16]: a thread that went to sleep over a call would sleep for good: nobody else calls here."""
    engine = SimEngine(audit=False)
    engine.state.clock = SystemClock()
    ears: list[Ear] = []

    def call() -> None:
        if len(ears) < 40:
            ears.append(submit(engine, len(ears))[1])

    engine.core._wake = Interrupted(place, call)
    engine.core.start()
    while len(ears) < 40:
        call()
        wait_until(lambda: all(ear.ended.is_set() for ear in list(ears)))
    engine.core.stop()


def test_threads_that_submit_cancel_and_ask_are_all_heard() -> None:
    """B8: from four threads at once, with pauses in which the engine falls asleep."""
    with running(lanes=2) as engine:
        unheard: list[str] = []

        def call(number: int) -> None:
            for turn in range(40):
                time.sleep((turn % 3) * 0.001)
                handle, ear = submit(engine, 100 * number + turn, max_tokens=(2, 900)[turn % 2])
                if turn % 2:
                    handle.cancel()
                if not ear.ended.wait(LIMIT_S):
                    unheard.append(f"{number}.{turn}")
                before = engine.state.counters.cycles
                if engine.core.report(LIMIT_S).counters["cycles"] < before:
                    unheard.append(f"report {number}.{turn}")

        threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(4 * LIMIT_S)
        assert unheard == []
        assert engine.core.drain(LIMIT_S)
        with pytest.raises(NInferError):
            submit(engine, 1)


@pytest.mark.parametrize("deadline", ["queue_timeout_s", "request_timeout_s"])
def test_a_deadline_is_kept_while_the_device_is_busy(deadline: str) -> None:
    """[N2]: nothing but the deadline itself moves the engine."""
    with running(lanes=1, **{deadline: 0.2}) as engine:
        device = StuckDevice(engine, lambda: True)
        submit(engine, 1, max_tokens=5)
        _, queued = submit(engine, 2, max_tokens=5)
        assert queued.ended.wait(LIMIT_S)
        assert isinstance(queued.events[-1], Failed)
        device.free()


def test_requests_that_nothing_will_ever_move_are_told_so() -> None:
    """[V-16]: an engine that forgot somebody fails and names them; it does not sleep over them until their deadline."""
    engine = SimEngine(audit=False)
    engine.state.clock = SystemClock()
    engine.core._cycle._admission.admit_fresh = lambda pace: False  # type: ignore[method-assign]
    engine.core.start()
    _, ear = submit(engine, 1)
    assert ear.ended.wait(LIMIT_S)
    assert isinstance(ear.events[-1], Failed)
    assert "V-16" in (engine.core.find_failure() or "")
    engine.core.stop()
