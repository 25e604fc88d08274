"""Which residents run next: permits in order, one compact decode set, one prefill chunk (C7, J1, J7).

A resident that lacks room first has optional content given up, then the youngest younger resident paused. One that is
the youngest waits for older ones; alone it breaks the capacity contract (C10).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ninfer.base.errors import CapacityContractError
from ninfer.base.ids import Ticket
from ninfer.base.outcome import Shortfall
from ninfer.ports.native import CaptureRequest, ControlTurn, DecodeTurn, DrawTurn, PointKind, PrefillTurn
from ninfer.ports.sampling import DrawPurpose
from ninfer.resource.admission import Right
from ninfer.sched.permits import find_victim, order_of_asking

from .draws import uniform
from .failure import Endings
from .request import Phase, Request
from .room import Room, make_room, revoke_at_last
from .saves import reserve_captures
from .state import EngineState


@dataclass(slots=True)
class Granted:
    """Residents whose next unit has its permit."""

    draws: list[Request] = field(default_factory=list)
    prefill: Request | None = None


class Turns:
    """Permits for residents and the units they stand for."""

    def __init__(self, state: EngineState, endings: Endings) -> None:
        self._state = state
        self._endings = endings

    def grant_residents(self) -> Granted:
        """Ask for everybody who could run now, the full-permit holder first, then by ticket."""
        state, granted = self._state, Granted()
        members = state.members.by_ticket()
        if state.draws_in_flight == 0:
            ready = [ticket for ticket in members if self._is_ready(ticket, Phase.DECODE)]
        else:
            ready = []  # lanes that decode stay together: the next set starts when this one has landed
        turns = self._list_prefill_turns()
        for ticket in order_of_asking([*ready, *turns[:1]], state.recovering):
            request = state.requests.get(ticket)
            if request is None or ticket not in state.members or not self._is_granted(request):
                continue
            if request.phase is Phase.DECODE:
                granted.draws.append(request)
            else:
                granted.prefill = request
        for ticket in turns[1:]:
            if granted.prefill is not None:
                break
            if ticket in state.members and self._is_granted(state.requests[ticket]):
                granted.prefill = state.requests[ticket]
        _drop_paused(granted)
        return granted

    def grant_newcomer(self, granted: Granted) -> None:
        """A request whose bind has landed meanwhile may use the prefill turn; its permit came with the bind (J8)."""
        _drop_paused(granted)
        if granted.prefill is not None:
            return
        for ticket in self._list_prefill_turns():
            if ticket in self._state.members and self._is_granted(self._state.requests[ticket]):
                granted.prefill = self._state.requests[ticket]
                break
        granted.prefill = granted.prefill or self._find_early()
        _drop_paused(granted)

    def _find_early(self) -> Request | None:
        """Its restore is under way, and its first chunk may start on what is there (decision 2). Not while somebody
        decodes: the device runs units in order, and one that waits would hold up the next step."""
        state = self._state
        if state.binding is None or state.prefill_in_flight is not None:
            return None
        request = state.requests[state.binding]
        if request.in_flight or request.interrupt is not None or request.is_prefilled or request.sequence is None:
            return None
        if not state.program.may_start(request.sequence):
            return None
        if any(resident.phase is Phase.DECODE for resident in state.residents()):
            return None
        return request if self._reserve(request) is None else None

    def submit_draws(self, granted: Granted) -> bool:
        """Start the compact set of draws. True: something runs."""
        state = self._state
        draws = self._prepare_draws(granted.draws)
        drawing = [state.by_sequence[turn.sequence] for turn in draws]
        if not draws or not self._submit(draws, None, drawing):
            return bool(draws)
        state.draws_in_flight += len(draws)
        return True

    def submit_prefill(self, granted: Granted) -> bool:
        """Start the one chunk of prefill or replay. True: something runs."""
        state, request = self._state, granted.prefill
        prefill = None if request is None else self._prepare_prefill(request)
        if request is None or prefill is None or not self._submit([], prefill, [request]):
            return prefill is not None
        state.prefill_in_flight = request.ticket
        state.prefill_started_s = state.clock.now() if request.phase is Phase.PREFILL else None
        state.rotation.note_turn(request.ticket)
        return True

    def _submit(self, draws: list[DecodeTurn], prefill: PrefillTurn | None, owners: list[Request]) -> bool:
        """Hand units to the device. False: an error, and nobody can say how far it came: it costs all of `owners`."""
        try:
            state = self._state
            launched = state.program.submit(draws, prefill, runs_ahead=state.settings.runs_ahead)
            state.counters.launches_ahead += launched
        except Exception as error:
            self._endings.contain(error, *owners)
            return False
        for request in owners:
            request.in_flight = True
        return True

    def _list_prefill_turns(self) -> list[Ticket]:
        state = self._state
        if state.prefill_in_flight is not None:
            return []
        ready = [ticket for ticket in state.members.by_ticket() if self._is_ready(ticket, Phase.PREFILL)]
        return state.rotation.list_turns(ready, state.recovering)

    def _is_ready(self, ticket: Ticket, phase: Phase) -> bool:
        request = self._state.requests[ticket]
        return request.phase is phase and not request.in_flight

    def _is_granted(self, request: Request) -> bool:
        """Permit for the next unit, with reclaim and preemption. An error costs this request only."""
        counters = self._state.counters
        try:
            is_granted = self._grant(request)
            counters.permits_granted += is_granted
            counters.permits_lacking += not is_granted
            return is_granted
        except Exception as error:
            self._endings.contain(error, request)
            return False

    def _grant(self, request: Request) -> bool:
        state = self._state
        while True:
            shortfall = self._reserve(request)
            if shortfall is None:
                return True
            room = make_room(state, request, shortfall, Right.NECESSARY)
            if room is Room.MADE:
                continue
            if room is Room.COMING:
                return False
            residents = state.members.by_ticket()
            victim = find_victim(request.ticket, residents, state.protected())
            if victim is None:
                if len(residents) == 1 and not state.has_work_in_flight:
                    if revoke_at_last(state, request):
                        continue
                    raise _broken_contract(request, shortfall)
                return False
            if not self._endings.prepare_pause(state.requests[victim]):
                return False
            self._endings.pause(state.requests[victim])

    def _reserve(self, request: Request) -> Shortfall | None:
        assert request.sequence is not None
        if request.phase is Phase.DECODE and request.next_said is not None:
            return self._state.program.reserve_control(request.sequence)
        if request.phase is Phase.DECODE:
            return self._state.program.reserve_decode(request.sequence) if request.has_unfed_token else None
        request.chunk_end = self._choose_chunk_end(request)
        return self._state.program.reserve_prefill(request.sequence, request.chunk_end - request.frontier)

    def _choose_chunk_end(self, request: Request) -> int:
        """A chunk is replay or new work, never both, and no longer than those who decode may wait."""
        state, rebuilding = self._state, request.frontier < request.replay_until
        limit = request.replay_until if rebuilding else request.rebuild_end
        return state.chunks.find_end(request.frontier, limit, state.gap_left_s())

    def _prepare_draws(self, requests: list[Request]) -> list[DecodeTurn]:
        """The turns of all who draw or say something. An error while making one costs its request only."""
        turns: list[DecodeTurn] = []
        for request in requests:
            try:
                turns.append(self._make_draw_turn(request))
            except Exception as error:
                self._endings.contain(error, request)
        return turns

    def _make_draw_turn(self, request: Request) -> DecodeTurn:
        params = request.params
        assert request.sequence is not None
        if request.next_said is not None:
            return ControlTurn(request.sequence, request.next_said)
        return DrawTurn(
            request.sequence,
            request.has_unfed_token,
            params,
            uniform(params.seed, len(request.ledger), DrawPurpose.TOKEN) if not params.is_greedy else 0.0,
            request.output_view() if params.counts_output else None,
            request.watch.mask,
            request.logprobs,
        )

    def _prepare_prefill(self, request: Request) -> PrefillTurn | None:
        """The chunk with its saves. An error while preparing them costs this request only."""
        assert request.sequence is not None
        end = request.chunk_end
        replay = request.frontier < request.replay_until
        try:
            request.captures = () if replay else reserve_captures(self._state, request, end)
        except Exception as error:
            self._endings.contain(error, request)
            return None
        captures = tuple(CaptureRequest(plan.frontier, PointKind.INPUT_POINT) for plan in request.captures)
        return PrefillTurn(request.sequence, end - request.frontier, captures, replay)


def _drop_paused(granted: Granted) -> None:
    """Some who had their permit may have been paused, or prepared for it, for an older one that asked later."""
    granted.draws = [request for request in granted.draws if request.phase is Phase.DECODE and not request.in_flight]
    if granted.prefill is not None and granted.prefill.phase not in (Phase.PREFILL, Phase.BINDING):
        granted.prefill = None


def _broken_contract(request: Request, shortfall: Shortfall) -> CapacityContractError:
    return CapacityContractError(
        f"request {request.ticket} cannot go on although it is alone: its next unit needs {shortfall.need} of "
        f"{shortfall.pool.value}, {shortfall.free} can be free"
    )
