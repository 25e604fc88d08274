"""The pressure run of `bench/pressure.py` at a tenth, on a tiny model of random weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.pressure import Run, Setup, ask_alone, ask_together, judge, list_differences
from bench.pressure_load import Task
from ninfer.build import opening
from ninfer.build import parts as parts_module
from ninfer.build.parts import EngineParts
from ninfer.engine.core import EngineCore

DENSE = Path(__file__).parents[2] / "data" / "fixtures" / "dense_text"
SETUP = Setup(DENSE, nudge=9.0, host_bytes=2_000_000, requests=12, seed=3)


@pytest.fixture(scope="module")
def alone() -> tuple[list[Task], Run]:
    return ask_alone(SETUP)


@pytest.mark.parametrize("reuse", [True, False])
def test_each_request_says_under_pressure_what_it_says_alone(alone: tuple[list[Task], Run], reuse: bool) -> None:
    """[A5] [K1] [K4] [V-15] tools, stops, penalties, seeds, bias and floors at eight lanes; pauses of both kinds."""
    tasks, right = alone
    pressed = ask_together(SETUP, tasks, reuse=reuse)
    assert list(list_differences(tasks, right, pressed)) == []
    kinds = {pause.is_snapshot for pause in pressed.pauses}
    assert kinds == {True, False}
    assert any(pause.is_amid_output for pause in pressed.pauses)


def test_launches_ahead_change_no_answer(alone: tuple[list[Task], Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """[decision 5] Every step is launched before its tokens are known; stop strings and pauses drop it, and the
    next turn of each conversation goes on from what is left."""
    cores: list[EngineCore] = []

    def make_core(parts: EngineParts) -> EngineCore:
        cores.append(parts_module.make_core(replace(parts, runs_ahead=True)))
        return cores[-1]

    monkeypatch.setattr(opening, "make_core", make_core)
    tasks, right = alone
    pressed = ask_together(SETUP, tasks, reuse=True)
    assert list(list_differences(tasks, right, pressed)) == []
    assert any(pause.is_amid_output for pause in pressed.pauses)
    counters = cores[-1]._state.counters
    assert counters.launches_ahead > counters.output_tokens / 2


def test_the_tasks_have_everything_in_them(alone: tuple[list[Task], Run]) -> None:
    tasks, right = alone
    assert {"stop", "stop_token_ids", "min_tokens", "ignore_eos"} <= {name for task in tasks for name in task.limits}
    sampling = {name for task in tasks for name in task.sampling}
    assert {"presence_penalty", "repetition_penalty", "logit_bias", "top_k", "top_p", "min_p"} <= sampling
    assert {bool(task.chat.tools) for task in tasks} == {True, False}
    assert max(task.turn for task in tasks) == 2
    assert {answer.reason for answer in right.answers} == {"stop", "length"}
    assert len({answer.token_ids for answer in right.answers}) == len(tasks)


def test_a_difference_and_a_lack_of_pressure_are_seen(alone: tuple[list[Task], Run]) -> None:
    tasks, right = alone
    idle = replace(right, counters=dict.fromkeys(("snapshots_resumed", "snapshots_revoked", "replayed_tokens"), 0))
    idle.counters |= {"cached_tokens": 0, "demotions": 0}
    wrong = replace(idle, answers=[replace(idle.answers[0], token_ids=(1,)), *idle.answers[1:]])
    missed = {row.name for row in judge(tasks, right, idle, idle) if row.met is False}
    assert "pauses by snapshot" in missed
    assert not any("differ" in name for name in missed)
    missed = {row.name for row in judge(tasks, right, idle, wrong) if row.met is False}
    assert "answers that differ under pressure, no cache" in missed
