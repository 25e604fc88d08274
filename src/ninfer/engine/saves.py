"""Saves that a prefill chunk crosses: each tries a device slot, the one at the chunk's end else the host (E1-E4).

Optional work: without room or right it is skipped and nothing waits for it. While a full permit is in force nothing is
saved at all.
"""

from __future__ import annotations

from dataclasses import replace

from ninfer.ports.native import CaptureRequest, PointKind
from ninfer.resource.admission import Right
from ninfer.resource.manager import CapturePlan

from .request import Request
from .room import make_capture_room
from .state import EngineState


def reserve_captures(state: EngineState, request: Request, chunk_end: int) -> tuple[CapturePlan, ...]:
    """Destinations for what is worth keeping in (frontier, chunk_end], the deepest first: it serves most."""
    record = request.record
    if record is None or not state.resources.keeps_points or state.recovering == request.ticket:
        return ()
    plans: list[CapturePlan] = []
    for frontier in reversed(request.wishes.list_frontiers(request.frontier, chunk_end)):
        plan = state.resources.plan_capture(record, request.wishes, frontier)
        if plan is None:
            continue
        if _reserve(state, request, plan):
            plans.append(plan)
        elif frontier == chunk_end:
            request.host_save = plan
    return tuple(reversed(plans))


def _reserve(state: EngineState, request: Request, plan: CapturePlan) -> bool:
    """A free slot, one that nothing is lost with, that of the outdated point, one that the save has a right to (D6)."""
    assert request.sequence is not None
    if state.making_room:
        return False
    capture = CaptureRequest(plan.frontier, PointKind.INPUT_POINT)
    shortfall = state.program.reserve_capture(request.sequence, capture, None)
    if shortfall is not None and make_capture_room(
        state, shortfall, replace(plan.claim, right=Right.SPARE, budget=None)
    ):
        shortfall = state.program.reserve_capture(request.sequence, capture, None)
    if shortfall is None:
        return True
    shortfall = state.program.reserve_capture(request.sequence, capture, plan.retires)
    if shortfall is not None and make_capture_room(state, shortfall, plan.claim):
        shortfall = state.program.reserve_capture(request.sequence, capture, plan.retires)
    if shortfall is not None:
        return False
    state.resources.note_retired(plan)
    return True
