"""What is published of a request, and the times in its last event (N1, N2, USE-04)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, replace

import pytest

from ninfer.base.clock import ManualClock
from ninfer.base.errors import RequestFailed
from ninfer.base.ids import PageId, SlotId, TransferId
from ninfer.base.pools import Pool
from ninfer.engine.metering import MeteredHost, TransferTotals
from ninfer.engine.publish import Publication
from ninfer.ports.device import DeviceFacts, HostCopy, PageFromHost, PageToHost, StateFromHost, StateToHost
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
    publication.pause(by_snapshot=False)
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
    assert all(math.isfinite(value) for value in astuple(replace(end.timings, gap_counts=0)))  # type: ignore[arg-type]
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


def test_gaps_are_counted_by_class_and_a_failure_tells_what_it_cost() -> None:
    """[N1]: a request that failed counts what ran."""
    clock, events, publication = begin()
    publication.start(2, RestorePath.END, LOSS)
    publication.computed_tokens, publication.restored_bytes = 3, 4096
    publication.draw(1)
    publication.delta("a", ())
    for gap in (0.001, 0.004, 0.006, 40.0):
        clock.advance(gap)
        publication.delta("b", ())
    publication.fail(RequestFailed("x"))
    end = events[-1]
    assert isinstance(end, Failed)
    assert (end.usage.cached_tokens, end.usage.completion_tokens) == (2, 1)
    assert (end.timings.computed_prompt_tokens, end.timings.restored_bytes) == (3, 4096)
    assert sum(end.timings.gap_counts) == 4
    assert (end.timings.gap_counts[0], end.timings.gap_counts[1], end.timings.gap_counts[-1]) == (2, 1, 1)


def test_what_goes_to_and_from_the_host_is_counted_by_block() -> None:
    """[N1]: physical transfers, each way."""

    class Host:
        host_bytes = 1 << 20

        def submit_host_copy(self, copies: Sequence[HostCopy]) -> TransferId:
            return TransferId(len(copies))

    facts = DeviceFacts(10, 4, {Pool.MAIN_KV: 4}, {Pool.MAIN_KV: 100}, 7)
    host = MeteredHost(Host(), facts)
    page, slot = PageId(1), SlotId(1)
    assert host.submit_host_copy([PageToHost(Pool.MAIN_KV, page, 0, 3), StateToHost(slot, 0)]) == 2
    host.submit_host_copy([PageFromHost(Pool.MAIN_KV, 0, page, 64), StateFromHost(0, slot), StateFromHost(0, slot)])
    assert host.totals == TransferTotals(transfers=2, to_host_bytes=107, from_host_bytes=114)
