"""What goes wrong in a world, drawn from its seed; and the seam where optional allocations are refused and events seen.

`WatchedProgram` stands between engine and Program: it passes every call on, counts, tells a listener, and now and then
says that there is no room for a capture although there is. Nothing required is ever refused here.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ninfer.base.events import (
    BindLacked,
    BoundSource,
    CaptureRefused,
    CaptureReserved,
    Committed,
    Froze,
    Landed,
    Reclaimed,
    Released,
    Submitted,
    TraceSink,
    UnitLacked,
)
from ninfer.base.ids import Handle, LaneId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import (
    BindDone,
    Bound,
    CaptureRequest,
    DeleteAction,
    DrawTurn,
    HandOver,
    NativeProgram,
    Occupancy,
    PrefillDone,
    PrefillTurn,
    Progress,
    Prompt,
    RunDone,
    SourceQuote,
)

from .device import SimFaults


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Faults of one world. Shares lie in [0, 1]; deadlines are in simulated seconds, a cycle is a millisecond."""

    delay_polls: int = 0
    refused_share: float = 0.0
    """Of the attempts to find room for a capture."""
    cancelled_share: float = 0.0
    """Of the requests."""
    queue_timeout_s: float = 600.0
    request_timeout_s: float = 3600.0
    fail_submission: int | None = None
    fail_copy: int | None = None
    fail_landing: int | None = None

    def of_device(self, seed: int) -> SimFaults:
        """The part that the device plays."""
        return SimFaults(
            seed=seed,
            delay_polls=self.delay_polls,
            fail_submission=self.fail_submission,
            fail_copy=self.fail_copy,
            fail_landing=self.fail_landing,
        )


def draw_faults(chance: random.Random, cycles: int) -> FaultPlan:
    """Each kind of fault in some worlds only, so that a world without it stays a plain one."""
    fails = chance.choice(("submission", "copy", "landing")) if chance.random() < 0.12 else ""
    at = chance.randrange(1, 2 * cycles)
    return FaultPlan(
        delay_polls=chance.choice((0, 0, 1, 2, 5)),
        refused_share=chance.choice((0.0, 0.0, 0.2, 0.6)),
        cancelled_share=chance.choice((0.0, 0.1, 0.3, 0.5)),
        queue_timeout_s=chance.uniform(0.02, 0.3) if chance.random() < 0.15 else 600.0,
        request_timeout_s=chance.uniform(0.1, 1.0) if chance.random() < 0.15 else 3600.0,
        fail_submission=at if fails == "submission" else None,
        fail_copy=at % 8 if fails == "copy" else None,
        fail_landing=at if fails == "landing" else None,
    )


@dataclass(slots=True)
class Counts:
    """What a world has seen: figures that show whether a simulation was idle."""

    cycles: int = 0
    requests: int = 0
    reclaims: int = 0
    pauses: int = 0
    forks: int = 0
    moves: int = 0
    tail_copies: int = 0
    exact_hits: int = 0
    captures: int = 0
    captures_refused: int = 0
    long_runs: int = 0
    cancels: int = 0
    timeouts: int = 0
    faults: int = 0

    def add(self, other: Counts) -> None:
        """Sum up worlds."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def line(self) -> str:
        """One line of text."""
        return " ".join(f"{name}={getattr(self, name)}" for name in self.__slots__)


class WatchedProgram:
    """Implements `NativeProgram` around another one."""

    def __init__(
        self, program: NativeProgram, counts: Counts, *, refused_share: float, seed: int, listener: TraceSink | None
    ) -> None:
        self._program = program
        self._counts = counts
        self._refused_share = refused_share
        self._chance = random.Random(f"refusals {seed}")
        self._listener = listener
        self._lacking: list[Handle] = []

    def take_lacking(self) -> list[Handle]:
        """Sequences that found no room for their next unit since the last look."""
        lacking, self._lacking = self._lacking, []
        return lacking

    def occupancy(self) -> Occupancy:
        """Passed on."""
        return self._program.occupancy()

    def quote_source(
        self,
        prompt: Prompt,
        point: Handle | None,
        *,
        takes_over: bool,
        first_unit_tokens: int,
        gives_up_point: bool = False,
    ) -> SourceQuote | None:
        """Passed on."""
        return self._program.quote_source(
            prompt, point, takes_over=takes_over, first_unit_tokens=first_unit_tokens, gives_up_point=gives_up_point
        )

    def bind(self, quote: SourceQuote, prompt: Prompt, lane: LaneId) -> Bound | Shortfall:
        """Counted by how the source was handed over."""
        bound = self._program.bind(quote, prompt, lane)
        point = None if quote.checkpoint is None else str(quote.checkpoint)
        if isinstance(bound, Shortfall):
            if self._listener is not None:
                self._listener(BindLacked(lane, point, bound.pool.value, bound.need, bound.free))
            return bound
        self._counts.forks += quote.hand_over is HandOver.FORK
        self._counts.moves += quote.hand_over is HandOver.MOVE
        self._counts.tail_copies += quote.copied_bytes > 0
        self._counts.exact_hits += quote.first_unit_tokens == 0
        if self._listener is not None:
            event = BoundSource(
                str(bound.sequence),
                lane,
                quote.hand_over.value,
                point,
                quote.frontier,
                quote.takes_over,
                tuple(map(str, bound.carried)),
                tuple(map(str, bound.consumed)),
            )
            self._listener(event)
        return bound

    def reserve_prefill(self, sequence: Handle, tokens: int) -> Shortfall | None:
        """Passed on."""
        return self._tell_lack(sequence, self._program.reserve_prefill(sequence, tokens))

    def reserve_decode(self, sequence: Handle) -> Shortfall | None:
        """Passed on."""
        return self._tell_lack(sequence, self._program.reserve_decode(sequence))

    def reserve_capture(self, sequence: Handle, capture: CaptureRequest, retires: Handle | None) -> Shortfall | None:
        """Refused now and then, although there may be room."""
        planted = self._refused_share > 0 and self._chance.random() < self._refused_share
        if planted:
            free = self._program.occupancy().free[Pool.STATE]
            shortfall: Shortfall | None = Shortfall(Pool.STATE, free + 1, free)
        else:
            shortfall = self._program.reserve_capture(sequence, capture, retires)
        self._counts.faults += planted
        self._counts.captures_refused += shortfall is not None
        if self._listener is not None:
            if shortfall is None:
                outdated = None if retires is None else str(retires)
                self._listener(CaptureReserved(str(sequence), capture.frontier, outdated))
            else:
                self._listener(CaptureRefused(str(sequence), capture.frontier, planted))
        return shortfall

    def submit(self, draws: Sequence[DrawTurn], prefill: PrefillTurn | None) -> None:
        """Passed on."""
        if self._listener is not None:
            event = Submitted(
                tuple(f"{turn.sequence}{'' if turn.decode else '*'}" for turn in draws),
                None if prefill is None else str(prefill.sequence),
                0 if prefill is None else prefill.tokens,
                prefill is not None and prefill.replay,
            )
            self._listener(event)
        self._program.submit(draws, prefill)

    def poll(self) -> list[Progress]:
        """Passed on; kept captures and long runs are counted."""
        done = self._program.poll()
        for progress in done:
            if isinstance(progress, PrefillDone):
                self._counts.captures += progress.captured is not None
            elif isinstance(progress, RunDone):
                self._counts.long_runs += len(progress.run.token_ids) > 1
            if self._listener is not None:
                self._listener(_landed(progress))
        return done

    def commit_run(self, sequence: Handle, accepted: int) -> None:
        """Passed on."""
        if self._listener is not None:
            self._listener(Committed(str(sequence), accepted))
        self._program.commit_run(sequence, accepted)

    def freeze_end(self, sequence: Handle) -> Handle:
        """Passed on."""
        point = self._program.freeze_end(sequence)
        if self._listener is not None:
            self._listener(Froze(str(sequence), str(point)))
        return point

    def release(self, sequence: Handle) -> None:
        """Passed on."""
        if self._listener is not None:
            self._listener(Released(str(sequence), self._program.in_flight(sequence)))
        self._program.release(sequence)

    def in_flight(self, sequence: Handle) -> bool:
        """Passed on."""
        return self._program.in_flight(sequence)

    def point_frontier(self, point: Handle) -> int:
        """Passed on."""
        return self._program.point_frontier(point)

    def list_sequences(self) -> list[Handle]:
        """Passed on."""
        return self._program.list_sequences()

    def count_leaving(self) -> int:
        """Passed on."""
        return self._program.count_leaving()

    def list_points(self) -> list[Handle]:
        """Passed on."""
        return self._program.list_points()

    def discard_point(self, point: Handle) -> None:
        """Passed on."""
        self._program.discard_point(point)

    def list_delete_actions(self, pool: Pool) -> list[DeleteAction]:
        """Passed on."""
        return self._program.list_delete_actions(pool)

    def delete(self, action: DeleteAction) -> Amounts:
        """Counted."""
        freed = self._program.delete(action)
        self._counts.reclaims += 1
        if self._listener is not None:
            amounts = tuple(f"{pool.value}:{amount}" for pool, amount in freed.items())
            self._listener(Reclaimed(tuple(map(str, action.points)), amounts))
        return freed

    def audit(self) -> None:
        """Passed on."""
        self._program.audit()

    def _tell_lack(self, sequence: Handle, shortfall: Shortfall | None) -> Shortfall | None:
        if shortfall is not None:
            self._lacking.append(sequence)
            if self._listener is not None:
                self._listener(UnitLacked(str(sequence), shortfall.pool.value, shortfall.need, shortfall.free))
        return shortfall


def _landed(progress: Progress) -> Landed:
    sequence = str(progress.sequence)
    match progress:
        case BindDone():
            return Landed("bind", sequence)
        case PrefillDone():
            captured = None if progress.captured is None else str(progress.captured)
            return Landed("prefill", sequence, progress.frontier, captured)
        case RunDone():
            return Landed("run", sequence, len(progress.run.token_ids))
