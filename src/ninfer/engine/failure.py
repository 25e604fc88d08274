"""The ways a request ends, and what one request's error may cost: that request, nothing else (settled decision 12).

All ends go through one clean-up: sequence, record, lane and queue first, the last event after them.
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

from .pause import pause_destructively
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

    def fail(self, request: Request, error: NInferError) -> None:
        """The request cannot go on; nothing of its active state is kept."""
        self._leave(request, keeps_end=False)
        self._publish_failure(request, error)

    def contain(self, request: Request, error: Exception) -> None:
        """An exception while working for one request. Raises again if the engine as a whole can no longer be trusted.

        The request ends; a full recount then tells whether anything else was touched (SCHED-09).
        """
        if isinstance(error, DeviceFailure):
            raise error
        if isinstance(error, CapacityContractError):
            self.fail(request, error)
            return
        _log.error("request %d failed", request.ticket, exc_info=error)
        if request.phase is not Phase.ENDED:
            self.fail(request, RequestFailed(f"the request ended with an internal error ({type(error).__name__})"))
        self._state.audit()

    def pause(self, request: Request) -> None:
        """Pause destructively; an error in that ends the paused request only."""
        try:
            pause_destructively(self._state, request)
        except Exception as error:
            self.contain(request, error)

    def abandon(self, error: NInferError) -> None:
        """The engine failed or stops at once: everybody hears it; contents are not touched any more."""
        for request in list(self._state.requests.values()):
            request.phase = Phase.ENDED
            self._publish_failure(request, error)
        self._state.requests.clear()
        self._state.by_sequence.clear()

    def _leave(self, request: Request, *, keeps_end: bool) -> None:
        """Give back everything the request holds. Its saved points survive on their own."""
        state = self._state
        ticket, sequence, record = request.ticket, request.sequence, request.record
        assert not request.in_flight, "L3: a unit in flight lands first"
        if ticket in state.queue:
            state.queue.leave(ticket)
        request.sequence = request.record = request.lane = None  # first: a clean-up that fails is not repeated
        if sequence is not None:
            state.by_sequence.pop(sequence, None)
            if keeps_end and state.resources.keeps_points and record is not None:
                point = state.program.freeze_end(sequence)
                state.resources.publish_end(record, point, state.program.point_frontier(point))
            else:
                state.program.release(sequence)
                if record is not None:
                    state.resources.vacate(record)
        if ticket in state.members:
            state.members.vacate(ticket)
        if state.binding == ticket:
            state.binding = None
        if state.recovering == ticket:
            state.recovering = None
        state.requests.pop(ticket, None)
        request.enter(Phase.ENDED)
        state.queue.note_capacity()

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
        except Exception:
            _log.exception("the sink of request %d raised at its end", request.ticket)

    def _publish_failure(self, request: Request, error: NInferError) -> None:
        self._state.counters.failed += 1
        try:
            if not request.publication.has_ended:
                request.publication.fail(error)
        except Exception:
            _log.exception("the sink of request %d raised at its end", request.ticket)
