"""Program on a late SimDevice: random binds, chunks, captures, draws, pauses, ends and deletions.

Every token equals the closed form of its request alone (V-15), points are exactly those of a naive list of histories,
and the full recount holds after every step (V-01, V-02). The device compares every page and state it reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from machine_profile import machine_settings

from ninfer.base.buffers import IntBuffer
from ninfer.base.ids import Handle, LaneId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Pool
from ninfer.ports.native import (
    BindDone,
    Bound,
    CaptureRequest,
    DrawTurn,
    HandOver,
    PointKind,
    PrefillDone,
    PrefillTurn,
    Prompt,
    RunDone,
)
from ninfer.program.program import Program
from ninfer.sim.chain import expected_tokens
from ninfer.sim.device import SimDevice, SimFaults
from ninfer.sim.driver import GREEDY

LANES = 3
VOCAB = 50


@dataclass(eq=False)
class History:
    """A naive history: which points stand where, and whether somebody writes it."""

    points: dict[Handle, tuple[int, PointKind]] = field(default_factory=dict)
    is_written: bool = False


@dataclass(eq=False)
class Request:
    sequence: Handle
    history: History
    prompt: Prompt
    frontier: int
    replay_until: int = 0
    is_ready: bool = False
    run: tuple[int, ...] | None = None

    @property
    def prompt_left(self) -> int:
        return self.prompt.prompt_tokens - self.frontier


class ProgramMachine(RuleBasedStateMachine):
    @initialize(slots=st.integers(2, 7), pages=st.integers(6, 24), late=st.integers(0, 3), seed=st.integers(0, 99))
    def begin(self, slots: int, pages: int, late: int, seed: int) -> None:
        self.device = SimDevice(
            slots=slots,
            pages={Pool.MAIN_KV: pages, Pool.MTP_KV: pages},
            vocab_tokens=VOCAB,
            faults=SimFaults(seed, late),
            check_every=3,
        )
        self.program = Program(self.device)
        self.requests: dict[LaneId, Request] = {}
        self.histories: list[History] = []
        self.paused: list[tuple[Prompt, int]] = []
        self.ledgers: dict[Handle, list[int]] = {}
        self.gone: set[Handle] = set()

    # --- the naive side -------------------------------------------------------------------------------------------

    def points(self) -> list[tuple[Handle, History]]:
        return sorted(((p, h) for h in self.histories for p in h.points), key=lambda pair: pair[0])

    def forget(self, point: Handle) -> None:
        for history in self.histories:
            history.points.pop(point, None)
        self.ledgers.pop(point)
        self.gone.add(point)

    def add_point(self, request: Request, point: Handle, frontier: int, kind: PointKind) -> None:
        request.history.points[point] = (frontier, kind)
        self.ledgers[point] = list(request.prompt.tokens)[:frontier]
        assert point not in self.gone

    def free_lane(self) -> LaneId | None:
        return next((LaneId(lane) for lane in range(LANES) if lane not in self.requests), None)

    def seat(self, bound: Bound, history: History, prompt: Prompt, lane: LaneId, replay_until: int = 0) -> None:
        history.is_written = True
        if history not in self.histories:
            self.histories.append(history)
        self.requests[lane] = Request(bound.sequence, history, prompt, bound.frontier, replay_until)

    def unseat(self, lane: LaneId) -> Request:
        request = self.requests.pop(lane)
        request.history.is_written = False
        return request

    def bind(self, prompt: Prompt, point: Handle | None, data: st.DataObject, replay_until: int = 0) -> None:
        """Quote, compare the quote with the naive history, bind; a shortfall changes nothing (V-04, G4)."""
        lane = self.free_lane()
        assert lane is not None
        takes_over = data.draw(st.booleans(), "takes over")
        quote = self.program.quote_source(
            prompt,
            point,
            takes_over=takes_over,
            first_unit_tokens=data.draw(st.integers(1, 200), "first unit"),
            gives_up_point=data.draw(st.booleans(), "gives up"),
        )
        if quote is None:
            assert point is not None
            assert prompt.tokens.view(0, len(prompt.tokens)).tolist()[: len(self.ledgers[point])] != self.ledgers[point]
            return
        history = History()
        if point is not None:
            source = next(h for p, h in self.points() if p == point)
            assert quote.takes_over == (takes_over and not source.is_written)
            if quote.takes_over:
                history = source
                at, kind = source.points[point]
                ends = {p for p, (f, k) in source.points.items() if f > at or k is PointKind.END}
                if quote.hand_over is HandOver.MOVE:
                    ends.discard(point)
                assert set(quote.retires) == ends
                assert set(quote.carried) == set(source.points) - ends - (
                    {point} if quote.hand_over is HandOver.MOVE else set()
                )
                assert quote.hand_over is not HandOver.FORK or kind is PointKind.INPUT_POINT or point in ends
        before = self.program.occupancy()
        bound = self.program.bind(quote, prompt, lane)
        if isinstance(bound, Shortfall):
            assert bound.gap > 0
            assert self.program.occupancy() == before
            return
        for ended in bound.consumed:
            self.forget(ended)
        self.seat(bound, history, prompt, lane, replay_until)

    # --- rules ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.free_lane() is not None)
    @rule(data=st.data(), length=st.integers(1, 220), salt=st.integers(0, 3))
    def bind_root(self, data: st.DataObject, length: int, salt: int) -> None:
        tokens = [(salt * 7 + i * i) % VOCAB for i in range(length)]
        self.bind(self.make_prompt(tokens, 0, data), None, data)

    @precondition(lambda self: self.free_lane() is not None and self.points())
    @rule(data=st.data(), more=st.integers(0, 130), spoil=st.integers(0, 9))
    def bind_point(self, data: st.DataObject, more: int, spoil: int) -> None:
        point, _ = data.draw(st.sampled_from(self.points()), "point")
        tokens = list(self.ledgers[point])
        at = len(tokens)
        if spoil == 0:
            tokens[-1] = (tokens[-1] + 1) % VOCAB
        tokens += [(more + 3 * i) % VOCAB for i in range(more)]
        self.bind(self.make_prompt(tokens, at, data), point, data)

    def make_prompt(self, tokens: list[int], above: int, data: st.DataObject) -> Prompt:
        inside = range(above + 1, len(tokens))
        frontiers = data.draw(st.lists(st.sampled_from(inside), max_size=2, unique=True), "frontiers") if inside else []
        return Prompt(IntBuffer(tokens), len(tokens), b"sim", tuple(sorted(frontiers)))

    @rule(data=st.data())
    def run(self, data: st.DataObject) -> None:
        """One cycle's work: draws of some lanes and a chunk of another."""
        ready = {lane: r for lane, r in self.requests.items() if r.is_ready}
        draws = []
        for lane, request in ready.items():
            if request.prompt_left <= 0 and data.draw(st.integers(0, 4), f"draw {lane}"):
                pending = len(request.prompt.tokens) > request.frontier
                if pending and self.program.reserve_decode(request.sequence) is not None:
                    continue
                draws.append((request, DrawTurn(request.sequence, pending, GREEDY, 0.0)))
        chunks = [(lane, r) for lane, r in ready.items() if r.prompt_left > 0]
        prefill = self.make_chunk(*data.draw(st.sampled_from(chunks)), data) if chunks else None
        if draws or prefill:
            self.program.submit([turn for _, turn in draws], prefill)
        for request, turn in draws:
            request.is_ready = False
            request.frontier = len(request.prompt.tokens) if turn.decode else request.frontier
        if prefill is not None:
            next(r for r in self.requests.values() if r.sequence == prefill.sequence).is_ready = False

    def make_chunk(self, lane: LaneId, request: Request, data: st.DataObject) -> PrefillTurn | None:
        """At most to the end of the replay, with a capture now and then where a frontier is crossed."""
        replay = request.frontier < request.replay_until
        left = request.replay_until - request.frontier if replay else request.prompt_left
        tokens = data.draw(st.integers(1, left), "chunk")
        if self.program.reserve_prefill(request.sequence, tokens) is not None:
            return None
        stop = request.frontier + tokens
        crossed = [
            f
            for f in (*request.prompt.execution_frontiers, request.prompt.prompt_tokens)
            if request.frontier < f <= stop and not replay
        ]
        capture = None
        if crossed and data.draw(st.booleans(), "capture"):
            capture = CaptureRequest(data.draw(st.sampled_from(crossed)), PointKind.INPUT_POINT)
            old = [p for p, (_, kind) in request.history.points.items() if kind is PointKind.INPUT_POINT]
            if self.program.reserve_capture(request.sequence, capture, old[0] if old else None) is not None:
                capture = None
            elif old:
                self.forget(old[0])
        return PrefillTurn(request.sequence, tokens, capture, replay)

    @rule(data=st.data())
    def poll(self, data: st.DataObject) -> None:
        for event in self.program.poll():
            request = next(r for r in self.requests.values() if r.sequence == event.sequence)
            request.is_ready = True
            match event:
                case BindDone():
                    pass
                case PrefillDone(_, frontier, captured):
                    request.frontier = frontier
                    if captured is not None:
                        self.add_point(request, captured, self.program.point_frontier(captured), PointKind.INPUT_POINT)
                case RunDone(_, run):
                    assert list(run.token_ids) == expected_tokens(list(request.prompt.tokens), 1, vocab_tokens=VOCAB)
                    self.program.commit_run(request.sequence, data.draw(st.sampled_from((1, 1, 1, 0)), "accepted"))

    @rule(data=st.data(), polls=st.integers(1, 6))
    def poll_for_long(self, data: st.DataObject, polls: int) -> None:
        for _ in range(polls):
            self.poll(data)

    @rule(data=st.data())
    def freeze(self, data: st.DataObject) -> None:
        done = [lane for lane, r in self.requests.items() if r.is_ready and r.prompt_left <= 0]
        if done:
            request = self.unseat(data.draw(st.sampled_from(done)))
            end = self.program.freeze_end(request.sequence)
            assert self.program.point_frontier(end) == request.frontier
            self.add_point(request, end, request.frontier, PointKind.END)
            self.check_stale(request.sequence)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), resumes=st.booleans())
    def release(self, data: st.DataObject, resumes: bool) -> None:
        """At any moment, in flight or not (L3); or a pause, to be replayed later (K1)."""
        lane = data.draw(st.sampled_from(sorted(self.requests)))
        is_ready = self.requests[lane].is_ready
        request = self.unseat(lane)
        self.program.release(request.sequence)
        self.check_stale(request.sequence)
        if resumes and is_ready and request.frontier > 0:
            prompt = request.prompt
            again = Prompt(
                prompt.tokens, max(prompt.prompt_tokens, request.frontier), b"sim", prompt.execution_frontiers
            )
            self.paused.append((again, request.frontier))

    @precondition(lambda self: self.paused and self.free_lane() is not None)
    @rule(data=st.data(), from_point=st.booleans())
    def resume(self, data: st.DataObject, from_point: bool) -> None:
        prompt, frontier = self.paused.pop()
        tokens = list(prompt.tokens)
        fitting = [p for p, _ in self.points() if tokens[:frontier][: len(self.ledgers[p])] == self.ledgers[p]]
        point = data.draw(st.sampled_from(fitting)) if from_point and fitting else None
        self.bind(prompt, point, data, replay_until=frontier)

    @precondition(lambda self: self.points())
    @rule(data=st.data(), pool=st.sampled_from((Pool.STATE, Pool.MAIN_KV, Pool.MTP_KV)))
    def delete(self, data: st.DataObject, pool: Pool) -> None:
        actions = self.program.list_delete_actions(pool)
        if actions:
            action = data.draw(st.sampled_from(actions))
            assert action.frees[pool] > 0
            before = self.program.occupancy().free
            assert self.program.delete(action) == action.frees
            assert self.program.occupancy().free - before == action.frees
            for point in action.points:
                self.forget(point)

    def check_stale(self, sequence: Handle) -> None:
        """V-13"""
        for act in (self.program.in_flight, self.program.release, self.program.reserve_decode):
            with pytest.raises(AssertionError, match="V-13"):
                act(sequence)

    @invariant()
    def program_equals_model(self) -> None:
        if not hasattr(self, "program"):
            return
        self.program.audit()
        for history in self.histories:
            kinds = [kind for _, kind in history.points.values()]
            assert len(kinds) == len(set(kinds)), "D1: a history has at most one point of each kind"
            for point, (frontier, _) in history.points.items():
                assert self.program.point_frontier(point) == frontier
        for point in self.gone:
            with pytest.raises(AssertionError, match="V-13"):
                self.program.point_frontier(point)

    def teardown(self) -> None:
        """When everything has ended, everything is free (B7)."""
        if not hasattr(self, "program"):
            return
        for request in self.requests.values():
            self.program.release(request.sequence)
        for _ in range(100):
            self.program.poll()
        while actions := self.program.list_delete_actions(Pool.STATE):
            self.program.delete(actions[0])
        self.program.audit()
        assert self.program.occupancy().free == self.program.occupancy().capacity


ProgramMachine.TestCase.settings = machine_settings(150, 50)
test_program = ProgramMachine.TestCase
