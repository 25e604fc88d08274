"""The ways a request ends, and what one request's error may cost: that request, nothing else (settled decision 12).

All ends go through one clean-up: queue, lane, sequence and record first, the last event after them. Where that or any
other hand-over between Program and ResourceManager was cut short by an error, the three are brought to agree again.
"""

from __future__ import annotations

import logging

from ninfer.base.errors import (
    CapacityContractError,
    DeviceFailure,
    NInferError,
    QueueTimeout,
    RequestFailed,
    RequestTimeout,
)
from ninfer.ports.output import FinishReason

from .errorlog import log_error
from .pause import pause, prepare_pause
from .request import Interrupt, Phase, Request
from .state import EngineState
from .stops import Verdict

_log = logging.getLogger("ninfer.engine")


class Endings:
    """Ends requests. Never called for one whose unit is in flight, except when the engine fails as a whole."""

    def __init__(self, state: EngineState) -> None:
        self._state = state

    def finish(self, request: Request, verdict: Verdict) -> None:
        """A stop rule ended the output."""
        assert verdict.reason is not None
        self._leave(request, keeps_end=True)
        self._state.counters.finished += 1
        self._publish_end(request, verdict.reason, verdict)

    def interrupt(self, request: Request) -> None:
        """Cancel or timeout. After the prefill the state is legal and stays as an endpoint (F4)."""
        assert request.interrupt is not None
        self._flush(request)
        self._leave(request, keeps_end=request.phase is Phase.DECODE)
        settings = self._state.settings
        match request.interrupt:
            case Interrupt.CANCEL:
                self._state.counters.cancelled += 1
                self._publish_end(request, FinishReason.CANCELLED, None)
            case Interrupt.QUEUE_TIMEOUT:
                limit = f"{settings.queue_timeout_s:g} s"
                self._publish_failure(request, QueueTimeout(f"the request waited longer than {limit} for a lane"))
            case Interrupt.REQUEST_TIMEOUT:
                limit = f"{settings.request_timeout_s:g} s"
                self._publish_failure(request, RequestTimeout(f"the request took longer than {limit}"))

    def contain(self, error: Exception, *requests: Request) -> None:
        """An exception while working for these requests. Raises again if the engine can no longer be trusted.

        They end. What the error cut short is cleared away, and a full recount tells whether that was all (SCHED-09).
        """
        if isinstance(error, DeviceFailure):
            for request in requests:  # an end that was under way is in no book any more; `abandon` answers it
                self._state.requests.setdefault(request.ticket, request)
            raise error
        answer: NInferError = RequestFailed(f"the request ended with an internal error ({type(error).__name__})")
        if isinstance(error, CapacityContractError):
            answer = error
        else:
            log_error(_log, logging.ERROR, f"requests {[request.ticket for request in requests]} failed", error)
        for request in requests:
            if request.phase is not Phase.ENDED:
                self._leave_anyhow(request)
            self._publish_failure(request, answer)
        if answer is not error:
            self._state.reconcile()
            self._state.audit()

    def prepare_pause(self, request: Request) -> bool:
        """Whether it may be paused now; else what must come first is under way, or has ended it by an error."""
        try:
            return prepare_pause(self._state, request)
        except Exception as error:
            self.contain(error, request)
            return False

    def pause(self, request: Request) -> None:
        """Pause; an error in that ends the paused request only."""
        try:
            pause(self._state, request)
        except Exception as error:
            self.contain(error, request)

    def abandon(self, error: NInferError) -> None:
        """The engine failed or stops at once: everybody hears it; contents are not touched any more."""
        for request in list(self._state.requests.values()):
            request.phase = Phase.ENDED
            self._publish_failure(request, error)
        self._state.requests.clear()
        self._state.reported.clear()
        self._state.by_sequence.clear()

    def _leave_anyhow(self, request: Request) -> None:
        """Leave after an error; a second one is only noted, since what it leaves behind is cleared away as well."""
        try:
            self._leave(request, keeps_end=False)
        except Exception as error:
            log_error(_log, logging.ERROR, f"the clean-up of request {request.ticket} failed", error)

    def _leave(self, request: Request, *, keeps_end: bool) -> None:
        """Give back everything the request holds. Its saved points survive on their own.

        What cannot fail comes first, so that an error leaves nothing but contents, which `EngineState.reconcile` finds.
        """
        state = self._state
        ticket, sequence, record = request.ticket, request.sequence, request.record
        assert not request.in_flight, "L3: a unit in flight lands first"
        if ticket in state.queue:
            state.queue.leave(ticket)
        snapshot, request.snapshot = request.snapshot, None
        request.sequence = request.record = request.lane = None
        if sequence is not None:
            state.by_sequence.pop(sequence, None)
        if ticket in state.members:
            state.members.vacate(ticket)
        if state.binding == ticket:
            state.binding = None
        if state.recovering == ticket:
            state.recovering = None
        state.requests.pop(ticket, None)
        request.enter(Phase.ENDED)
        state.resources.close(ticket)
        state.queue.note_capacity()
        if sequence is not None and keeps_end and state.resources.keeps_points and record is not None:
            point = state.program.freeze_end(sequence)
            state.resources.publish_end(record, point, state.program.point_frontier(point))
            return
        if sequence is not None:
            state.program.release(sequence)
        if snapshot is not None:
            state.program.revoke_snapshot(snapshot)
        if record is not None:
            state.resources.vacate(record)

    def _flush(self, request: Request) -> None:
        """Text that was held back is decided now."""
        if request.publication.has_started:
            rest = request.watch.close()
            if rest.text or rest.tokens:
                request.publication.delta(rest.text, rest.tokens)

    def _publish_end(self, request: Request, reason: FinishReason, verdict: Verdict | None) -> None:
        try:
            if verdict is None:
                request.publication.finish(reason)
            else:
                request.publication.finish(reason, verdict.stop_string, verdict.stop_token)
        except Exception as error:
            self._note_deaf(request, error)

    def _publish_failure(self, request: Request, error: NInferError) -> None:
        if request.publication.has_ended:
            return
        self._state.counters.failed += 1
        try:
            request.publication.fail(error)
        except Exception as raised:
            self._note_deaf(request, raised)

    def _note_deaf(self, request: Request, error: Exception) -> None:
        log_error(_log, logging.ERROR, f"the sink of request {request.ticket} raised at its end", error)
