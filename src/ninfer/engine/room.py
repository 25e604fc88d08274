"""Room for what lacks it, in order of harm: what is on its way, demotion, deletion, snapshots (C8, I6, J3, K3).

Carries facts between the resource manager, which ranks, and Program, which acts. A demotion loses nothing and so comes
first; what it frees may come only when its copies have landed, and until then the one who asked yields the cycle.
"""

from __future__ import annotations

from enum import Enum

from ninfer.base.ids import Handle
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import DEVICE_POOLS, Pool
from ninfer.ports.native import Demoting
from ninfer.resource.continuation import Continuation
from ninfer.resource.reclaim import Right

from .request import Phase, Request
from .state import EngineState

_HOST_TRIES = 3
"""How often room on the host is made for one demotion: bytes that became free need not lie in one piece."""


class Room(Enum):
    """What came of an attempt to make room."""

    MADE = "made"
    """Ask again at once."""
    COMING = "coming"
    """When a transfer has landed (C8)."""
    NONE = "none"


def make_room(
    state: EngineState, asker: Request, shortfall: Shortfall, right: Right, keep: frozenset[Handle] = frozenset()
) -> Room:
    """Room for required work. `keep`: points that must stay on the device (the own source)."""
    pool = shortfall.pool
    if state.is_coming(pool):
        return Room.COMING
    room = _demote(state, shortfall, right, keep)
    if room is not Room.NONE:
        return room
    if state.resources.reclaim(shortfall, right, keep):
        state.skips_demotion = False
        return Room.MADE
    if asker.phase is not Phase.QUEUED and _revoke_youngest(state, asker, pool):
        return Room.MADE
    return Room.NONE


def make_capture_room(state: EngineState, shortfall: Shortfall, record: Continuation, gain_tokens: int) -> bool:
    """A slot for an optional save, now or not at all. What can leave for the host is not deleted for it (E2, I10)."""
    keep = frozenset(record.points())
    room = Room.COMING if state.is_coming(shortfall.pool) else _demote(state, shortfall, Right.CAPTURE, keep)
    if room is not Room.NONE:
        return room is Room.MADE
    return state.resources.reclaim(shortfall, Right.CAPTURE, keep, gain_tokens)


def prepare_capture(state: EngineState, request: Request) -> None:
    """A save lies ahead and no slot is free: what can leave for the host begins to, so that one is in time (E2, J8)."""
    record = request.record
    if record is None or not state.resources.keeps_points or not state.has_host:
        return
    if request.find_capture(request.prompt_tokens) is None or state.recovering == request.ticket:
        return
    free = state.program.occupancy().free.state
    if free == 0 and record.input_point is None:
        _demote(state, Shortfall(Pool.STATE, 1, free), Right.CAPTURE, frozenset(record.points()))


def make_host_room(state: EngineState, asker: Request, shortfall: Shortfall) -> bool:
    """Room on the host for a snapshot of `asker`: optional content, then snapshots of later tickets (I9)."""
    keep = frozenset(() if asker.record is None else asker.record.points())
    if state.resources.free_host(shortfall, keep):
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


def _demote(state: EngineState, shortfall: Shortfall, right: Right, keep: frozenset[Handle]) -> Room:
    """Leave content on the host, the longest unused first; who enters moves nothing unless it closes the gap."""
    program, pool, gap = state.program, shortfall.pool, shortfall.gap
    if state.skips_demotion or program.transaction_open:
        return Room.NONE
    host_tries = _HOST_TRIES
    while gap > 0:
        actions = state.resources.list_demotions(pool, keep)
        if not actions or (right is Right.ENTRY and sum(action.frees[pool] for action in actions) < gap):
            return Room.NONE
        outcome = program.demote(actions[0], most=gap)
        if isinstance(outcome, Shortfall):
            host_tries -= 1
            if right is Right.CAPTURE or not host_tries or not state.resources.free_host(outcome, keep, actions[0]):
                return Room.NONE
            continue
        state.counters.demotions += 1
        gap -= outcome.freed[pool]
        if program.transaction_open:
            state.releasing = frozenset((pool,))
            return Room.COMING
        assert outcome.freed[pool] > 0, "I6: a demotion that frees nothing was listed"
    return Room.MADE


def _revoke_youngest(state: EngineState, asker: Request, pool: Pool) -> bool:
    """The latest ticket whose snapshot really gives something of `pool` (J3)."""
    assert pool in DEVICE_POOLS
    for request in reversed(state.list_snapshots()):
        assert request.snapshot is not None
        if request is not asker and state.program.quote_revocation(request.snapshot)[pool]:
            revoke_snapshot(state, request)
            return True
    return False
