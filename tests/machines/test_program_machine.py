"""Program on a late SimDevice: random binds, chunks, captures, draws, pauses, ends and deletions.

Every token equals the closed form of its request alone (V-15), a permit costs what a naive count says (C6), points are
exactly those of a naive list of histories, and the full recount holds after every step (V-01, V-02). The device
compares every page and state it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

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
    CaptureRequest,
    ControlTurn,
    DecodeTurn,
    DrawTurn,
    HandOver,
    NormalizeDone,
    NormalizeTurn,
    PointKind,
    PrefillDone,
    PrefillTurn,
    Prompt,
    RunDone,
    SourceQuote,
)
from ninfer.program.program import Program
from ninfer.sim.chain import expected_tokens
from ninfer.sim.device import SimDevice, SimFaults
from ninfer.sim.driver import GREEDY

LANES = 3
VOCAB = 50
DICE = st.integers(0, 1 << 20).map(Random)
"""Inner choices come from a seed: evenly spread, where drawing each one would favour the simplest."""


@dataclass(eq=False)
class History:
    """A naive history: which points stand where, and whether somebody writes it."""

    points: dict[Handle, tuple[int, PointKind]] = field(default_factory=dict)
    is_written: bool = False
    may_still_land: bool = False
    """Its writer was released in flight: until that has landed, nobody takes over (V-09)."""


@dataclass(eq=False)
class Request:
    sequence: Handle
    history: History
    prompt: Prompt
    frontier: int
    replay_until: int = 0
    is_ready: bool = False
    has_permit: bool = True
    """Its bind took one, or a reserve did, and no unit has spent it."""
    is_ahead: bool = False
    is_early: bool = False
    """Its first chunk was submitted behind the copies of its bind."""
    said: int | None = None
    """The token that a control turn under way says."""

    @property
    def prompt_left(self) -> int:
        return self.prompt.prompt_tokens - self.frontier


class ProgramMachine(RuleBasedStateMachine):
    @initialize(slots=st.integers(3, 12), pages=st.integers(10, 60), late=st.integers(0, 3), seed=st.integers(0, 99))
    def begin(self, slots: int, pages: int, late: int, seed: int) -> None:
        self.device = SimDevice(
            slots=slots,
            pages={Pool.MAIN_KV: pages, Pool.MTP_KV: pages},
            vocab_tokens=VOCAB,
            faults=SimFaults(seed, late),
            check_every=3,
            longest_run=1 + 3 * (seed % 2),
            run_ahead_slots=seed % (LANES + 1),
            feeds_draws=True,
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

    def is_snapshot(self, point: Handle) -> bool:
        return any(h.points[point][1] is PointKind.SNAPSHOT for h in self.histories if point in h.points)

    def free_lane(self) -> LaneId | None:
        return next((LaneId(lane) for lane in range(LANES) if lane not in self.requests), None)

    def unseat(self, lane: LaneId) -> Request:
        request = self.requests.pop(lane)
        request.history.is_written = False
        return request

    def bind(self, prompt: Prompt, point: Handle | None, dice: Random, replay_until: int = 0) -> None:
        """Quote, compare the quote with the naive history, bind; a shortfall changes nothing (V-04, G4)."""
        lane = self.free_lane()
        if lane is None or self.program.transaction_open:
            return
        takes_over = dice.random() < 0.6
        quote = self.program.quote_source(
            prompt,
            point,
            takes_over=takes_over,
            first_unit_tokens=dice.choice((1, 64, 100, 400)),
            gives_up_point=dice.random() < 0.3,
        )
        if quote is None:
            assert point is not None
            if self.is_snapshot(point):
                return
            assert list(prompt.tokens)[: len(self.ledgers[point])] != self.ledgers[point]
            return
        history = History()
        if point is not None:
            source = next(h for p, h in self.points() if p == point)
            paused = [p for p in source.points if p != point and self.is_snapshot(p)]
            may = takes_over and not source.is_written and not paused
            assert quote.takes_over == may or (may and source.may_still_land)
            if quote.takes_over:
                history = source
                self.compare_points(quote, source, point)
        before = self.program.occupancy()
        bound = self.program.bind(quote, prompt, lane)
        if isinstance(bound, Shortfall):
            assert bound.gap > 0
            assert self.program.occupancy() == before
            return
        for ended in bound.consumed:
            self.forget(ended)
        history.is_written = True
        if history not in self.histories:
            self.histories.append(history)
        self.requests[lane] = Request(bound.sequence, history, prompt, bound.frontier, replay_until)

    def compare_points(self, quote: SourceQuote, source: History, point: Handle) -> None:
        """F2: what is deeper ends, what is not rides along; a MOVE consumes its source, a FORK of an END retires it."""
        at, _ = source.points[point]
        ends = {
            p for p, (frontier, kind) in source.points.items() if frontier > at or kind is not PointKind.INPUT_POINT
        }
        moved = {point} if quote.hand_over is HandOver.MOVE and point not in quote.carried else set()
        assert set(quote.retires) == ends - moved
        assert set(quote.carried) == set(source.points) - ends - moved

    # --- rules ----------------------------------------------------------------------------------------------------

    @rule(dice=DICE)
    def bind_root(self, dice: Random) -> None:
        if self.points() and dice.random() < 0.6:
            return
        salt, length = dice.randrange(4), dice.choice((64, 128, dice.randint(1, 220)))
        tokens = [(salt * 7 + i * i) % VOCAB for i in range(length)]
        self.bind(self.make_prompt(tokens, 0, dice), None, dice)

    @precondition(lambda self: self.points())
    @rule(dice=DICE)
    def bind_point(self, dice: Random) -> None:
        point, _ = dice.choice(self.points())
        tokens = list(self.ledgers[point])
        at, more = len(tokens), dice.choice((0, 1, 10, 64, 130, 130))
        if dice.random() < 0.1:
            tokens[dice.randrange(at)] += 1
        tokens += [(more + 3 * i) % VOCAB for i in range(more)]
        self.bind(self.make_prompt(tokens, at, dice), point, dice)

    def make_prompt(self, tokens: list[int], above: int, dice: Random) -> Prompt:
        inside = range(above + 1, len(tokens))
        page_ends = [at for at in inside if at % 64 == 0]
        frontiers = {*dice.sample(inside, min(2, len(inside))), *dice.sample(page_ends, min(1, len(page_ends)))}
        return Prompt(IntBuffer(tokens), len(tokens), b"sim", tuple(sorted(frontiers)))

    @precondition(lambda self: self.requests)
    @rule(dice=DICE, cycles=st.integers(1, 16))
    def work(self, dice: Random, cycles: int) -> None:
        for _ in range(cycles):
            self.run(dice)
            for _ in range(dice.randint(0, 3)):
                self.poll(dice)
            if dice.random() < 0.15:
                self.freeze(dice)

    def run(self, dice: Random) -> None:
        """One cycle's work: draws of some lanes and a chunk of another."""
        ready = [request for request in self.requests.values() if request.is_ready]
        turns = []
        for request in ready:
            turn = self.make_turn(request, dice) if request.prompt_left <= 0 and dice.random() < 0.8 else None
            if turn is not None:
                turns.append((request, turn))
        chunks = [request for request in ready if request.prompt_left > 0]
        early = [r for r in self.requests.values() if not r.is_ready and self.program.may_start(r.sequence)]
        chunks += [request for request in early if request.prompt_left > 0]
        prefill = self.make_chunk(dice.choice(chunks), dice) if chunks else None
        runs_ahead = dice.random() < 0.5
        if turns or prefill:
            self.program.submit([turn for _, turn in turns], prefill, runs_ahead=runs_ahead)
        for request, turn in turns:
            left = len(request.prompt.tokens) - request.frontier
            feeds = left > isinstance(turn, NormalizeTurn)
            request.has_permit &= request.is_ahead or not feeds
            request.is_ready = False
            request.is_ahead &= not feeds
            request.is_ahead |= runs_ahead and isinstance(turn, DrawTurn)
            request.said = turn.token_id if isinstance(turn, ControlTurn) else None
            if not isinstance(turn, NormalizeTurn):
                request.frontier = len(request.prompt.tokens)
        if prefill is not None:
            request = next(r for r in self.requests.values() if r.sequence == prefill.sequence)
            request.is_early = not request.is_ready
            request.is_ready = False
            request.has_permit = prefill.replay

    def make_turn(self, request: Request, dice: Random) -> DecodeTurn | None:
        """Draw, say or normalise, each with the permit that the naive count says (C6); None: there is no room."""
        end, sequence = len(request.prompt.tokens), request.sequence
        assert self.program.is_normal(sequence) == (end - request.frontier <= 1)
        match dice.randrange(6):
            case 0:
                if self.is_refused(request, self.program.reserve_control, end):
                    return None
                return ControlTurn(sequence, dice.randrange(VOCAB))
            case 1:
                if self.is_refused(request, self.program.reserve_normalize, max(request.frontier, end - 1)):
                    return None
                return NormalizeTurn(sequence)
        pending = end > request.frontier
        if pending and self.is_refused(request, self.program.reserve_decode, end):
            return None
        return DrawTurn(sequence, pending, GREEDY, 0.0)

    def is_refused(self, request: Request, reserve: Callable[[Handle], Shortfall | None], stop: int) -> bool:
        """Whether there is no room. A permit costs the pages up to `stop` that the history lacks, in both pools or in
        neither, once; with a permit or a launch ahead at hand it costs no more than that (C6, V-04)."""
        before = self.program.occupancy()
        lacks = {pool: _pages(pool, stop) - _pages(pool, request.frontier) for pool in (Pool.MAIN_KV, Pool.MTP_KV)}
        shortfall = reserve(request.sequence)
        after = self.program.occupancy()
        if shortfall is not None:
            assert after == before
            assert shortfall.free == before.free[shortfall.pool] < lacks[shortfall.pool]
            return True
        for pool, pages in lacks.items():
            took = before.free[pool] - after.free[pool]
            assert took == pages or (took < pages and (request.has_permit or request.is_ahead)), f"C6: {pool} {took}"
        request.has_permit = True
        assert reserve(request.sequence) is None
        assert self.program.occupancy() == after
        return False

    def make_chunk(self, request: Request, dice: Random) -> PrefillTurn | None:
        """At most to the end of the replay, with a capture now and then where a frontier is crossed."""
        replay = request.frontier < request.replay_until
        left = request.replay_until - request.frontier if replay else request.prompt_left
        tokens = dice.choice((left, dice.randint(1, left)))
        if self.program.reserve_prefill(request.sequence, tokens) is not None:
            return None
        stop = request.frontier + tokens
        frontiers = (*request.prompt.execution_frontiers, request.prompt.prompt_tokens)
        crossed = [f for f in frontiers if request.frontier < f <= stop and not replay]
        captures: list[CaptureRequest] = []
        for frontier in sorted(set(crossed)):
            if dice.random() < 0.5:
                continue
            capture = CaptureRequest(frontier, PointKind.INPUT_POINT)
            old = [p for p, (_, kind) in request.history.points.items() if kind is PointKind.INPUT_POINT]
            retires = old[0] if old and dice.random() < 0.6 else None
            if self.program.reserve_capture(request.sequence, capture, retires) is None:
                captures.append(capture)
                if retires is not None:
                    self.forget(retires)
        return PrefillTurn(request.sequence, tokens, tuple(captures), replay)

    def poll(self, dice: Random) -> None:
        for event in self.program.poll():
            request = next(r for r in self.requests.values() if r.sequence == event.sequence)
            request.is_ready = not (request.is_early and isinstance(event, BindDone))
            match event:
                case BindDone():
                    pass
                case PrefillDone(_, frontier, captured):
                    request.frontier = frontier
                    request.is_early = False
                    for at, point in captured:
                        assert self.program.point_frontier(point) == at
                        self.add_point(request, point, at, PointKind.INPUT_POINT)
                case NormalizeDone(_, frontier):
                    assert frontier in (len(request.prompt.tokens) - 1, len(request.prompt.tokens))
                    request.frontier = frontier
                case RunDone(_, run):
                    drawn = expected_tokens(list(request.prompt.tokens), len(run.token_ids), vocab_tokens=VOCAB)
                    assert list(run.token_ids) == (drawn if request.said is None else [request.said])
                    if dice.random() < 0.5:
                        self.run_ahead(request)
                    accepted = dice.choice((*[len(run.token_ids)] * 3, dice.randint(0, len(run.token_ids))))
                    request.is_ahead &= accepted in (1, len(run.token_ids))
                    self.program.commit_run(request.sequence, accepted)
        self.program.audit()

    def run_ahead(self, request: Request) -> None:
        """Decision 5: nobody sees it, whatever becomes of the run; the pools give what is free, or nothing."""
        before = self.program.occupancy()
        launched = self.program.run_ahead([request.sequence])
        request.is_ahead |= bool(launched)
        assert launched or self.program.occupancy() == before

    def freeze(self, dice: Random) -> None:
        done = [lane for lane, r in self.requests.items() if r.is_ready and r.prompt_left <= 0]
        if not done:
            return
        request = self.unseat(dice.choice(done))
        end = self.program.freeze_end(request.sequence)
        assert self.program.point_frontier(end) == request.frontier
        self.add_point(request, end, request.frontier, PointKind.END)
        self.check_stale(request.sequence)

    @precondition(lambda self: self.requests)
    @rule(dice=DICE)
    def release(self, dice: Random) -> None:
        """At any moment, in flight or not (L3); or a pause between units, to be replayed later (K1)."""
        if dice.random() < 0.7:
            return
        lane = dice.choice(sorted(self.requests))
        request = self.unseat(lane)
        self.program.release(request.sequence)
        self.check_stale(request.sequence)
        request.history.may_still_land |= not request.is_ready
        if request.is_ready and request.frontier > 0:
            old = request.prompt
            until = max(old.prompt_tokens, request.frontier)
            self.paused.append((Prompt(old.tokens, until, b"sim", old.execution_frontiers), request.frontier))

    @precondition(lambda self: self.paused and self.free_lane() is not None)
    @rule(dice=DICE)
    def resume(self, dice: Random) -> None:
        if self.program.transaction_open:
            return
        prompt, frontier = self.paused.pop()
        tokens = list(prompt.tokens)[:frontier]
        fitting = [p for p, _ in self.points() if tokens[: len(self.ledgers[p])] == self.ledgers[p]]
        self.bind(prompt, dice.choice([None, *fitting]), dice, replay_until=frontier)

    @precondition(lambda self: self.points())
    @rule(dice=DICE, pool=st.sampled_from((Pool.STATE, Pool.MAIN_KV, Pool.MTP_KV)))
    def delete(self, dice: Random, pool: Pool) -> None:
        actions = self.program.list_delete_actions(pool)
        if not actions or dice.random() < 0.7:
            return
        action = dice.choice(actions)
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
            kinds = [kind for _, kind in history.points.values() if kind is not PointKind.INPUT_POINT]
            assert len(kinds) == len(set(kinds)), "D1: a history has at most one end and one snapshot"
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
        for snapshot in [point for point, _ in self.points() if self.is_snapshot(point)]:
            self.program.revoke_snapshot(snapshot)
        for pool in (Pool.STATE, Pool.HOST):
            while actions := self.program.list_delete_actions(pool):
                self.program.delete(actions[0])
        self.program.audit()
        assert self.program.occupancy().free == self.program.occupancy().capacity


def _pages(pool: Pool, tokens: int) -> int:
    """MTP lags one token behind (D9)."""
    return -(-max(0, tokens - (pool is Pool.MTP_KV)) // 64)


ProgramMachine.TestCase.settings = machine_settings(150, 50)
test_program = ProgramMachine.TestCase
