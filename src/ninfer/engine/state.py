"""Everything the control thread owns, in one place. Plain data; the parts of the cycle work on it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ninfer.base.clock import Clock
from ninfer.base.ids import Handle, Ticket
from ninfer.base.pools import Pool
from ninfer.ports.native import NativeProgram, PrefillDone, Progress
from ninfer.ports.transactions import TransactionEnd, TransactionKind
from ninfer.resource.continuation import Continuation
from ninfer.resource.manager import ResourceManager
from ninfer.sched.chunks import EVEN_WORK, ChunkSizer, PrefillWork
from ninfer.sched.members import Members
from ninfer.sched.queue import WaitingQueue
from ninfer.sched.rotation import PrefillRotation

from .metering import TransferTotals
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
    max_gap_s: float | None = None
    """How long decoding lanes may wait for somebody's prefill chunk; None: chunks are as long as they may be."""
    prefill_work: PrefillWork = EVEN_WORK
    prefill_rate_per_s: float = 2000.0
    """Of `prefill_work`, until chunks have been seen."""
    runs_ahead: bool = False
    """Feed drawn runs before it is decided what of them stays (settled decision 5)."""


@dataclass(slots=True)
class Counters:
    """Totals since the start, for reports."""

    cycles: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    pauses: int = 0
    snapshots: int = 0
    """Pauses that kept the execution position (K1)."""
    snapshots_resumed: int = 0
    snapshots_revoked: int = 0
    sources_kept: int = 0
    """Times a waiting request kept a source that it could not start from yet (G5)."""
    leads_followed: int = 0
    """Requests that waited for a point which another one was computing (G5)."""
    keeps_revoked: int = 0
    """Waiting requests that had to choose again, because what they kept was needed or had ended (G7)."""
    captures: int = 0
    """Input points that were kept, wherever; `host_captures` counts those begun on the host."""
    permits_granted: int = 0
    permits_lacking: int = 0
    """Residents that asked for their next unit and had to wait for room (C7)."""
    demotions: int = 0
    write_backs: int = 0
    host_captures: int = 0
    failed_transfers: int = 0
    launches_ahead: int = 0
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
    queue: WaitingQueue = field(init=False)
    chunks: ChunkSizer = field(init=False)
    rotation: PrefillRotation = field(default_factory=PrefillRotation)
    requests: dict[Ticket, Request] = field(default_factory=dict)
    by_sequence: dict[Handle, Request] = field(default_factory=dict)
    binding: Ticket | None = None
    """The one request whose bind is not complete (V-07)."""
    binding_releases: bool = False
    """Its bind ends points or a wait for one: when it is complete, others are asked again; for one from root not."""
    recovering: Ticket | None = None
    """The one holder of a full restore permit (V-07)."""
    reported: deque[Progress] = field(default_factory=deque)
    """What Program reported and nobody has settled yet."""
    ended: deque[TransactionEnd] = field(default_factory=deque)
    """Transactions that ended and nobody has settled yet."""
    capturing: Ticket | None = None
    """The request whose state is being copied to the host (V-07)."""
    releasing: frozenset[Pool] = frozenset()
    """Pools that the open transaction will give something back to."""
    skips_demotion: bool = False
    """The last demotion failed: room is made by ending points, until that or a bind has succeeded."""
    making_room: bool = False
    """A newcomer goes on making room in the next cycle: no save takes what is free by now."""
    draws_in_flight: int = 0
    prefill_in_flight: Ticket | None = None
    prefill_started_s: float | None = None
    """None: the chunk in flight waits for copies, and its time says nothing about chunks."""
    last_progress_s: float = 0.0
    counters: Counters = field(default_factory=Counters)
    transfers: TransferTotals = field(default_factory=TransferTotals)

    def __post_init__(self) -> None:
        settings = self.settings
        self.queue = WaitingQueue(most_passes=self.members.lane_count)
        self.chunks = ChunkSizer(settings.prefill_work, settings.prefill_chunk_tokens, settings.prefill_rate_per_s)

    @property
    def has_work_in_flight(self) -> bool:
        """Something will be polled later without further action: turns, a bind, or what an ended request left (L3)."""
        turns = self.draws_in_flight > 0 or self.prefill_in_flight is not None
        if turns or self.binding is not None:
            return True
        return self.program.count_leaving() > 0 or self.program.count_transfers() > 0

    @property
    def has_host(self) -> bool:
        """Whether there is a host arena (C2)."""
        return self.program.occupancy().capacity.host > 0

    def is_coming(self, pool: Pool) -> bool:
        """Whether a transfer under way will give something back to `pool` (C8)."""
        return pool in self.releasing and self.program.transaction_open

    def list_snapshots(self) -> list[Request]:
        """Paused requests that keep their execution position, oldest first."""
        return [self.requests[ticket] for ticket in sorted(self.requests) if self.requests[ticket].snapshot is not None]

    def residents(self) -> list[Request]:
        """Requests with a lane, oldest first."""
        return [self.requests[ticket] for ticket in self.members.by_ticket()]

    def protected(self) -> frozenset[Ticket]:
        """Residents that are never preempted: the one materialising and the holder of a full permit (J4)."""
        return frozenset(ticket for ticket in (self.binding, self.recovering) if ticket is not None)

    def chunk_end(self, frontier: int, limit: int) -> int:
        """Where the longest chunk that starts at `frontier` ends; what permits are asked for.

        Ends lie on multiples of the chunk length, counted from the start of the history: a run that resumed somewhere
        is cut where the run that never stopped was cut (settled decision 6).
        """
        return self.chunks.find_end(frontier, limit, None)

    def gap_left_s(self) -> float | None:
        """How long the next prefill chunk may take; None: nobody decodes, or nobody minds."""
        if self.settings.max_gap_s is None or all(r.phase is not Phase.DECODE for r in self.residents()):
            return None
        return self.settings.max_gap_s

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
        """Captures that were reported and are still to be published, and what paused requests go on from."""
        reported = (progress for progress in self.reported if isinstance(progress, PrefillDone))
        points: list[Handle | None] = [point for progress in reported for _, point in progress.captured]
        points += [end.subject for end in self.ended if end.kind is TransactionKind.CAPTURE]
        points += [request.snapshot for request in self.requests.values()]
        return frozenset(point for point in points if point is not None)

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
        for ticket in self.resources.list_waiting():
            is_waiting = ticket in self.requests and self.requests[ticket].phase is Phase.QUEUED
            assert is_waiting, f"G9: ticket {ticket} keeps a source and does not wait"
        for ticket, request in self.requests.items():
            held = request.phase is Phase.PAUSED or request.snapshot is None
            assert held, f"K1: ticket {ticket} is {request.phase.value} and holds a snapshot"
        flying = [r for r in self.by_sequence.values() if r.in_flight and r.ticket != self.capturing]
        drawing = sum(request.phase is Phase.DECODE for request in flying)
        assert drawing == self.draws_in_flight, "draws in flight differ"
        assert len(flying) - drawing == (self.prefill_in_flight is not None), "prefill in flight differs"
