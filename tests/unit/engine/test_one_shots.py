"""The published case: a long conversation, then fifty one-offs; host 0, room for two states (CACHE-12, [I9])."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sim_engine import GREEDY, Caller, SimEngine, filler, make_plan

ONE_SHOTS = 50


def ask(engine: SimEngine, prompt: list[int], *, recovery: int, markers: tuple[int, ...] = ()) -> Caller:
    """One request with its cuts at the recovery frontier and the markers."""
    caller = Caller(prompt, GREEDY)
    plan = make_plan(prompt, recovery)
    cuts = tuple(sorted({recovery, *markers} - {len(prompt)}))
    plan = replace(plan, shared_markers=markers, execution_frontiers=cuts)
    caller.handle = engine.core.submit(plan, caller.params, max_tokens=6, sink=caller.events.append)
    engine.run()
    return caller


@pytest.mark.parametrize(("lanes", "turns"), [(1, 1), (1, 3), (2, 3)])
@pytest.mark.parametrize("is_marked", [False, True])
def test_one_shots_cost_a_long_conversation_nothing_but_its_last_answer(
    lanes: int, turns: int, is_marked: bool
) -> None:
    """[I3] [I9] tokens at an eighth: 12,500 of the chat, one-offs of 60 to 375, each with a marker or none."""
    engine = SimEngine(lanes=lanes, slots=2, pages=260, max_context=16_000, chunk=4096)
    history = filler(12_500, 1)
    for number in range(turns):
        history += filler(30, 50 + number)
        caller = ask(engine, history, recovery=len(history) - 4)
        history = history + caller.expected(6)
    for number in range(ONE_SHOTS):
        prompt = filler(60 + 6 * number, 1000 + number)
        ask(engine, prompt, recovery=len(prompt) - 4, markers=(len(prompt) // 2,) if is_marked else ())
    history += filler(30, 99)
    last = ask(engine, history, recovery=len(history) - 4)
    fresh = len(history) - last.start.cached_tokens
    assert fresh <= 30 + 6 + 4 + 1, fresh
