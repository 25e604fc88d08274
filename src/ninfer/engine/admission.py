"""From waiting to bound: fresh admission and the resume of paused requests (G1-G5, C9, J1, J5).

Carries facts between the queue, the resource manager and Program; each of them decides its own part. Fresh admission
never preempts; the oldest paused request may, when no resident is older.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from ninfer.base.errors import CapacityContractError
from ninfer.base.ids import Handle, Ticket
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import DEVICE_POOLS
from ninfer.ports.native import Bound
from ninfer.ports.output import RestorePath
from ninfer.resource.admission import Claim, Right
from ninfer.resource.sources import Source, SourceAsk
from ninfer.sched.permits import find_victim, may_preempt

from .failure import Endings
from .followers import Lead, choose_lead, goes_on, list_leads
from .request import Phase, Request
from .room import Pace, Room, make_room, revoke_at_last, revoke_snapshot, write_back
from .state import EngineState


class Outcome(Enum):
    """What came of one attempt."""

    BOUND = "bound"
    WAITS = "waits"
    """Until a new capacity event."""
    SOON = "soon"
    """Until a unit or a transfer in flight has landed, or it may plan on."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The last source asked and what it lacked."""

    source: Source
    shortfall: Shortfall
    is_coming: bool = False
    """A transfer under way will help (C8), or room is made later (`Pace`)."""


class Admission:
    """Starts and resumes requests. At most one bind is under way (V-07)."""

    def __init__(self, state: EngineState, endings: Endings) -> None:
        self._state = state
        self._endings = endings
        self._leads: dict[Ticket, Lead] = {}
        """What waiting requests follow."""
        self._pace = Pace()

    def resume_paused(self) -> bool:
        """Try the oldest paused request with its full permit. True: something changed."""
        state = self._state
        if state.program.transaction_open or state.binding is not None or state.recovering is not None:
            return False
        ticket = state.queue.find_paused()
        return ticket is not None and self._try(state.requests[ticket]) is Outcome.BOUND

    def admit_fresh(self, pace: Pace) -> bool:
        """Try the next of the scan. True: something changed, ask again after settling."""
        state, self._pace = self._state, pace
        self._wake()
        if state.program.transaction_open or state.binding is not None:
            return False
        if not state.members.has_free_lane:
            self._choose_ahead()
            return False
        while (ticket := state.queue.find_fresh()) is not None:
            outcome = self._try(state.requests[ticket])
            if outcome is not Outcome.WAITS:
                return outcome is Outcome.BOUND
        return False

    def _wake(self) -> None:
        """Waiting requests that lost what they kept, or whose leader has nothing more for them, are asked again."""
        state = self._state
        for ticket in state.resources.take_revoked():
            state.counters.keeps_revoked += 1
            state.requests[ticket].has_chosen = False
            self._leads.pop(ticket, None)
            state.queue.ask_again(ticket)
        for ticket, lead in list(self._leads.items()):
            request = state.requests.get(ticket)
            if request is not None and request.phase is Phase.QUEUED and goes_on(state, request, lead):
                continue
            del self._leads[ticket]
            if ticket in state.queue:
                state.queue.ask_again(ticket)

    def _choose_ahead(self) -> None:
        """Without a lane a request may still keep the source it would start from, so that it is there then (J2)."""
        state = self._state
        for ticket in state.queue.list_scanned():
            request = state.requests[ticket]
            if request.has_chosen:
                continue
            request.has_chosen = True
            try:
                self._keep(request, self._list_sources(request)[0])
            except Exception as error:
                self._endings.contain(error, request)

    def _keep(self, request: Request, source: Source) -> None:
        """The request goes on waiting, for this source (G5)."""
        if source.quote.checkpoint is not None and request.ticket not in self._state.resources.list_waiting():
            self._state.counters.sources_kept += 1
        self._state.resources.keep_source(request.ticket, source)

    def _try(self, request: Request) -> Outcome:
        """One attempt, contained. BOUND: the request left the queue, bound or failed."""
        try:
            outcome = self._attempt(request)
        except Exception as error:
            self._endings.contain(error, request)
            return Outcome.BOUND
        if outcome is Outcome.WAITS:
            self._state.queue.note_failure(request.ticket)
        return outcome

    def _attempt(self, request: Request) -> Outcome:
        """Bind from the best source that fits, with reclaim, and with preemption where it is due."""
        is_fresh = request.phase is Phase.QUEUED
        if is_fresh and self._follows(request):
            return Outcome.WAITS
        while True:
            missing = self._bind_with_reclaim(request) if self._state.members.has_free_lane else None
            if request.phase is Phase.BINDING:
                return Outcome.BOUND
            if is_fresh and missing is not None:
                self._keep(request, missing.source)
            if missing is not None and missing.is_coming:
                return Outcome.SOON
            victim = self._find_victim(request)
            if victim is None:
                alone = len(self._state.members) == 0 and not self._state.has_work_in_flight
                return self._bind_anyhow(request) if alone and missing is not None else Outcome.WAITS
            if not self._endings.prepare_pause(victim):
                return Outcome.SOON
            self._endings.pause(victim)
            if self._state.program.transaction_open:
                return Outcome.SOON

    def _follows(self, request: Request) -> bool:
        """Whether it waits for a point that a resident is about to save; what it could start from stays kept (G5)."""
        if request.ticket in self._leads:  # looked at in this cycle
            return True
        leads = list_leads(self._state, request)
        if not leads:
            return False
        best = self._list_sources(request)[0]
        lead = choose_lead(leads, best.quote.frontier)
        if lead is None:
            return False
        self._leads[request.ticket] = lead
        self._state.counters.leads_followed += 1
        self._keep(request, best)
        return True

    def _bind_with_reclaim(self, request: Request) -> Missing | None:
        """Bind from the best source, giving up optional points but never the source itself (I8).

        One that needs more beside itself than there is will never do: the next best is taken (G5).
        """
        oversized: set[Handle | None] = set()
        while True:
            sources = self._list_sources(request)
            source = next(source for source in sources if source.quote.checkpoint not in oversized)
            right = Right.ENTRY if request.phase is Phase.QUEUED else Right.RESUME
            missing = self._bind_or_reclaim(request, source, right)
            if request.phase is Phase.BINDING:
                return missing
            if missing is not None and not missing.is_coming and self._exceeds(source):
                oversized.add(source.quote.checkpoint)
            elif missing is not None:
                return missing

    def _bind_anyhow(self, request: Request) -> Outcome:
        """Nobody will release anything: any source that fits will do, root last; none is a broken contract (C10)."""
        missing: Missing | None = None
        tried: set[Handle | None] = set()
        while True:
            sources = self._list_sources(request)
            source = next((source for source in sources if source.quote.checkpoint not in tried), None)
            if source is None and revoke_at_last(self._state, request):
                tried.clear()
                continue
            if source is None and request.snapshot is not None:  # nobody else will release anything (L4)
                revoke_snapshot(self._state, request)
                continue
            if source is None:
                assert missing is not None
                raise _broken_contract(request, missing)
            missing = self._bind_or_reclaim(request, source, Right.NECESSARY)
            if request.phase is Phase.BINDING:
                return Outcome.BOUND
            if missing is not None and missing.is_coming:
                return Outcome.SOON
            if missing is not None:
                tried.add(source.quote.checkpoint)

    def _bind_or_reclaim(self, request: Request, source: Source, right: Right) -> Missing | None:
        """One attempt. None: it is bound, or room was made and everything must be quoted again (V-14)."""
        missing = self._bind(request, source)
        if missing is None:
            return None
        pace = self._pace if right is Right.ENTRY else None
        if pace is not None and not pace.ask():
            return replace(missing, is_coming=True)
        room = Room.NONE
        if self._can_make_room(request, source, right):
            room = make_room(self._state, request, missing.shortfall, right, _keep(source), pace)
        if room is Room.MADE:
            return None
        if room is Room.COMING:
            return replace(missing, is_coming=True)
        if request.snapshot is not None:
            return missing
        for frugal in self._state.resources.list_frugal(self._make_ask(request), source, right):
            still = self._bind_frugally(request, frugal, missing)
            if still is None or still.is_coming:
                return still
        return missing

    def _exceeds(self, source: Source) -> bool:
        """Whether what the source holds on the device and what the bind takes are more than the pools have."""
        point, program = source.quote.checkpoint, self._state.program
        if point is None or source.takes_record or source.quote.takes_over:  # what lies beside it can still end
            return False
        (held,) = program.list_footprints([[point]])
        capacity = program.occupancy().capacity
        return any(held[pool] + source.quote.need[pool] > capacity[pool] for pool in DEVICE_POOLS)

    def _can_make_room(self, request: Request, source: Source, right: Right) -> bool:
        """Every pool that the quote lacks, before anything is given up for one of them (I8)."""
        state, claim = self._state, Claim(right, _keep(source), request.ticket)
        free = state.program.occupancy().free
        for pool, need in source.quote.need.items():
            gap = Shortfall(pool, need, free[pool])
            if gap.gap > 0 and claim.rule.needs_whole_gap and not state.is_coming(pool):
                plan = state.resources.plan_room(gap, claim, may_copy=not state.skips_demotion)
                if plan is None:
                    return False
        return True

    def _bind_frugally(self, request: Request, frugal: Source, missing: Missing) -> Missing | None:
        """The state of the input point passes on; its copy stays on the host where there is room for it (F3)."""
        point = frugal.quote.checkpoint
        assert point is not None
        if point not in frugal.quote.carried and write_back(self._state, point):
            return replace(missing, is_coming=True)
        return self._bind(request, frugal)

    def _list_sources(self, request: Request) -> list[Source]:
        """Ways to start, best first. An own snapshot is honoured first and alone (G5)."""
        ask = self._make_ask(request)
        if request.snapshot is not None:
            at = self._state.program.point_frontier(request.snapshot)
            quote = self._state.program.quote_source(
                ask.prompt, request.snapshot, takes_over=True, first_unit_tokens=ask.first_unit_end(at) - at
            )
            assert quote is not None, "K1: a snapshot does not serve its own request"
            return [Source(quote, request.record, 0.0, takes_record=request.record is not None)]
        sources = self._state.resources.list_sources(ask)
        if request.distrusts_host:
            return [source for source in sources if not source.quote.restored_bytes]
        return sources

    def _bind(self, request: Request, source: Source) -> Missing | None:
        """Take lane, state and first permit together, or change nothing."""
        state = self._state
        own_resume = request.phase is Phase.PAUSED
        path = _path(source)
        bound = state.program.bind(source.quote, request.make_prompt(), state.members.peek_lane())
        if isinstance(bound, Shortfall):
            return Missing(source, bound)
        loss = None if own_resume else state.resources.explain(request.history, request.prompt_tokens, source)
        self._seat(request, source, bound, own_resume=own_resume)
        request.publication.restored_bytes += source.quote.restored_bytes
        if loss is None:
            request.publication.resume()
        else:
            state.counters.cached_tokens += bound.frontier
            request.publication.start(bound.frontier, path, loss)
        return None

    def _seat(self, request: Request, source: Source, bound: Bound, *, own_resume: bool) -> None:
        """The request owns its sequence before anything else can go wrong; from then on its end gives all back."""
        state = self._state
        request.sequence = bound.sequence
        request.frontier = bound.frontier
        request.reads_source = source.quote.checkpoint is not None
        state.binding_releases = request.reads_source or request.ticket in state.resources.list_waiting()
        snapshot, request.snapshot = request.snapshot, None
        state.by_sequence[bound.sequence] = request
        state.binding = request.ticket
        state.releasing, state.skips_demotion = frozenset(), False
        if own_resume:
            state.recovering = request.ticket
        state.queue.start(request.ticket)
        request.lane = state.members.seat(request.ticket)
        request.enter(Phase.BINDING)
        if snapshot is not None:  # no record ever owned it
            bound = replace(bound, consumed=tuple(point for point in bound.consumed if point != snapshot))
            state.counters.snapshots_resumed += 1
        request.record = state.resources.adopt(
            source,
            bound,
            request.history,
            request.ticket,
            own_resume=own_resume,
            session=request.plan.session,
            wishes=request.wishes,
        )

    def _make_ask(self, request: Request) -> SourceAsk:
        """Fresh: from at most the prompt's end, first chunk permitted. Paused: the whole rebuild and one new unit."""
        state, prompt_tokens = self._state, request.prompt_tokens
        prompt, digests, session = request.make_prompt(), request.history.digests, request.plan.session
        if request.phase is Phase.QUEUED:
            limit, cover = prompt_tokens, lambda at: state.chunk_end(at, prompt_tokens)
        else:
            limit = request.replay_until
            whole = max(len(request.ledger), state.chunk_end(limit, prompt_tokens))
            cover = lambda _: whole  # noqa: E731
        return SourceAsk(prompt, digests, limit, cover, session, request.ticket, request.order)

    def _find_victim(self, request: Request) -> Request | None:
        """The youngest resident, if the oldest paused request may take its place (J5)."""
        state = self._state
        if request.phase is not Phase.PAUSED or not may_preempt(request.ticket, state.members.by_ticket()):
            return None
        victim = find_victim(request.ticket, state.members.by_ticket(), state.protected())
        return None if victim is None else state.requests[victim]


def _keep(source: Source) -> frozenset[Handle]:
    point = source.quote.checkpoint
    return frozenset() if point is None else frozenset((point,))


def _path(source: Source) -> RestorePath:
    point, record = source.quote.checkpoint, source.record
    if point is None:
        return RestorePath.ROOT
    if source.entry is not None:
        return RestorePath.SHARED
    if record is None or point == record.input_point:  # without a record: kept for this request alone
        return RestorePath.INPUT_POINT
    return RestorePath.END if point == record.end else RestorePath.ANCHOR


def _broken_contract(request: Request, missing: Missing) -> CapacityContractError:
    shortfall = missing.shortfall
    return CapacityContractError(
        f"request {request.ticket} cannot run although it is alone: it needs {shortfall.need} of "
        f"{shortfall.pool.value}, {shortfall.free} can be free"
    )
