"""The record of one request: what was asked, what is committed, where it stands (B2).

Knows phases and counters. Does not choose and does not execute. The ledger is the prompt and then the committed
output; `frontier` is how much of it is computed (D8: what was drawn last is committed and not fed yet).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from ninfer.base.buffers import IntBuffer
from ninfer.base.ids import Handle, LaneId, Ticket
from ninfer.frontend.plan import InputPlan
from ninfer.ports.native import Prompt
from ninfer.ports.sampling import SamplingParams
from ninfer.resource.continuation import Continuation, History
from ninfer.resource.manager import CapturePlan
from ninfer.resource.sources import Wishes

from .control import ControlWatch
from .publish import Publication
from .stops import StopWatch


class Phase(Enum):
    """Where a request stands. A draw that needs no forward pass (exact hit) happens in DECODE as well."""

    QUEUED = "queued"
    BINDING = "binding"
    PREFILL = "prefill"
    DECODE = "decode"
    PAUSED = "paused"
    ENDED = "ended"


LEGAL: dict[Phase, frozenset[Phase]] = {
    Phase.QUEUED: frozenset({Phase.BINDING, Phase.ENDED}),
    Phase.BINDING: frozenset({Phase.PREFILL, Phase.DECODE, Phase.PAUSED, Phase.ENDED}),
    Phase.PREFILL: frozenset({Phase.DECODE, Phase.PAUSED, Phase.ENDED}),
    Phase.DECODE: frozenset({Phase.PAUSED, Phase.ENDED}),
    Phase.PAUSED: frozenset({Phase.BINDING, Phase.ENDED}),
    Phase.ENDED: frozenset(),
}


class Interrupt(StrEnum):
    """Why a request should end although it is not finished. In order: of two that are due at once the first counts."""

    CANCEL = "cancel"
    QUEUE_TIMEOUT = "queue_timeout"
    REQUEST_TIMEOUT = "request_timeout"


@dataclass(slots=True, eq=False)
class Request:
    """One request from submission to its last event. Engine-thread only, once submitted."""

    ticket: Ticket
    plan: InputPlan
    params: SamplingParams
    logprobs: int | None
    watch: StopWatch
    publication: Publication
    history: History
    control: ControlWatch | None = None
    phase: Phase = Phase.QUEUED
    interrupt: Interrupt | None = None
    lane: LaneId | None = None
    sequence: Handle | None = None
    record: Continuation | None = None
    frontier: int = 0
    replay_until: int = 0
    """Below this frontier the work was done once already: it is replayed."""
    chunk_end: int = 0
    """Where the prefill chunk ends that has its permit."""
    in_flight: bool = False
    order: int = 0
    """Order of the last publication when it came (G8)."""
    captures: tuple[CapturePlan, ...] = ()
    """The saves that the chunk in flight carries, or the one that is copied to the host."""
    host_save: CapturePlan | None = None
    """The chunk in flight ends where this save is wanted, and it found no device slot."""
    snapshot: Handle | None = None
    """Its execution position, while it is paused and has not been revoked (K1)."""
    has_chosen: bool = False
    """While no lane is free: its source is chosen and kept, or there is none but root (J2)."""
    reads_source: bool = False
    """It started from a restore point, and no unit has been fed since: the first one reads what may go later."""
    distrusts_host: bool = False
    """A restore of it failed: it computes rather than try that again."""

    @property
    def ledger(self) -> IntBuffer:
        """Prompt, then committed output."""
        return self.history.tokens

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return self.publication.prompt_tokens

    @property
    def rebuild_end(self) -> int:
        """Tokens that prefill and replay must cover before the next draw."""
        return max(self.prompt_tokens, self.replay_until)

    @property
    def is_prefilled(self) -> bool:
        """The next unit draws."""
        return self.frontier >= self.rebuild_end

    @property
    def has_unfed_token(self) -> bool:
        """Committed tokens must be fed before the next draw; not so right after the prompt (D9)."""
        return len(self.ledger) > self.frontier

    @property
    def next_said(self) -> int | None:
        """The token that comes next whatever the model would draw (C6); None: draw it."""
        return None if self.control is None else self.control.find_next()

    def enter(self, phase: Phase) -> None:
        """Change the phase along the table."""
        assert phase in LEGAL[self.phase], f"{self.phase.value} -> {phase.value} is not legal"
        self.phase = phase

    def make_prompt(self) -> Prompt:
        """The exact input for a bind: everything committed so far, to be computed up to `rebuild_end`.

        Program writes the ledger on from here; nobody else appends to it.
        """
        plan = self.plan
        return Prompt(
            tokens=self.ledger,
            prompt_tokens=self.rebuild_end,
            execution_identity=plan.digests.execution_identity,
            execution_frontiers=plan.execution_frontiers,
            media=plan.media,
            positions=plan.positions,
            rope_delta=plan.rope_delta,
        )

    def output_view(self) -> memoryview:
        """int32 view of the tokens generated so far: what penalties count (SAMP-04)."""
        return self.ledger.view(self.prompt_tokens)

    @property
    def wishes(self) -> Wishes:
        """Where its input is worth keeping (E1)."""
        plan = self.plan
        return Wishes(plan.recovery_frontier or None, plan.anchors, plan.shared_markers, plan.moving_marker)
