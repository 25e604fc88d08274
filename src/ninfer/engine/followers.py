"""Whether a fresh request had better wait for a point that a resident is about to save (G5).

Two prompts with a common beginning that come together would compute it twice, in turns on the one prefill lane. The
second computes nothing sooner by starting: it waits until the first has passed the last position that both share and
that the first wishes to keep, then starts from what was kept there, or from what it had, if nothing was.

Only asks. The wait is optional, so it ends before it could cost anybody anything: when the leader leaves its lane or
is past the position, when as many younger requests have passed as may, and at half of the queue's time limit. Each
of these is looked for in every cycle: the wake-up needs no event (V-16).
"""

from __future__ import annotations

from dataclasses import dataclass

from ninfer.base.identity import PrefixIdentity
from ninfer.base.ids import Ticket

from .request import Phase, Request
from .state import EngineState


@dataclass(frozen=True, slots=True)
class Lead:
    """A coming point on the request's own prefix. `frontier`: how far the resident was; `saves_at`: where it saves."""

    leader: Ticket
    frontier: int
    saves_at: int


def list_leads(state: EngineState, request: Request) -> list[Lead]:
    """Coming points that the request could start from, one a resident, if it may wait for any."""
    if not state.resources.keeps_points or not _may_wait(state, request):
        return []
    leads = (_find_lead(state, leader, request) for leader in state.residents())
    return [lead for lead in leads if lead is not None]


def choose_lead(leads: list[Lead], start: int) -> Lead | None:
    """The one that saves deepest, if it is as far as the request could start now and will save deeper."""
    worth = [lead for lead in leads if lead.frontier >= start and lead.saves_at > start]
    return max(worth, key=lambda lead: lead.saves_at, default=None)


def goes_on(state: EngineState, request: Request, lead: Lead) -> bool:
    """Whether the wait may last: its leader is on the way to the place, and nobody is held up."""
    leader = state.requests.get(lead.leader)
    if leader is None or not _is_leading(state, leader) or not _may_wait(state, request):
        return False
    return max(leader.frontier, leader.replay_until) < lead.saves_at


def _may_wait(state: EngineState, request: Request) -> bool:
    patience_s = state.settings.queue_timeout_s / 2
    waited_s = state.clock.now() - request.publication.submitted_s
    return waited_s < patience_s and state.queue.count_passes(request.ticket) < state.members.lane_count


def _find_lead(state: EngineState, leader: Request, request: Request) -> Lead | None:
    """The deepest position that the leader has still to compute, for the first time, and wishes to keep."""
    if not _is_leading(state, leader):
        return None
    start = max(leader.frontier, leader.replay_until)
    wished = leader.wishes.list_frontiers(start, leader.prompt_tokens)
    if not wished:
        return None
    common = min(leader.history.match(request.ledger, request.history.digests), request.prompt_tokens)
    plan = request.plan
    for at in reversed(wished):
        shared = PrefixIdentity(leader.plan.digests.execution_identity, leader.ledger, at, leader.plan.media)
        if at <= common and shared.is_prefix_of(request.ledger, plan.digests.execution_identity, plan.media):
            return Lead(leader.ticket, leader.frontier, at)
    return None


def _is_leading(state: EngineState, leader: Request) -> bool:
    """It computes its prompt; while it recovers it saves nothing (E4)."""
    if leader.phase not in (Phase.BINDING, Phase.PREFILL) or leader.interrupt is not None:
        return False
    return leader.ticket != state.recovering
