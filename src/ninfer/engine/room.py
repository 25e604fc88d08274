"""Room for what lacks it, in order of harm: what is on its way, demotion, deletion, snapshots (C8, I6, J3, K3).

Carries facts between the resource manager, which ranks, and Program, which acts. A demotion loses nothing and so comes
first; what it frees may come only when its copies have landed, and until then the one who asked yields the cycle.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from ninfer.base.ids import Handle
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import DEVICE_POOLS, ZERO, Pool
from ninfer.ports.native import DemoteAction, Demoting
from ninfer.resource.admission import Claim, Right

from .request import Phase, Request
from .state import EngineState

MOST_ACTIONS = 8
"""Actions of fresh admissions in one cycle, some milliseconds of planning: those who decode wait no longer."""


class Room(Enum):
    """What came of an attempt to make room."""

    MADE = "made"
    """Ask again at once."""
    COMING = "coming"
    """When a transfer has landed (C8), or once the next step runs or the next cycle has begun: see `Pace`."""
    NONE = "none"


@dataclass(slots=True)
class Pace:
    """How far fresh admissions may go before they yield. A yield ends the scan, so that nobody younger gets the room.

    Only they yield: residents and the oldest paused request go on at once (C8), for between two cycles others might
    take what was released for them.
    """

    left: int = MOST_ACTIONS
    has_yielded: bool = False

    def ask(self) -> bool:
        """Whether another action may be planned now; else the asker yields."""
        self.has_yielded |= self.left <= 0
        return not self.has_yielded


def make_room(
    state: EngineState,
    asker: Request,
    shortfall: Shortfall,
    right: Right,
    keep: frozenset[Handle] = frozenset(),
    pace: Pace | None = None,
) -> Room:
    """Room for required work. `keep`: points that must stay on the device (the own source). `pace`: of a newcomer."""
    if state.is_coming(shortfall.pool):
        return Room.COMING
    room = _reclaim(state, shortfall, Claim(right, keep, asker.ticket), pace)
    if room is not Room.NONE:
        return room
    if asker.phase is not Phase.QUEUED and _revoke_youngest(state, asker, shortfall.pool):
        return Room.MADE
    return Room.NONE


def make_capture_room(state: EngineState, shortfall: Shortfall, claim: Claim) -> bool:
    """A slot for an optional save, now or not at all. What can leave for the host is not deleted for it (E2, I10)."""
    return not state.is_coming(shortfall.pool) and _reclaim(state, shortfall, claim) is Room.MADE


def prepare_capture(state: EngineState, request: Request) -> None:
    """A save lies ahead and no slot is free: what can leave for the host begins to, so that one is in time (E2, J8)."""
    record, free = request.record, state.program.occupancy().free.state
    if record is None or free or not state.has_host or not state.resources.keeps_points:
        return
    if state.recovering == request.ticket or state.program.transaction_open:
        return
    ahead = request.wishes.list_frontiers(request.frontier, request.prompt_tokens)
    plan = state.resources.plan_capture(record, request.wishes, ahead[-1]) if ahead else None
    if plan is None or plan.retires is not None:
        return
    room = state.resources.plan_room(Shortfall(Pool.STATE, 1, free), plan.claim, may_copy=not state.skips_demotion)
    if room is not None and isinstance(room.actions[0].action, DemoteAction):
        _reclaim(state, Shortfall(Pool.STATE, 1, free), plan.claim)


def make_host_room(state: EngineState, asker: Request, shortfall: Shortfall) -> bool:
    """Room on the host for a snapshot of `asker`: optional content, then snapshots of later tickets (I9)."""
    keep = frozenset(() if asker.record is None else asker.record.points())
    claim = Claim(Right.SNAPSHOT, keep, asker.ticket)
    plan = state.resources.plan_host_room(shortfall, claim)
    if plan is not None:
        state.resources.carry_out(plan, claim)
        return True
    later = [request for request in state.list_snapshots() if request.ticket > asker.ticket]
    for request in reversed(later):
        assert request.snapshot is not None
        if state.program.quote_revocation(request.snapshot).host:
            revoke_snapshot(state, request)
            return True
    return False


def revoke_snapshot(state: EngineState, request: Request) -> None:
    """The paused request is rebuilt by Replay instead; its input point stays on its own (K3)."""
    snapshot, request.snapshot = request.snapshot, None
    record, request.record = request.record, None
    assert snapshot is not None
    state.program.revoke_snapshot(snapshot)
    if record is not None:
        state.resources.vacate(record)
    state.counters.snapshots_revoked += 1
    state.queue.note_capacity()


def revoke_at_last(state: EngineState, asker: Request) -> bool:
    """Nothing else can be released: the latest snapshot ends, whatever it gives by itself (J3, C10)."""
    others = [request for request in state.list_snapshots() if request is not asker]
    if others:
        revoke_snapshot(state, others[-1])
    return bool(others)


def write_back(state: EngineState, point: Handle) -> bool:
    """Copy a state to the host, so that its slot may pass on and the point stays (F3). True: it is under way."""
    program = state.program
    if state.skips_demotion or program.transaction_open:
        return False
    for action in program.list_demote_actions(Pool.STATE):
        if point in action.points and action.moved_bytes:
            begun = isinstance(program.demote(action, keeps_device=True), Demoting)
            state.counters.write_backs += begun
            return begun
    return False


def _reclaim(state: EngineState, shortfall: Shortfall, claim: Claim, pace: Pace | None = None) -> Room:
    """Carry out the first action, ask for the gap again, until it is closed or the right is used up (I6)."""
    program, resources, pool, gap = state.program, state.resources, shortfall.pool, shortfall.gap
    while gap > 0:
        if pace is not None and not pace.ask():
            return Room.COMING
        copies = not state.skips_demotion and claim.right is not Right.SPARE  # what may go needs no copy
        plan = resources.plan_room(replace(shortfall, need=shortfall.free + gap), claim, may_copy=copies)
        if plan is None:
            return Room.NONE
        if pace is not None:
            pace.left -= 1
        freed, demotion = resources.carry_out(plan, claim)
        gap -= freed[pool]
        if demotion is None or gap <= 0:  # the end of host victims may have closed it
            state.skips_demotion &= freed == ZERO
            continue
        outcome = _demote(state, demotion, resources.list_batch(plan, claim), gap)
        if isinstance(outcome, Shortfall):
            state.skips_demotion = True
            continue
        state.counters.demotions += 1
        gap -= outcome.freed[pool]
        if program.transaction_open:
            state.releasing = frozenset((pool,))
            return Room.COMING
        assert outcome.freed[pool] > 0, "I6: a demotion that frees nothing was listed"
    return Room.MADE


def _demote(state: EngineState, first: DemoteAction, batch: list[DemoteAction], gap: int) -> Demoting | Shortfall:
    """The groups that may share a transaction; the first alone where there are none, or not even a page fits (I7)."""
    if batch:
        outcome = state.program.demote_batch(batch, gap)
        if isinstance(outcome, Demoting):
            return outcome
    return state.program.demote(first, most=gap if first.pages is not None else None)


def _revoke_youngest(state: EngineState, asker: Request, pool: Pool) -> bool:
    """The latest ticket whose snapshot really gives something of `pool` (J3)."""
    assert pool in DEVICE_POOLS
    for request in reversed(state.list_snapshots()):
        assert request.snapshot is not None
        if request is not asker and state.program.quote_revocation(request.snapshot)[pool]:
            revoke_snapshot(state, request)
            return True
    return False
