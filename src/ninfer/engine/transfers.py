"""What becomes of context transactions when they end: captures, demotions, pauses, and binds that failed (L2, L3).

Optional copies that fail are given up and counted; a restore that fails costs its request the restored part. Does not
know what asked for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from ninfer.base.outcome import Shortfall
from ninfer.ports.native import CaptureRequest, PointKind
from ninfer.ports.transactions import TransactionEnd, TransactionKind

from .failure import Endings
from .pause import lose_restore
from .request import Phase, Request
from .room import revoke_snapshot
from .state import EngineState


class Transfers:
    """Settles transactions that ended, and begins captures on the host."""

    def __init__(self, state: EngineState, endings: Endings) -> None:
        self._state = state
        self._endings = endings

    def settle(self, end: TransactionEnd) -> None:
        """One end. Whatever it freed or gave up is an event for those who wait."""
        state = self._state
        state.counters.failed_transfers += end.failed
        match end.kind:
            case TransactionKind.BIND:
                assert end.subject is not None
                self._contained(state.by_sequence[end.subject], self._settle_failed_bind)
            case TransactionKind.CAPTURE:
                assert state.capturing is not None
                self._contained(state.requests[state.capturing], lambda request: self._settle_capture(request, end))
            case TransactionKind.DEMOTION:
                state.skips_demotion |= end.failed
            case TransactionKind.PAUSE:
                self._settle_pause(end)
                return
            case _:
                assert_never(end.kind)
        state.queue.note_capacity()

    def save_on_host(self, request: Request) -> None:
        """The state stands where it should be kept, and there was no device slot: copy it to the host (E2, E3)."""
        state, record, sequence = self._state, request.record, request.sequence
        plan, request.host_save = request.host_save, None
        if plan is None or request.interrupt is not None or record is None or sequence is None:
            return
        if not state.has_host or state.program.transaction_open:
            return
        capture = CaptureRequest(plan.frontier, PointKind.INPUT_POINT)
        if isinstance(state.program.capture_on_host(sequence, capture, plan.retires), Shortfall):
            return
        state.resources.note_retired(plan)
        request.captures = (plan,)
        request.in_flight = True
        state.capturing = request.ticket
        state.counters.host_captures += 1

    def _settle_failed_bind(self, request: Request) -> None:
        lose_restore(self._state, request)
        self._interrupt_if_asked(request)

    def _settle_capture(self, request: Request, end: TransactionEnd) -> None:
        state = self._state
        (plan,) = request.captures
        state.capturing = None
        request.in_flight, request.captures = False, ()
        if end.subject is not None:
            assert request.record is not None
            is_moving = plan.frontier == request.plan.moving_marker
            state.resources.publish_captured(request.record, end.subject, plan.frontier, plan.uses, is_moving=is_moving)
            request.publication.captures += 1
            state.counters.captures += 1
        self._interrupt_if_asked(request)

    def _settle_pause(self, end: TransactionEnd) -> None:
        """Room for everybody but the one whose own release it is (J9).

        A snapshot that could not leave the device keeps the room that it was taken for: Replay instead (K2).
        """
        state = self._state
        owner = next((request for request in state.list_snapshots() if request.snapshot == end.subject), None)
        if owner is not None and end.failed:
            self._contained(owner, lambda paused: revoke_snapshot(state, paused))
        state.queue.note_capacity()
        if owner is not None and owner.phase is Phase.PAUSED:
            state.queue.note_failure(owner.ticket)

    def _interrupt_if_asked(self, request: Request) -> None:
        if request.interrupt is not None:
            self._endings.interrupt(request)

    def _contained(self, request: Request, settle: Callable[[Request], None]) -> None:
        """An error costs this request only."""
        try:
            settle(request)
        except Exception as error:
            self._endings.contain(error, request)
