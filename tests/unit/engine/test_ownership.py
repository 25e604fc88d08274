"""Who owns what: Program checks what is proposed, policies keep no physical ledger, engines share nothing."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from sim_engine import SimEngine, filler

import ninfer
from ninfer.base.pools import Pool
from ninfer.ports.native import CaptureRequest, PointKind, PrefillTurn
from ninfer.sim.device import SIM_STATE_BYTES

SOURCES = Path(ninfer.__file__).parent


def test_proposals_are_checked_by_program() -> None:
    """[B5]: units without a permit, saves off the semantic frontiers, actions of another moment are refused."""
    engine = SimEngine(lanes=2, chunk=64)
    engine.ask(filler(100, 1), 4)
    engine.submit(filler(200, 2), 4, recovery=150)
    engine.turn()
    engine.land()
    (sequence,) = engine.program.list_sequences()
    with pytest.raises(AssertionError, match="C6"):
        engine.program.submit([], PrefillTurn(sequence, 64))
    with pytest.raises(AssertionError, match="V-11"):
        engine.program.reserve_capture(sequence, CaptureRequest(128, PointKind.INPUT_POINT), None)
    action = engine.program.list_delete_actions(Pool.STATE)[0]
    with pytest.raises(AssertionError, match="V-14"):
        engine.program.delete(replace(action, epoch=action.epoch - 1))


def test_policies_hold_no_physical_ledger() -> None:
    """[B6], [B4]: no module above Program names a page, a slot or a store."""
    for package in ("sched", "resource", "engine"):
        for path in (SOURCES / package).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom):
                    assert not (node.module or "").startswith("ninfer.store"), path
                    assert not {"PageId", "SlotId"} & {name.name for name in node.names}, path


def test_three_kinds_of_record_are_kept_apart() -> None:
    """[A3], [B7]: a continuation, its points, and what they occupy: one can go without the other."""
    engine = SimEngine(lanes=1, slots=4, pages=16, host=8 * SIM_STATE_BYTES)
    engine.ask(filler(150, 1), 4)
    points = engine.program.list_points()
    assert len(points) == 2, "an endpoint and an input point"
    assert engine.resources.facts().records == 1
    action = next(a for a in engine.program.list_demote_actions(Pool.STATE) if a.points == (points[0],))
    engine.program.demote(action)
    engine.land()
    assert engine.program.list_points() == points, "the replica moved, the point stayed"
    shallow = min(points, key=engine.program.point_frontier)
    free = engine.program.occupancy().free
    engine.program.discard_point(shallow)
    engine.state.reconcile()
    assert engine.program.occupancy().free.main_kv == free.main_kv, "pages serve the deeper point"
    assert engine.resources.facts().records == 1
    engine.state.audit()


def test_engines_share_nothing() -> None:
    """[B8]: two of them turned in alternation say what each says alone, and each adds up for itself."""
    engines = [SimEngine(lanes=2, pages=16, max_context=1024, host=hosts * SIM_STATE_BYTES) for hosts in (0, 16)]
    callers = [[engine.submit(filler(300, seed), 300) for seed in (1, 2)] for engine in engines]
    while any(engine.state.requests or engine.turn() for engine in engines):
        for engine in engines:
            engine.turn()
    for engine, pair in zip(engines, callers, strict=True):
        for caller in pair:
            caller.check_output()
        engine.state.audit()


def test_metadata_is_bounded_by_capacity() -> None:
    """[C5]: a stream of one-off requests leaves as many records as states have room, and no empty branch."""
    engine = SimEngine(lanes=1, slots=3, pages=16, host=3 * SIM_STATE_BYTES, audit=False)
    for seed in range(60):
        engine.ask(filler(70, seed), 2)
    facts = engine.resources.facts()
    assert facts.points <= 3 + 3
    assert facts.records <= facts.points
    assert facts.branches <= facts.points
    engine.state.audit()
