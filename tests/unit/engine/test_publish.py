"""What is published of a request, and the times in its last event (N1, N2, USE-04)."""

from __future__ import annotations

import math
from dataclasses import astuple

import pytest

from ninfer.base.clock import ManualClock
from ninfer.base.errors import RequestFailed
from ninfer.engine.publish import Publication
from ninfer.ports.output import Event, Failed, Finished, FinishReason, LossReport, RestorePath, TokenOut

LOSS = LossReport(0, 0, 0, "none")


def begin() -> tuple[ManualClock, list[Event], Publication]:
    clock, events = ManualClock(10.0), list[Event]()
    return clock, events, Publication(events.append, clock, 5)


def test_times_are_measured_from_the_events_themselves() -> None:
    clock, events, publication = begin()
    clock.advance(1)
    publication.start(2, RestorePath.END, LOSS)
    clock.advance(2)
    publication.draw(1)
    publication.delta("a", (TokenOut(1),))
    for gap in (0.5, 3.0, 0.25):
        clock.advance(gap)
        publication.delta("b", ())
    publication.finish(FinishReason.LENGTH)
    end = events[-1]
    assert isinstance(end, Finished)
    timings = end.timings
    assert (timings.queued_s, timings.prefill_s, timings.ttft_s) == (1, 2, 3)
    assert (timings.decode_s, timings.longest_gap_s) == (3.75, 3.0)


def test_a_pause_is_on_record_and_counts_as_a_gap() -> None:
    """[N2], SCHED-12"""
    clock, _, publication = begin()
    publication.start(0, RestorePath.ROOT, LOSS)
    publication.delta("a", ())
    publication.pause()
    clock.advance(4)
    assert publication.timings().paused_s == 4, "also while it lasts"
    publication.resume()
    clock.advance(1)
    publication.delta("b", ())
    timings = publication.timings()
    assert (timings.pauses, timings.paused_s, timings.longest_gap_s) == (1, 4, 5)


def test_a_request_that_never_started_has_finite_times() -> None:
    """USE-04"""
    clock, events, publication = begin()
    clock.advance(7)
    publication.finish(FinishReason.CANCELLED)
    end = events[-1]
    assert isinstance(end, Finished)
    assert all(math.isfinite(value) for value in astuple(end.timings))
    assert end.timings.queued_s == 7
    assert end.timings.ttft_s == 0


def test_a_lone_stop_token_has_a_time_too() -> None:
    clock, events, publication = begin()
    publication.start(0, RestorePath.ROOT, LOSS)
    clock.advance(3)
    publication.draw(1)
    publication.finish(FinishReason.STOP, stop_token=7)
    end = events[-1]
    assert isinstance(end, Finished)
    assert (end.timings.ttft_s, end.timings.decode_steps, end.usage.completion_tokens) == (3, 1, 1)


def test_start_and_end_come_once() -> None:
    """[N2], V-12"""
    _, events, publication = begin()
    publication.start(0, RestorePath.ROOT, LOSS)
    with pytest.raises(AssertionError):
        publication.start(0, RestorePath.ROOT, LOSS)
    publication.fail(RequestFailed("x"))
    assert isinstance(events[-1], Failed)
    with pytest.raises(AssertionError):
        publication.finish(FinishReason.STOP)
    with pytest.raises(AssertionError):
        publication.delta("late", ())


def test_progress_never_goes_back() -> None:
    _, events, publication = begin()
    publication.start(2, RestorePath.ROOT, LOSS)
    before = len(events)
    for covered in (2, 1, 4, 4, 5):
        publication.progress(covered)
    assert [event.covered_tokens for event in events[before:]] == [4, 5]  # type: ignore[union-attr]
