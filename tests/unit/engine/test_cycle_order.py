"""The heartbeat in whole worlds: what a cycle does in which order, and how a gap is closed, rung by rung."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import pytest

from ninfer.base.outcome import Shortfall
from ninfer.engine import turns
from ninfer.engine.admission import Admission
from ninfer.engine.core import EngineCore
from ninfer.engine.failure import Endings
from ninfer.engine.request import Request
from ninfer.engine.room import Room
from ninfer.engine.settle import Settlement
from ninfer.engine.state import EngineState
from ninfer.engine.turns import Turns
from ninfer.ports.device import UnitBatch, UnitKind
from ninfer.resource.admission import Claim, Right
from ninfer.resource.manager import ResourceManager
from ninfer.sim.device import SimDevice
from ninfer.sim.spec import draw_world
from ninfer.sim.world import World

SEEDS = (1, 3, 5, 26)
"""Worlds with pauses of both kinds, resumes, host transfers and several lanes."""

STEPS = {
    (Settlement, "poll"): "settle",
    (Settlement, "expire"): "expire",
    (Admission, "resume_paused"): "resume",
    (Turns, "grant_residents"): "permits",
    (Admission, "admit_fresh"): "admit",
    (Turns, "submit_draws"): "draw",
    (Turns, "grant_newcomer"): "refresh",
    (Turns, "submit_prefill"): "prefill",
}


@dataclass
class Watch:
    """What happened in each cycle: the steps in order, and the units that the device got."""

    cycles: list[list[str]] = field(default_factory=list)

    def note(self, word: str) -> None:
        self.cycles[-1].append(word)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()

    def spy(owner: type, name: str, before: Callable[..., object]) -> None:
        true = getattr(owner, name)

        def method(self: object, *given: Any, **more: Any) -> object:
            before(self, *given)
            return true(self, *given, **more)

        monkeypatch.setattr(owner, name, method)

    spy(EngineCore, "step", lambda *_: watch.cycles.append([]))
    for (owner, name), word in STEPS.items():
        spy(owner, name, lambda *_, word=word: watch.note(word))
    spy(ResourceManager, "plan_room", lambda _, __, claim, **___: note_planning(watch, claim))
    spy(SimDevice, "submit_unit", lambda _, batch, *__: watch.note(name_unit(batch)))
    spy(SimDevice, "submit_sampling", lambda *_: watch.note("sample"))
    return watch


def note_planning(watch: Watch, claim: Claim) -> None:
    if claim.right is Right.ENTRY:
        watch.note("plan")


def name_unit(batch: UnitBatch) -> str:
    return "feed" if batch.kind in (UnitKind.DECODE, UnitKind.VERIFY) else "chunk"


@pytest.mark.parametrize("seed", SEEDS)
def test_every_cycle_goes_through_the_steps_in_the_order_of_the_design(watch: Watch, seed: int) -> None:
    """[J1] [J8] [B3]: landed work and ends first, resumes before residents, residents before fresh ones, then one
    compact set of draws and one chunk; transactions advance at the start, before work is chosen and after the draws.
    """
    World(draw_world(seed)).run()
    order = ["settle", "expire", "resume", "permits", "admit", "settle", "draw", "settle", "refresh", "prefill"]
    worked = 0
    for cycle in watch.cycles:
        steps = [word for word in cycle if word in STEPS.values()]
        steps = [word for word, _ in groupby(_without_settling_between(steps))]
        if steps[7:8] == ["admit"]:  # room for newcomers, while the device draws
            del steps[7]
        assert steps == order or steps == [], "a cycle is whole, or the device failed before it began"
        units = [word for word in cycle if word in ("sample", "chunk")]
        assert units in ([], ["sample"], ["chunk"], ["sample", "chunk"]), "one set of draws, then one chunk"
        worked += len(units)
    assert worked > 50


@pytest.mark.parametrize("seed", SEEDS)
def test_room_for_a_newcomer_is_planned_while_the_granted_draws_are_under_way(watch: Watch, seed: int) -> None:
    """[J8] [C7] [V-16]: nobody who may decode waits for the planning of somebody else's admission."""
    World(draw_world(seed)).run()
    both = 0
    for cycle in watch.cycles:
        if "plan" in cycle and "sample" in cycle:
            assert cycle.index("sample") < cycle.index("plan"), "the step waited for the planning of an admission"
            both += 1
    assert both > 0, "no world in which it matters"


def _without_settling_between(steps: list[str]) -> list[str]:
    """What was settled right after a resume or an admission, so that its permit counts, stands where it began."""
    kept: list[str] = []
    for place, word in enumerate(steps):
        following = steps[place + 1] if place + 1 < len(steps) else ""
        if word == "settle" and following in ("permits", "admit", "settle"):
            continue
        kept.append(word)
    return kept


def test_nobody_is_paused_while_a_softer_rung_would_have_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """[J3] [C7] [B3]: optional content goes first, then snapshots of those who wait, then a younger resident."""
    lacked: list[tuple[Request, Shortfall]] = []
    rungs = {"pause": 0, "revoke": 0, "reclaim": 0}
    make_room, pause, grant = turns.make_room, Endings.pause, Turns._grant

    def can_reclaim(state: EngineState, asker: Request, shortfall: Shortfall) -> bool:
        claim = Claim(Right.NECESSARY, frozenset(), asker.ticket)
        return state.resources.plan_room(shortfall, claim, may_copy=False) is not None

    def note_room(state: EngineState, asker: Request, shortfall: Shortfall, right: Right) -> Room:
        softer, revoked = can_reclaim(state, asker, shortfall), state.counters.snapshots_revoked
        room = make_room(state, asker, shortfall, right)
        if room is Room.NONE:
            lacked.append((asker, shortfall))
        elif state.counters.snapshots_revoked > revoked:
            assert not softer, "a snapshot went before optional content"
            rungs["revoke"] += 1
        else:
            rungs["reclaim"] += 1
        return room

    def note_pause(endings: Endings, request: Request) -> None:
        state = endings._state
        for asker, shortfall in lacked:
            assert asker.ticket < request.ticket, "J4: only for somebody older"
            assert not can_reclaim(state, asker, shortfall), "a lane went before optional content"
            for other in state.list_snapshots():
                assert other.snapshot is not None
                gives = state.program.quote_revocation(other.snapshot)[shortfall.pool]
                assert other is asker or not gives, "a lane went before a snapshot"
            rungs["pause"] += 1
        lacked.clear()
        pause(endings, request)

    def note_grant(self: Turns, request: Request) -> bool:
        try:
            return grant(self, request)
        finally:
            lacked.clear()

    monkeypatch.setattr(turns, "make_room", note_room)
    monkeypatch.setattr(Endings, "pause", note_pause)
    monkeypatch.setattr(Turns, "_grant", note_grant)
    for seed in SEEDS:
        World(draw_world(seed)).run()
    assert rungs["pause"] > 5 and rungs["reclaim"] > 20, rungs
