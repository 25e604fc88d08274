"""Destructive pause: the request gives back lane, state and KV and keeps ledger and output (K1, K2).

It waits by its original ticket and is rebuilt by Replay; what it had published stays published (K4).
"""

from __future__ import annotations

import logging

from .request import Phase, Request
from .state import EngineState

_log = logging.getLogger("ninfer.engine")


def pause_destructively(state: EngineState, request: Request) -> None:
    """Take lane and contents from a resident whose unit has landed. Its saved points survive on their own (K3)."""
    assert not request.in_flight, "J4: pauses happen at commit boundaries"
    assert request.sequence is not None
    assert request.ticket != state.recovering, "J4: the holder of a full permit is not preempted"
    sequence, request.sequence, request.lane = request.sequence, None, None  # first: an error releases only once
    del state.by_sequence[sequence]
    state.program.release(sequence)
    if request.record is not None:
        state.resources.vacate(request.record)
        request.record = None
    state.members.vacate(request.ticket)
    request.replay_until = max(request.replay_until, request.frontier)
    request.enter(Phase.PAUSED)
    state.queue.pause(request.ticket)
    request.publication.pause()
    state.counters.pauses += 1
    _log.info("request %d paused at %d tokens", request.ticket, request.frontier)
