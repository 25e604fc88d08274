"""Pause: the request gives back lane, state and KV and keeps ledger and output (K1, K2).

By Snapshot where the host has room: it goes on where it stood. Else destructively, and Replay rebuilds it. It waits by
its original ticket; what it had published stays published (K4).
"""

from __future__ import annotations

import logging

from ninfer.base.ids import Handle
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import DEVICE_POOLS
from ninfer.ports.native import NormalizeTurn

from .request import Phase, Request
from .room import make_host_room
from .state import EngineState

_log = logging.getLogger("ninfer.engine")


def prepare_pause(state: EngineState, request: Request) -> bool:
    """True: its unit has landed, no other context transaction is in the way of a snapshot (J4, L1), and its backend is
    normalised (K2). Else what must come first is under way.
    """
    if request.in_flight or (state.program.transaction_open and state.has_host):
        return False
    return not (state.has_host and _normalize(state, request))


def _normalize(state: EngineState, request: Request) -> bool:
    """Feed what a longer run has left, so that one token is left to feed at the resume (D8). False: nothing is left,
    or there is no room, and the snapshot keeps the position as it stands.
    """
    program, sequence = state.program, request.sequence
    assert sequence is not None
    if request.phase is not Phase.DECODE or program.is_normal(sequence):
        return False
    if program.reserve_normalize(sequence) is not None:
        return False
    program.submit([NormalizeTurn(sequence)], None)
    request.in_flight = True
    state.draws_in_flight += 1
    return True


def pause(state: EngineState, request: Request) -> None:
    """Take lane and contents from a resident whose unit has landed. Its saved points survive on their own (K3)."""
    assert not request.in_flight, "J4: pauses happen at commit boundaries"
    assert request.ticket != state.recovering, "J4: the holder of a full permit is not preempted"
    request.snapshot = _take_snapshot(state, request)
    if request.snapshot is None:
        give_up_sequence(state, request)
    else:
        _forget_sequence(state, request)
        state.counters.snapshots += 1
    _wait(state, request)
    request.publication.pause(by_snapshot=request.snapshot is not None)
    state.counters.pauses += 1
    how = "destructively" if request.snapshot is None else "by snapshot"
    _log.info("request %d paused %s at %d tokens", request.ticket, how, request.frontier)


def lose_restore(state: EngineState, request: Request) -> None:
    """The copies of its bind failed: it waits like a paused request and computes again what it was to find (L3)."""
    state.binding = None
    if request.in_flight:  # its first chunk had followed the copies, and came to nothing
        request.in_flight, request.captures, request.host_save = False, (), None
        state.prefill_in_flight = None
    if state.recovering == request.ticket:
        state.recovering = None
    request.distrusts_host = True
    give_up_sequence(state, request)
    _wait(state, request)
    request.publication.lose_restore()
    state.queue.note_capacity()


def give_up_sequence(state: EngineState, request: Request) -> None:
    """End the sequence without a point, and let the record go."""
    sequence = _forget_sequence(state, request)  # first: an error releases only once
    state.program.release(sequence)
    record, request.record = request.record, None
    if record is not None:
        state.resources.vacate(record)


def _forget_sequence(state: EngineState, request: Request) -> Handle:
    sequence, request.sequence, request.lane = request.sequence, None, None
    assert sequence is not None
    del state.by_sequence[sequence]
    return sequence


def _wait(state: EngineState, request: Request) -> None:
    state.members.vacate(request.ticket)
    request.replay_until = max(request.replay_until, request.frontier)
    request.enter(Phase.PAUSED)
    state.queue.pause(request.ticket)


def _take_snapshot(state: EngineState, request: Request) -> Handle | None:
    """None: nothing is computed yet, or the host has no room even after optional content has gone (K2)."""
    sequence = request.sequence
    assert sequence is not None
    if not state.has_host or state.program.transaction_open or request.frontier == 0:
        return None
    while isinstance(outcome := state.program.pause(sequence), Shortfall):
        if not make_host_room(state, request, outcome):
            return None
    state.releasing = frozenset(DEVICE_POOLS)
    return outcome
