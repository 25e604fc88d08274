"""The control thread: it takes mail from all threads, drains, stops and reports (B8). How it rests: test_rest.py."""

from __future__ import annotations

import threading
import time

from sim_engine import GREEDY, SimEngine, filler, make_plan

from ninfer.base.clock import SystemClock
from ninfer.engine.core import Condition
from ninfer.ports.output import Event, Finished, FinishReason


class Waiter:
    """A sink that a test can wait on."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.threads: set[str] = set()
        self.done = threading.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self.threads.add(threading.current_thread().name)
        if isinstance(event, Finished):
            self.done.set()


def running(**options: object) -> SimEngine:
    engine = SimEngine(audit=False, **options)  # type: ignore[arg-type]
    engine.state.clock = SystemClock()
    engine.core.start()
    return engine


def test_many_threads_submit_and_all_are_served_by_one() -> None:
    engine = running(lanes=4)
    waiters = [Waiter() for _ in range(24)]

    def submit(number: int) -> None:
        engine.core.submit(make_plan(filler(50, number)), GREEDY, max_tokens=10, sink=waiters[number])

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for waiter in waiters:
        assert waiter.done.wait(20)
        assert waiter.threads == {"ninfer-engine"}
    for thread in threads:
        thread.join()
    engine.core.stop()
    assert engine.core.health().condition is Condition.STOPPED


def test_cancel_from_another_thread_ends_the_request() -> None:
    engine = running(max_context=4096, pages=256)
    waiter = Waiter()
    handle = engine.core.submit(make_plan(filler(20, 1)), GREEDY, max_tokens=4000, sink=waiter)
    while len(waiter.events) < 5:
        time.sleep(0.001)
    handle.cancel()
    assert waiter.done.wait(5)
    end = waiter.events[-1]
    assert isinstance(end, Finished)
    assert end.reason is FinishReason.CANCELLED
    engine.core.stop()


def test_stop_cancels_what_is_left_and_drain_waits_for_it() -> None:
    engine = running(max_context=4096, pages=256)
    short, long = Waiter(), Waiter()
    engine.core.submit(make_plan(filler(20, 1)), GREEDY, max_tokens=20, sink=short)
    assert engine.core.drain(10)
    assert short.done.is_set()
    engine.core.stop()

    engine = running(max_context=4096, pages=256)
    engine.core.submit(make_plan(filler(20, 1)), GREEDY, max_tokens=4000, sink=long)
    engine.core.stop()
    end = long.events[-1]
    assert isinstance(end, Finished)
    assert end.reason is FinishReason.CANCELLED


def test_a_report_is_made_on_the_control_thread_and_does_not_wait_for_a_stuck_one() -> None:
    """[N1], OPS-01: figures are asked for by mail; a thread that does not answer leaves the last ones."""
    engine = running()
    waiter = Waiter()
    engine.core.submit(make_plan(filler(20, 1)), GREEDY, max_tokens=3, sink=waiter)
    assert waiter.done.wait(10)
    assert engine.core.report().counters["output_tokens"] == 3
    stuck, entered = threading.Event(), threading.Event()

    def hold(_event: Event) -> None:
        entered.set()
        stuck.wait(10)

    engine.core.submit(make_plan(filler(20, 2)), GREEDY, max_tokens=3, sink=hold)
    assert entered.wait(10)
    assert engine.core.report(timeout_s=0.05).counters["output_tokens"] == 3
    stuck.set()
    engine.core.stop()
    last = engine.core.report().counters
    assert last["finished"] + last["cancelled"] == 2


def test_a_failed_engine_still_reports() -> None:
    engine = running()
    engine.core.report()
    engine.device.submit_unit = None  # type: ignore[method-assign, assignment]
    engine.state.program.audit = None  # type: ignore[method-assign, assignment]
    waiter = Waiter()
    engine.core.submit(make_plan(filler(20, 1)), GREEDY, max_tokens=3, sink=waiter)
    limit = time.monotonic() + 5
    while engine.core.health().condition is not Condition.FAILED and time.monotonic() < limit:
        time.sleep(0.01)
    assert engine.core.health().condition is Condition.FAILED
    assert engine.core.report(timeout_s=5).pools
    engine.core.stop()
