"""Requests that wait for a source: what they keep, whose work they wait for, and when they stop ([G5] to [G9])."""

from __future__ import annotations

import pytest
from sim_engine import Caller, SimEngine, filler, send

from ninfer.base.ids import Handle, Ticket
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Pool
from ninfer.engine.admission import Admission
from ninfer.engine.failure import Endings
from ninfer.engine.pause import pause
from ninfer.engine.request import Interrupt, Phase, Request
from ninfer.ports.native import HandOver
from ninfer.ports.output import Finished, FinishReason, RestorePath
from ninfer.resource.admission import Budget, Claim, Right


def ticket_of(caller: Caller) -> Ticket:
    assert caller.handle is not None
    return caller.handle.ticket


def request_of(engine: SimEngine, caller: Caller) -> Request:
    return engine.state.requests[ticket_of(caller)]


def kept_by(engine: SimEngine, caller: Caller) -> Handle | None:
    hold = engine.resources._keeping.book.waiters.find(ticket_of(caller))
    return None if hold is None else hold.point


def finish(engine: SimEngine, *callers: Caller) -> None:
    engine.run()
    for caller in callers:
        caller.check_output()
    assert engine.resources.list_waiting() == []


@pytest.mark.parametrize("delay_polls", [0, 3])
def test_a_twin_waits_for_the_first_and_computes_nothing_twice(delay_polls: int) -> None:
    """[G5]: a small first chunk from root is no reason to compute what another one is computing."""
    engine = SimEngine(lanes=2, chunk=64, delay_polls=delay_polls)
    first, second = send(engine, filler(600, 1)), send(engine, filler(600, 1))
    finish(engine, first, second)
    assert engine.state.counters.leads_followed == 1
    assert engine.state.counters.prefill_tokens == 600
    assert (second.start.cached_tokens, second.finished.timings.computed_prompt_tokens) == (600, 0)
    assert second.start.restore_path is not RestorePath.ROOT


def test_siblings_that_come_together_share_the_marked_prefix() -> None:
    """[G5], [D11]: one computes the prefix, the others start from its entry as soon as that stands."""
    engine = SimEngine(lanes=4, slots=12, chunk=64)
    prefix = filler(300, 1)
    siblings = [send(engine, prefix + filler(200, 10 + n), 4, recovery=490, markers=(300,)) for n in range(4)]
    finish(engine, *siblings)
    assert [caller.start.cached_tokens for caller in siblings] == [0, 300, 300, 300]
    assert engine.state.counters.prefill_tokens == 300 + 4 * 200
    assert engine.state.counters.leads_followed == 3


def test_a_wait_makes_no_heat_and_no_hit() -> None:
    """[G6]: keeping observes nothing; the adoption that ends the wait does."""
    engine = SimEngine(lanes=1, chunk=64)
    chat = send(engine, filler(200, 1), recovery=190)
    engine.run()
    busy = engine.submit(filler(50, 2), 60)
    engine.turn(4)
    order, hits = engine.resources.order, engine.state.counters.cached_tokens
    waits = send(engine, filler(200, 1) + chat.expected(4) + filler(20, 3))
    while kept_by(engine, waits) is None:
        engine.turn()
    engine.turn(5)
    assert busy.end is None
    assert (engine.resources.order, engine.state.counters.cached_tokens) == (order, hits)
    finish(engine, busy, waits)
    assert engine.state.counters.cached_tokens > hits


@pytest.mark.parametrize("how", ["cancelled", "paused"])
def test_a_follower_goes_on_by_itself_when_its_leader_leaves(how: str) -> None:
    """[G5], V-16: what it waited for will not come; the wake-up is not lost."""
    engine = SimEngine(lanes=2, pages=64, chunk=64)
    first, second = send(engine, filler(600, 1)), send(engine, filler(600, 1))
    engine.turn(4)
    engine.land()
    assert 0 < request_of(engine, first).frontier < 600
    assert request_of(engine, second).phase is Phase.QUEUED
    if how == "cancelled":
        assert first.handle is not None
        first.handle.cancel()
    else:
        pause(engine.state, request_of(engine, first))
    engine.turn(3)
    assert second.start.cached_tokens == 0, "it started at once"
    finish(engine, second)


def test_a_leader_that_cannot_save_is_waited_for_only_up_to_its_place() -> None:
    """[G5], [E3]: without a slot nothing is kept; the follower starts when the leader has passed the place."""
    engine = SimEngine(lanes=2, slots=2, chunk=64)
    blocker = engine.submit(filler(40, 9), 200)  # its slot and the leader's are all there are
    engine.turn(4)
    first = send(engine, filler(300, 1), 60)
    engine.turn()
    second = send(engine, filler(300, 1))
    finish(engine, blocker, first, second)
    assert second.finished.timings.computed_prompt_tokens + second.start.cached_tokens == 300


def test_a_follower_lets_pass_as_many_as_may_and_then_starts() -> None:
    """[G5], [J2], V-10: an optional wait does not hold up those behind it."""
    engine = SimEngine(lanes=4, pages=128, max_context=4096, chunk=64)
    first, second = send(engine, filler(3000, 1)), send(engine, filler(3000, 1))
    others = [send(engine, filler(20, 20 + n), 2) for n in range(8)]
    engine.turn(60)
    assert request_of(engine, first).phase is Phase.PREFILL
    assert second.start.cached_tokens < 3000
    assert all(caller.events for caller in others[:4])
    finish(engine, first, second, *others)


def test_patience_ends_long_before_the_queue_deadline() -> None:
    """[G5]: a wait that is a choice never ends in a timeout of the queue."""
    engine = SimEngine(lanes=2, pages=128, max_context=4096, chunk=64, queue_timeout_s=0.04)
    first, second = send(engine, filler(3000, 1)), send(engine, filler(3000, 1))
    finish(engine, first, second)
    assert isinstance(second.end, Finished)
    assert second.start.cached_tokens == 0


def test_a_different_prompt_follows_nobody() -> None:
    """[G5]: nothing in common that will be kept, nothing to wait for."""
    engine = SimEngine(lanes=2, chunk=64)
    first = send(engine, filler(600, 1), recovery=500)
    other = send(engine, filler(400, 1) + filler(200, 2), recovery=590)
    engine.turn(3)
    assert other.events, "the common part has no point that anybody wishes"
    finish(engine, first, other)
    assert engine.state.counters.leads_followed == 0


def queue_behind(engine: SimEngine, chats: int) -> tuple[Caller, list[Caller]]:
    """Chats that ended, one resident on the only lane, and the next turn of each chat in the queue."""
    said = [send(engine, filler(100, 10 + n), recovery=90) for n in range(chats)]
    engine.run()
    busy = engine.submit(filler(30, 1), 100)
    engine.turn(3)
    turns = [send(engine, c.prompt + c.expected(4) + filler(10, 50 + n)) for n, c in enumerate(said)]
    engine.turn(2)
    return busy, turns


def test_without_a_lane_a_request_keeps_its_source() -> None:
    """[J2], [G6]: no lane, no new state, no page; optional saves may not end it, whatever their right."""
    engine = SimEngine(lanes=1, slots=6, chunk=64)
    busy, (waits,) = queue_behind(engine, 1)
    free = engine.program.occupancy().free
    point = kept_by(engine, waits)
    assert point is not None
    assert request_of(engine, waits).phase is Phase.QUEUED
    gap = Shortfall(Pool.STATE, free.state + 3, free.state)
    for claim in (Claim(Right.CAPTURE, budget=Budget(10**6)), Claim(Right.DEMANDED_CAPTURE, demand_at=10**6)):
        engine.resources.reclaim(gap, claim)
        assert point in engine.program.list_points(), "G7: an optional write ended what a waiter keeps"
    finish(engine, busy, waits)
    assert waits.start.cached_tokens == 103


def test_necessary_work_revokes_the_youngest_first_and_it_chooses_again() -> None:
    """[G7], [J2], [J3]: as many as needed; the revoked request is scanned again and loses nothing but its point."""
    engine = SimEngine(lanes=1, slots=6, chunk=64)
    busy, (older, younger) = queue_behind(engine, 2)
    points = kept_by(engine, older), kept_by(engine, younger)
    assert None not in points
    engine.resources.reclaim(Shortfall(Pool.STATE, 2, 0), Claim(Right.NECESSARY))  # each keeps two states
    living = engine.program.list_points()
    assert (points[0] in living, points[1] in living) == (True, False)
    assert kept_by(engine, younger) is None
    engine.turn(2)
    assert engine.state.counters.keeps_revoked == 1
    finish(engine, busy, older, younger)
    assert older.start.cached_tokens == 103


def test_a_fresh_request_revokes_only_younger_ones() -> None:
    """[G7]"""
    engine = SimEngine(lanes=1, slots=6, chunk=64)
    busy, (older, younger) = queue_behind(engine, 2)
    points = kept_by(engine, older), kept_by(engine, younger)
    gap = Shortfall(Pool.STATE, engine.program.occupancy().capacity.state, 0)
    assert not engine.resources.reclaim(gap, Claim(Right.ENTRY, ticket=ticket_of(younger)))
    assert points[0] in engine.program.list_points()
    finish(engine, busy, older, younger)


def test_a_waiter_whose_record_moved_on_branches_and_carries_what_it_kept() -> None:
    """[G6], [G8]: another turn took the record over meanwhile; source, input point and anchor are still there."""
    engine = SimEngine(lanes=1, slots=10, chunk=64)
    chat = send(engine, filler(300, 1), recovery=290, anchors=(100,))
    engine.run()
    history = chat.prompt + chat.expected(4)
    busy = engine.submit(filler(30, 2), 40)
    engine.turn(3)
    first = send(engine, history + filler(200, 3), 30, recovery=450)
    second = send(engine, history + filler(20, 4), recovery=310)
    engine.turn(2)
    point = kept_by(engine, second)
    assert point is not None
    assert kept_by(engine, first) == point, "both keep one source"
    while first.end is None:
        engine.turn()
        assert point in engine.program.list_points()
    engine.turn(2)
    record = request_of(engine, second).record
    assert record is not None
    assert second.start.cached_tokens == 303
    assert record.anchors, "the anchor came along"
    finish(engine, busy, first, second)


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_a_hold_ends_with_its_wait(how: str) -> None:
    """[G9]: adoption, cancel and timeout let go; the point stays for its owner."""
    engine = SimEngine(lanes=1, slots=6, chunk=64, queue_timeout_s=0.05 if how == "timeout" else 600)
    busy, (waits,) = queue_behind(engine, 1)
    point = kept_by(engine, waits)
    assert waits.handle is not None
    if how == "cancel":
        waits.handle.cancel()
    while waits.end is None:
        engine.turn()
    assert engine.resources.list_waiting() == []
    assert point in engine.program.list_points()
    assert how == "timeout" or waits.finished.reason is FinishReason.CANCELLED
    finish(engine, busy)


def test_a_move_of_what_another_one_keeps_is_for_the_older_and_revokes_with_the_bind() -> None:
    """[G8]: without a slot for a Fork the older may move the endpoint that a younger waits for, not the reverse."""
    engine = SimEngine(lanes=1, slots=6, chunk=64)
    chat = send(engine, filler(100, 1), recovery=90)
    engine.run()
    history = chat.prompt + chat.expected(4)
    busy = engine.submit(filler(30, 2), 30)
    engine.turn(3)
    older, younger = (send(engine, history + filler(10, seed)) for seed in (3, 4))
    engine.turn(2)
    point = kept_by(engine, older)
    assert point is not None
    admission = Admission(engine.state, Endings(engine.state))
    moves = {}
    for caller in (older, younger):
        ask = admission._make_ask(request_of(engine, caller))
        source = engine.resources.list_sources(ask)[0]
        assert source.quote.checkpoint == point
        frugal = list(engine.resources.list_frugal(ask, source, Right.ENTRY))
        moves[ticket_of(caller)] = [one for one in frugal if one.quote.hand_over is HandOver.MOVE]
    assert not moves[ticket_of(younger)]
    assert moves[ticket_of(older)]
    assert all(move.revokes == {ticket_of(younger)} for move in moves[ticket_of(older)])
    assert kept_by(engine, younger) == point, "nothing is revoked before the bind"
    while busy.end is None:
        engine.turn()
    finish(engine, busy, older, younger)


def test_an_old_endpoint_that_only_its_waiter_wants_still_moves() -> None:
    """[G8]: its record was taken over by somebody who then left; where a slot for a Fork is missing it moves."""
    engine = SimEngine(lanes=1, slots=6, chunk=64)
    chat = send(engine, filler(300, 1), recovery=0)
    engine.run()
    history = chat.prompt + chat.expected(4)
    first = send(engine, history + filler(200, 3), recovery=0)
    second = send(engine, history + filler(20, 4))
    engine.turn(2)
    point = kept_by(engine, second)
    assert point is not None
    engine.land()
    engine.core._cycle.interrupt(ticket_of(first), Interrupt.CANCEL)
    admission, request = Admission(engine.state, Endings(engine.state)), request_of(engine, second)
    ask = admission._make_ask(request)
    source = engine.resources.list_sources(ask)[0]
    assert source.entry is not None, "its record has moved on"
    assert (source.quote.checkpoint, source.quote.hand_over) == (point, HandOver.FORK)
    (move,) = engine.resources.list_frugal(ask, source, Right.ENTRY)
    assert (move.quote.hand_over, move.quote.need.state) == (HandOver.MOVE, 0)
    assert admission._bind(request, move) is None
    assert point not in engine.program.list_points()
    engine.state.audit()
    finish(engine, second)
    assert second.start.cached_tokens == 303


def test_a_source_that_needs_more_than_there_is_is_not_waited_for() -> None:
    """[G5]: a shared entry and the active state need two slots, there is one a lane; root does."""
    engine = SimEngine(lanes=1, slots=1, chunk=64)
    request = send(engine, filler(200, 1), markers=(100,))
    finish(engine, request)
    again = send(engine, filler(100, 1) + filler(100, 2))
    finish(engine, again)


def test_an_error_while_choosing_ahead_costs_that_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """SCHED-09: also without a lane."""
    engine = SimEngine(lanes=1, slots=6, chunk=64, audit=False)
    busy = engine.submit(filler(30, 1), 100)
    engine.turn(3)
    monkeypatch.setattr(engine.resources, "keep_source", lambda *_: 1 / 0)
    waits = send(engine, filler(50, 2))
    engine.turn(2)
    assert waits.end is not None
    monkeypatch.undo()
    finish(engine, busy)
