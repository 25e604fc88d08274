"""Fresh admission makes room step by step: a bound for each cycle, and nobody younger in between."""

from __future__ import annotations

from typing import Any

import pytest
from sim_engine import SimEngine, filler

from ninfer.engine.request import Phase
from ninfer.engine.room import MOST_ACTIONS
from ninfer.engine.saves import reserve_captures
from ninfer.resource.admission import Claim, Right
from ninfer.resource.manager import ResourceManager
from ninfer.resource.plans import Plan

KEPT = 24


def fill(engine: SimEngine) -> None:
    """Small conversations that have ended, one page and one slot each."""
    for seed in range(KEPT):
        engine.ask(filler(50, seed + 1), 2)


@pytest.mark.parametrize("decodes", [False, True])
def test_an_admission_yields_after_a_bounded_number_of_actions(monkeypatch: pytest.MonkeyPatch, decodes: bool) -> None:
    """[J8] [V-16] [J2]: the next cycle goes on at once, with what has come free, and lets nobody younger in between."""
    engine = SimEngine(lanes=3, slots=2 * KEPT, pages=KEPT + 4, max_context=2048, chunk=1024)
    fill(engine)
    decoding = engine.submit(filler(40, 90), 60) if decodes else None
    engine.turn(6)
    assert decoding is None or decoding.tokens
    actions: list[int] = []
    carry_out = ResourceManager.carry_out

    def note(self: ResourceManager, plan: Plan, claim: Claim) -> Any:
        actions[-1] += claim.right is Right.ENTRY
        return carry_out(self, plan, claim)

    monkeypatch.setattr(ResourceManager, "carry_out", note)
    large, small = engine.submit(filler(1200, 91), 2), engine.submit(filler(50, 92), 2)
    assert large.handle is not None and small.handle is not None
    request, younger = None, None
    while request is None or request.phase is Phase.QUEUED:
        actions.append(0)
        moved = engine.turn()
        request, younger = engine.state.requests[large.handle.ticket], engine.state.requests[small.handle.ticket]
        assert moved or engine.state.has_work_in_flight
        assert moved or not actions[-1], "it yielded, and nothing goes on at once"
        assert request.phase is not Phase.QUEUED or younger.phase is Phase.QUEUED, "the room went to a younger one"
        assert len(actions) < 50
    assert max(actions) == MOST_ACTIONS
    assert sum(actions) > MOST_ACTIONS
    engine.run()
    for caller in (large, small, *([decoding] if decoding else [])):
        caller.check_output()


def test_no_save_takes_what_a_newcomer_has_made_free_so_far() -> None:
    """[I10] [G7]: an optional save is skipped while somebody who has to go in goes on making room."""
    engine = SimEngine(lanes=2, chunk=128)
    caller = engine.submit(filler(200, 1), 2, recovery=192)
    engine.turn()
    engine.land()
    assert caller.handle is not None
    request = engine.state.requests[caller.handle.ticket]
    assert request.frontier == 128
    free = engine.program.occupancy().free
    engine.state.making_room = True
    assert reserve_captures(engine.state, request, 200) == ()
    assert engine.program.occupancy().free == free
    engine.run()
    caller.check_output()
