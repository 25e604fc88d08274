"""What happened since the last look: completions, then cancels and timeouts, each for one request.

Knows what each completion means for a request's phase. Does not choose what runs next. A completion may come any
number of polls late; a request with a unit in flight is ended only when that has landed (L3).
"""

from __future__ import annotations

import heapq
from typing import assert_never

from ninfer.base.ids import Ticket
from ninfer.ports.device import RunResult
from ninfer.ports.native import BindDone, NormalizeDone, PrefillDone, RunDone

from .failure import Endings
from .request import Interrupt, Phase, Request
from .room import prepare_capture
from .state import EngineState
from .transfers import Transfers


class Settlement:
    """Turns Program's progress into phases, output and ends."""

    def __init__(self, state: EngineState, endings: Endings) -> None:
        self._state = state
        self._endings = endings
        self._transfers = Transfers(state, endings)
        self._deadlines: list[tuple[float, Ticket, Interrupt]] = []

    def arrive(self, request: Request) -> None:
        """Watch the deadlines of a new request."""
        settings, start = self._state.settings, request.publication.submitted_s
        heapq.heappush(self._deadlines, (start + settings.queue_timeout_s, request.ticket, Interrupt.QUEUE_TIMEOUT))
        heapq.heappush(self._deadlines, (start + settings.request_timeout_s, request.ticket, Interrupt.REQUEST_TIMEOUT))

    @property
    def next_deadline_s(self) -> float | None:
        """When somebody may have to be interrupted, at the earliest."""
        return self._deadlines[0][0] if self._deadlines else None

    def poll(self) -> bool:
        """Settle every completion there is. True: something happened."""
        state = self._state
        leaving = state.program.count_leaving() + state.program.count_transfers()
        state.reported.extend(state.program.poll())
        state.ended.extend(state.program.collect_ends())
        moved = bool(state.reported or state.ended)
        if state.program.count_leaving() + state.program.count_transfers() < leaving:
            state.queue.note_capacity()  # what was under way for somebody who left has landed as well
            moved = True
        while state.ended:
            self._transfers.settle(state.ended.popleft())
        if state.settings.runs_ahead:
            drawn = [progress.sequence for progress in state.reported if isinstance(progress, RunDone)]
            state.counters.launches_ahead += state.program.run_ahead(drawn)
        while state.reported:
            progress = state.reported.popleft()
            request = state.by_sequence[progress.sequence]
            try:
                match progress:
                    case RunDone():
                        self._settle_run(request, progress.run)
                    case PrefillDone():
                        self._settle_prefill(request, progress)
                    case BindDone():
                        self._settle_bind(request)
                    case NormalizeDone():
                        self._settle_normalize(request, progress)
                    case _:
                        assert_never(progress)
                if request.interrupt is not None and request.phase is not Phase.ENDED and not request.in_flight:
                    self._endings.interrupt(request)
            except Exception as error:
                self._endings.contain(error, request)
        if moved:
            state.last_progress_s = state.clock.now()
        return moved

    def interrupt(self, ticket: Ticket, why: Interrupt) -> bool:
        """End a request now, or as soon as its unit in flight has landed. True: it ended."""
        request = self._state.requests.get(ticket)
        if request is None:
            return False
        request.interrupt = request.interrupt or why
        if request.in_flight or request.phase is Phase.BINDING:
            return False
        try:
            self._endings.interrupt(request)
        except Exception as error:
            self._endings.contain(error, request)
        return True

    def expire(self) -> bool:
        """Interrupt what is overdue. A request that once had a lane has no queue deadline any more (N2)."""
        now, ended = self._state.clock.now(), False
        while self._deadlines and self._deadlines[0][0] <= now:
            _, ticket, why = heapq.heappop(self._deadlines)
            request = self._state.requests.get(ticket)
            if request is None or (why is Interrupt.QUEUE_TIMEOUT and request.phase is not Phase.QUEUED):
                continue
            ended |= self.interrupt(ticket, why)
        if not self._state.requests:
            self._deadlines.clear()
        return ended

    def _settle_bind(self, request: Request) -> None:
        state = self._state
        assert state.binding == request.ticket, "V-07: one context transaction at a time"
        state.binding = None
        request.enter(Phase.DECODE if request.is_prefilled else Phase.PREFILL)
        if state.binding_releases:
            state.queue.note_capacity()
        prepare_capture(state, request)

    def _settle_prefill(self, request: Request, done: PrefillDone) -> None:
        state, publication = self._state, request.publication
        request.in_flight = False
        state.prefill_in_flight = None
        computed = done.frontier - request.frontier
        assert computed > 0, "a prefill turn moves the frontier"
        if state.prefill_started_s is not None:
            state.chunks.note_chunk(request.frontier, computed, state.clock.now() - state.prefill_started_s)
        plans, request.captures = {plan.frontier: plan for plan in request.captures}, ()
        for frontier, point in done.captured:
            assert request.record is not None
            is_moving = frontier == request.plan.moving_marker
            uses = plans[frontier].uses
            state.resources.publish_captured(request.record, point, frontier, uses, is_moving=is_moving)
            publication.captures += 1
            state.counters.captures += 1
        if request.frontier < request.replay_until:
            publication.replayed_tokens += computed
            state.counters.replayed_tokens += computed
        else:
            publication.computed_tokens += computed
            state.counters.prefill_tokens += computed
            self._note_new_progress(request)
            state.resources.note_prefill(
                request.history, request.ticket, request.wishes, request.frontier, done.frontier
            )
        request.frontier = done.frontier
        publication.progress(min(done.frontier, request.prompt_tokens))
        if request.is_prefilled:
            request.enter(Phase.DECODE)
        self._note_fed(request)
        self._transfers.save_on_host(request)

    def _settle_run(self, request: Request, run: RunResult) -> None:
        state, publication = self._state, request.publication
        request.in_flight = False
        state.draws_in_flight -= 1
        control = request.control
        run = run if control is None else control.read(run, request.logprobs)
        verdict = request.watch.preview(run)
        assert request.sequence is not None
        if request.has_unfed_token:  # everything committed before this run has been fed for it
            request.frontier = len(request.ledger)
            self._note_fed(request)
        state.program.commit_run(request.sequence, verdict.accepted)
        if control is not None:
            control.note(run.token_ids[: verdict.accepted])
        publication.draw(verdict.accepted)
        state.counters.output_tokens += verdict.accepted
        self._note_new_progress(request)
        if verdict.text or verdict.tokens:
            publication.delta(verdict.text, verdict.tokens)
        if verdict.reason is not None:
            self._endings.finish(request, verdict)

    def _settle_normalize(self, request: Request, done: NormalizeDone) -> None:
        """Ready for the snapshot that it was asked for, or for the next draw, should nobody need its room any more."""
        request.in_flight = False
        self._state.draws_in_flight -= 1
        request.frontier = done.frontier
        self._note_fed(request)

    def _note_fed(self, request: Request) -> None:
        """A unit that fed has landed. What the first one read may be given up from now on; an ordinary one releases
        nothing, not even with what it saved, for that took what was free (J2)."""
        if request.reads_source:
            request.reads_source = False
            self._state.queue.note_capacity()

    def _note_new_progress(self, request: Request) -> None:
        """Real new work ends a recovery (C9, J6)."""
        if self._state.recovering == request.ticket:
            self._state.recovering = None
            self._state.queue.note_capacity()
