"""The judge of the soak: it sees wrong answers, missing records, forgotten requests and memory that grows."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from bench.soak import judge, judge_memory
from bench.soak_load import Ending, Manner, Task, Visit, call, draw_bodies, learn
from ninfer.base.errors import QueueFull, RequestFailed

from .clients import LiveServer
from .scripted import Script, ScriptedEngine, bytewise, whole


@pytest.fixture
def task(live: LiveServer, engine: ScriptedEngine) -> Iterator[Task]:
    engine.script = bytewise("the right answer is long enough to be left amid it")
    (learned,) = learn(live.url, [[{"model": "", "messages": [{"role": "user", "content": "x"}]}]])
    return learned


def visit(live: LiveServer, task: Task, manner: Manner) -> Visit:
    return call(live.url, task, Visit("soak-0-1", manner), random.Random(3))


@pytest.mark.parametrize("manner", [Manner.READ, Manner.WHOLE])
def test_right_and_wrong_answers_are_told_apart(
    live: LiveServer, engine: ScriptedEngine, task: Task, manner: Manner
) -> None:
    assert visit(live, task, manner).ending is Ending.RIGHT
    engine.script = whole("the right answer is long enough to be left amid it!")
    assert visit(live, task, manner).ending is Ending.WRONG
    engine.crash = QueueFull("full")
    assert visit(live, task, manner).ending is Ending.REFUSED
    engine.crash = None
    engine.script = Script(((b"the",),), error=RequestFailed("x"))
    assert visit(live, task, manner).ending is Ending.FAILED


def test_a_client_that_leaves_has_read_a_beginning_of_the_right_answer(
    live: LiveServer, engine: ScriptedEngine, task: Task
) -> None:
    assert visit(live, task, Manner.LEAVE).ending is Ending.LEFT
    assert visit(live, task, Manner.LEAVE_AT_ONCE).ending is Ending.LEFT
    engine.script = bytewise("another answer that is long enough to be left amid it")
    assert visit(live, task, Manner.LEAVE).ending is Ending.WRONG


def test_records_and_rest_are_judged() -> None:
    visits = [Visit("soak-1-1", Manner.READ, Ending.RIGHT), Visit("soak-1-2", Manner.LEAVE, Ending.LEFT)]
    lines = [{"id": "soak-1-1", "outcome": "completed"}, {"id": "soak-1-2", "outcome": "cancelled"}]
    totals = {"ninfer_pauses_total": 3.0}

    def missed(*arguments: object) -> set[str]:
        return {row.name for row in judge(*arguments) if row.met is False}  # type: ignore[arg-type]

    assert missed(visits, lines, [], 0, totals) == set()
    assert missed(visits, lines[1:], [], 0, totals) == {
        "requests not on record exactly once",
        "requests whose record tells another end",
    }
    assert missed(visits, [*lines, lines[0]], [], 0, totals) == {"requests not on record exactly once"}
    assert missed(visits, lines, [], 1, {}) == {"requests left running at the end", "pauses happened"}


def test_a_leak_is_told_from_noise() -> None:
    chance = random.Random(1)
    flat = [(float(second), int(4e8 + chance.gauss(0, 1e6))) for second in range(600)]
    leak = [(at, size + int(at * 5e4)) for at, size in flat]
    assert judge_memory(flat)[-1].met is True
    assert judge_memory(leak)[-1].met is False


def test_the_requests_of_a_soak_have_tools_stops_penalties_and_turns() -> None:
    conversations = draw_bodies(1, 24)
    assert draw_bodies(1, 24) == conversations != draw_bodies(2, 24)
    bodies = [body for conversation in conversations for body in conversation]
    for name in ("tools", "stop", "presence_penalty", "top_p"):
        assert any(name in body for body in bodies)
    assert max(len(conversation) for conversation in conversations) >= 3
