"""Everything the control thread owns, in one place. Plain data; the parts of the cycle work on it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ninfer.base.clock import Clock
from ninfer.base.ids import Handle, Ticket
from ninfer.ports.native import NativeProgram, PrefillDone, Progress
from ninfer.resource.continuation import Continuation
from ninfer.resource.manager import ResourceManager
from ninfer.sched.members import Members
from ninfer.sched.queue import WaitingQueue
from ninfer.sched.rotation import PrefillRotation

from .request import Phase, Request


@dataclass(frozen=True, slots=True)
class CycleSettings:
    """What the heartbeat must know of the options."""

    max_context: int
    lane_count: int
    prefill_chunk_tokens: int
    queue_timeout_s: float
    request_timeout_s: float
    audit_every_cycles: int = 0


@dataclass(slots=True)
class Counters:
    """Totals since the start, for reports."""

    cycles: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    pauses: int = 0
    prefill_tokens: int = 0
    replayed_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


@dataclass(slots=True)
class EngineState:
    """Requests by ticket and by sequence, seats, queue, and what is in flight."""

    settings: CycleSettings
    program: NativeProgram
    resources: ResourceManager
    clock: Clock
    members: Members
    queue: WaitingQueue = field(default_factory=WaitingQueue)
    rotation: PrefillRotation = field(default_factory=PrefillRotation)
    requests: dict[Ticket, Request] = field(default_factory=dict)
    by_sequence: dict[Handle, Request] = field(default_factory=dict)
    binding: Ticket | None = None
    """The one request whose bind is not complete (V-07)."""
    recovering: Ticket | None = None
    """The one holder of a full restore permit (V-07)."""
    reported: deque[Progress] = field(default_factory=deque)
    """What Program reported and nobody has settled yet."""
    draws_in_flight: int = 0
    prefill_in_flight: Ticket | None = None
    last_progress_s: float = 0.0
    counters: Counters = field(default_factory=Counters)

    @property
    def has_work_in_flight(self) -> bool:
        """Something will be polled later without further action: turns, a bind, or what an ended request left (L3)."""
        turns = self.draws_in_flight > 0 or self.prefill_in_flight is not None
        return turns or self.binding is not None or self.program.count_leaving() > 0

    def residents(self) -> list[Request]:
        """Requests with a lane, oldest first."""
        return [self.requests[ticket] for ticket in self.members.by_ticket()]

    def protected(self) -> frozenset[Ticket]:
        """Residents that are never preempted: the one materialising and the holder of a full permit (J4)."""
        return frozenset(ticket for ticket in (self.binding, self.recovering) if ticket is not None)

    def chunk_end(self, frontier: int, limit: int) -> int:
        """Where a chunk that starts at `frontier` ends.

        Ends lie on multiples of the chunk length, counted from the start of the history: a run that resumed somewhere
        is cut where the run that never stopped was cut (settled decision 6).
        """
        chunk = self.settings.prefill_chunk_tokens
        return min(limit, (frontier // chunk + 1) * chunk)

    def reconcile(self) -> None:
        """After an error that cut a hand-over short: what no request and no record holds goes back (SCHED-09)."""
        for sequence in self.program.list_sequences():
            if sequence not in self.by_sequence:
                self.program.release(sequence)
        self.resources.reconcile(self._list_users(), self._list_in_hand())
        self.queue.note_capacity()

    def _list_users(self) -> dict[Ticket, Continuation]:
        return {ticket: request.record for ticket, request in self.requests.items() if request.record is not None}

    def _list_in_hand(self) -> frozenset[Handle]:
        """Captures that were reported and are still to be published."""
        reported = (progress.captured for progress in self.reported if isinstance(progress, PrefillDone))
        return frozenset(point for point in reported if point is not None)

    def audit(self) -> None:
        """Recount seats, queue, records and stores, and what they say of each other; AssertionError: they differ."""
        self.program.audit()
        self.resources.audit()
        self.queue.audit()
        self.members.audit()
        for ticket, request in self.requests.items():
            waits = request.phase in (Phase.QUEUED, Phase.PAUSED)
            assert waits == (ticket in self.queue), f"ticket {ticket} is {request.phase.value}"
            assert waits != (ticket in self.members), f"ticket {ticket} is {request.phase.value}"
            assert waits == (request.sequence is None), f"ticket {ticket} is {request.phase.value}"
        assert set(self.program.list_sequences()) == set(self.by_sequence), "sequences and requests differ (V-02)"
        owned = self._list_in_hand().union(self.resources.list_points())
        assert owned == set(self.program.list_points()), "points and their owners differ (V-02)"
        assert self.resources.list_users() == self._list_users(), "records and their users differ (V-09)"
        flying = [request for request in self.by_sequence.values() if request.in_flight]
        drawing = sum(request.phase is Phase.DECODE for request in flying)
        assert drawing == self.draws_in_flight, "draws in flight differ"
        assert len(flying) - drawing == (self.prefill_in_flight is not None), "prefill in flight differs"
