"""What a history keeps and what a request may start from: endpoint, input point, anchors, markers ([D1] [D6] [E1])."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sim_engine import IDENTITY, Caller, SimEngine, filler, send

from ninfer.base.buffers import IntBuffer
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Pool
from ninfer.engine.admission import Admission
from ninfer.engine.failure import Endings
from ninfer.engine.pause import pause
from ninfer.engine.request import Request
from ninfer.ports.native import Prompt
from ninfer.resource.continuation import MOST_ANCHORS, Continuation
from ninfer.resource.sources import CostModel, Source


def the_record(engine: SimEngine) -> Continuation:
    (record,) = engine.resources._keeping.records.values()
    return record


def places(engine: SimEngine, points: tuple[object, ...] | list[object]) -> list[int]:
    return sorted(engine.program.point_frontier(point) for point in points)  # type: ignore[arg-type]


def request_of(engine: SimEngine, caller: Caller) -> Request:
    assert caller.handle is not None
    return engine.state.requests[caller.handle.ticket]


def sources_of(engine: SimEngine, request: Request) -> list[Source]:
    return Admission(engine.state, Endings(engine.state))._list_sources(request)


@pytest.mark.parametrize("chunk", [64, 128, 1024])
def test_saves_come_from_meaning_and_from_nothing_else(chunk: int) -> None:
    """[E1]: input point, anchors, markers and the end, wherever chunks end; each place once."""
    engine = SimEngine(lanes=1, slots=12, chunk=chunk)
    send(engine, filler(500, 1), recovery=490, markers=(200, 490), anchors=(100, 300), runs=True)
    assert places(engine, engine.program.list_points()) == [100, 200, 300, 490, 503]


def test_a_record_keeps_one_endpoint_one_input_point_and_four_anchors() -> None:
    """[D1], [D6]: at one place an anchor is updated, a fifth replaces the oldest published, a newer point the older."""
    engine = SimEngine(lanes=1, slots=24, pages=64, chunk=64)
    history = filler(300, 1)
    asked = ((50, 100, 150), (150, 320), (350, 360), (400,))
    kept: list[int] = []
    for number, anchors in enumerate(asked):
        caller = send(engine, history, recovery=len(history) - 3, anchors=anchors, runs=True)
        record = the_record(engine)
        kept = [at for at in kept if at not in anchors] + list(anchors)
        kept = kept[-MOST_ANCHORS:]
        assert [record.frontiers[point] for point in record.anchors] == kept
        assert len(record.anchors) <= MOST_ANCHORS
        assert record.end is not None and record.input_point is not None
        assert record.frontiers[record.end] == len(history) + 3
        assert record.frontiers[record.input_point] == len(history) - 3
        history = history + caller.expected(4) + filler(40, 10 + number)


def test_a_generation_has_no_image_of_its_prompts_end() -> None:
    """[D6]: no fixed P beside the input point: one state before the answer, one behind it."""
    engine = SimEngine(lanes=1, slots=12, chunk=64)
    send(engine, filler(300, 1), recovery=290, runs=True)
    assert places(engine, engine.program.list_points()) == [290, 303]


def test_a_deeper_endpoint_carries_the_input_point_and_nothing_earlier_is_made_of_it() -> None:
    """[D6], [E4]: what fits is carried as it is; a prompt that leaves before every point computes from nothing."""
    engine = SimEngine(lanes=1, slots=12, chunk=64)
    first = send(engine, filler(300, 1), recovery=290, runs=True)
    point = the_record(engine).input_point
    history = filler(300, 1) + first.expected(4)
    again = send(engine, history + filler(10, 2), recovery=290, runs=True)
    assert again.start.cached_tokens == 303
    assert the_record(engine).input_point == point, "the same point, not another one at its place"
    early = send(engine, filler(200, 1) + filler(60, 3), runs=True)
    assert early.start.cached_tokens == 0


def test_a_failed_save_does_not_bring_the_old_point_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """[D6], [E3]: nothing waits for a save; the cuts stay."""
    engine = SimEngine(lanes=1, slots=12, chunk=64)
    first = send(engine, filler(300, 1), recovery=290, runs=True)
    old = the_record(engine).input_point
    history = filler(300, 1) + first.expected(4) + filler(100, 2)
    monkeypatch.setattr(engine.program, "reserve_capture", lambda *_: Shortfall(Pool.STATE, 1, 0))
    later = send(engine, history, recovery=400, runs=True)
    assert later.start.cached_tokens == 303
    record = the_record(engine)
    assert record.input_point in (None, old)
    assert record.end is not None


def test_every_complete_point_on_the_path_is_asked_and_root() -> None:
    """[G1]: endpoint, input point, anchors and shared entries of whoever, each verified; what differs is none."""
    engine = SimEngine(lanes=2, slots=24, pages=64, chunk=64)
    first = send(engine, filler(400, 1), recovery=390, markers=(200,), anchors=(100, 300), runs=True)
    send(engine, filler(200, 1) + filler(150, 2), recovery=340, runs=True)
    busy = send(engine, filler(20, 7), 300)
    other = send(engine, filler(20, 8), 300)
    engine.turn(5)
    caller = send(engine, filler(400, 1) + first.expected(4) + filler(10, 3))
    engine.turn(2)
    sources = sources_of(engine, request_of(engine, caller))
    found = {source.quote.frontier for source in sources}
    best = sources[0]
    assert best.quote.frontier == 403
    assert (best.takes_record, best.quote.takes_over) == (True, True)
    assert sorted(best.record.frontiers[point] for point in best.carried) == [100, 300, 390]  # type: ignore[union-attr]
    assert {403, 0} <= found <= {403, 390, 300, 200, 100, 0}, "nothing of the other history behind their common part"
    assert sources[-1].quote.checkpoint is None
    for one in (busy, other):
        assert one.handle is not None
        one.handle.cancel()
    engine.run()


def test_a_resume_asks_for_all_points_too_and_for_its_whole_permit() -> None:
    """[G1], [G4], [C9]: from at most where it was paused, with room for the rebuild and one new unit."""
    engine = SimEngine(lanes=2, slots=12, pages=64, chunk=64)
    older = engine.submit(filler(30, 9), 300)
    caller = send(engine, filler(400, 1), recovery=200)
    engine.turn()
    while request_of(engine, caller).frontier < 300:
        engine.turn()
    engine.land()
    request = request_of(engine, caller)
    pause(engine.state, request)
    best = sources_of(engine, request)[0]
    assert best.quote.frontier == 200
    assert best.quote.frontier + best.quote.first_unit_tokens >= request.replay_until
    before = engine.program.list_points(), engine.program.occupancy()
    sources_of(engine, request)
    assert (engine.program.list_points(), engine.program.occupancy()) == before, "G4: assessment is read-only"
    engine.run()
    caller.check_output()
    older.check_output()


def test_an_own_snapshot_is_honoured_first_and_alone() -> None:
    """[G5], [K1]: it is not dropped for a cheaper source."""
    engine = SimEngine(lanes=2, slots=12, pages=64, chunk=64, host=64 << 20)
    engine.submit(filler(30, 9), 300)
    caller = send(engine, filler(400, 1), 40)
    while len(caller.tokens) < 10:
        engine.turn()
    engine.land()
    request = request_of(engine, caller)
    pause(engine.state, request)
    assert request.snapshot is not None
    (only,) = sources_of(engine, request)
    assert only.quote.checkpoint == request.snapshot
    engine.run()
    caller.check_output()


def test_a_path_that_needs_more_than_the_pool_has_is_told() -> None:
    """[G5]: a source and the copy of its tail beside it need a page more than eight; of sixteen they may have it."""
    for pages, exceeds in ((8, True), (16, False)):
        engine = SimEngine(lanes=1, slots=8, pages=pages, max_context=512, chunk=64)
        send(engine, filler(490, 1), 2, recovery=489, markers=(460,), runs=True)
        prompt = Prompt(IntBuffer(filler(460, 1) + filler(40, 2)), 500, IDENTITY)
        (point,) = (entry.point for entry in engine.resources._keeping.entries.values() if entry.frontier == 460)
        quote = engine.program.quote_source(prompt, point, takes_over=False, first_unit_tokens=40, may_end=frozenset())
        assert quote is not None
        admission = Admission(engine.state, Endings(engine.state))
        assert admission._exceeds(Source(quote, None, 0.0)) is exceeds


def test_costs_order_and_decide_nothing_else() -> None:
    """[G3]: what is dear is asked last and is a source all the same; what a deletion loses is in tokens."""
    found: list[list[int]] = []
    losses: list[int] = []
    for costs in (CostModel(1.0, 1e-12), CostModel(1e-12, 1.0)):
        engine = SimEngine(lanes=1, slots=12, chunk=64)
        first = send(engine, filler(300, 1), recovery=290, runs=True)
        engine.resources._costs = costs
        prompt = filler(300, 1) + first.expected(4) + filler(50, 2)
        caller = send(engine, prompt)
        engine.turn()
        request = request_of(engine, caller)
        ask = replace(Admission(engine.state, Endings(engine.state))._make_ask(request), limit=len(prompt), ticket=None)
        found.append([source.quote.frontier for source in engine.resources.list_sources(ask)])
        point = next(one for one in engine.program.list_points() if engine.program.point_frontier(one) == 290)
        losses.append(engine.resources._keeping.book.paths.loss_of([point]))
        engine.run()
        caller.check_output()
    cheap_copies, dear_copies = found
    assert (cheap_copies[0], dear_copies[0]) == (303, 0)
    assert set(cheap_copies) <= set(dear_copies)
    assert losses[0] == losses[1]


def test_private_and_shared_use_of_one_place_take_one_state() -> None:
    """[E3], [D11]: the shared use needs no room of its own, so that none can be short of it: with one slot both are."""
    engine = SimEngine(lanes=1, slots=2, chunk=64)
    caller = send(engine, filler(300, 1), 40, recovery=290, markers=(290,))
    while not caller.tokens:
        engine.turn()
    (point,) = engine.program.list_points()
    owners = engine.resources._keeping.book.owners_of(point)
    assert [owner.points() for owner in owners] == [(point,), (point,)], "a record and an entry"
    engine.run()
    caller.check_output()
