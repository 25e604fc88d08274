"""Restore points of a hybrid model: where they lie, how they move, and that a hit gives the tokens of a miss.

Sizes are an eighth of the recipes', rules the same.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ninfer.base.pools import Pool

from .conftest import OpenLive
from .live import FREE, NO_HOST, Answer, Live
from .words import Message, call_text, filler, result, system, user, with_arguments

EDIT: dict[str, Any] = {"type": "function", "function": {"name": "e"}}
"""A tool whose declaration and calls are as short as can be: thirty rounds have to fit the context."""
SHORT = {"max_tokens": 12}
GLUE = 40


def test_an_append_only_chat_computes_its_new_words_only(append: Live, append_ref: Live) -> None:
    """HYB-01: forty turns, echoed back with their reasoning; every turn starts at the end of the last output."""
    rng = random.Random(7)
    messages: list[Message] = []
    for turn in range(40):
        new = filler(rng.randint(6, 37), 100 + turn)
        messages.append(user(new))
        answer = append.ask(messages, enable_thinking=True, max_tokens=6)
        assert answer.message["reasoning_content"]
        if turn:
            assert answer.fresh <= len(new) + GLUE
        if turn in (13, 39):
            assert answer.tokens == append_ref.ask(messages, enable_thinking=True, max_tokens=6).tokens
        messages.append(answer.message)


def test_a_very_short_chat_is_continued(append: Live, append_ref: Live) -> None:
    """HYB-02: a prompt of a dozen tokens has its restore point."""
    messages = [user("hi")]
    for turn in range(3):
        answer = append.ask(messages, **SHORT)
        assert answer.cached > 0 or turn == 0
        assert answer.tokens == append_ref.ask(messages, **SHORT).tokens
        messages += [answer.message, user("more")]


def hits(open_live: OpenLive, model_dir: Path, chunk: int) -> list[int]:
    """Cached tokens of users who share a system message, then of a retry and of a next turn."""
    live = open_live(model_dir, prefill_chunk_tokens=chunk, max_concurrency=4)
    head = system(filler(625, 1))
    chats = [[head, user(filler(40, 10 + number))] for number in range(4)]
    answers = [live.ask(chat, max_tokens=4) for chat in chats]
    answers.append(live.ask(chats[1], max_tokens=4))
    answers.append(live.ask([*chats[2], answers[2].message, user("NEXT")], max_tokens=4))
    return [answer.cached for answer in answers]


def test_hits_do_not_depend_on_the_chunk_length(open_live: OpenLive, append_dir: Path) -> None:
    """HYB-04: restore points come from the meaning of the input, not from where a prefill was cut."""
    short, long = (hits(open_live, append_dir, chunk) for chunk in (64, 1024))
    assert short == long
    assert min(short[4:]) > 625


def test_later_users_hit_the_shared_head(open_live: OpenLive, append_dir: Path) -> None:
    """HYB-04, the hit itself: from the third request on the shared system message is reused."""
    assert min(hits(open_live, append_dir, 64)[2:4]) >= 600


def tool_loop(live: Live, rounds: int, trimmed: Sequence[int], **fields: Any) -> list[Answer]:
    """An agent without a human. In the `trimmed` rounds the client drops the newline at the end of an argument.

    Returns the answer of each round and of a last request behind them.
    """
    messages = [system(filler(20, 1)), user(filler(20, 2))]
    answers: list[Answer] = []
    for number in range(1, rounds + 1):
        text = f"{number}.\n\n{call_text('e', c=f'FILE {number}' + chr(10))}"
        answer = live.ask_saying(text, messages, tools=[EDIT], **fields)
        answers.append(answer)
        message = answer.message
        (call,) = message["tool_calls"]
        assert json.loads(call["function"]["arguments"])["c"].endswith("\n")
        if number in trimmed:
            message = with_arguments(message, lambda value: json.dumps({"c": value["c"].strip()}))
        messages += [message, result(call, filler(15, 100 + number))]
    answers.append(live.ask(messages, tools=[EDIT], **{**fields, **SHORT}))
    return answers


def longest_round(answers: Sequence[Answer]) -> int:
    return max(later.prompt - earlier.prompt for earlier, later in itertools.pairwise(answers))


def test_a_tool_loop_moves_its_point_forward(append: Live, append_ref: Live) -> None:
    """HYB-05: thirty rounds; what the client changed in one answer costs that round, not the loop."""
    answers = tool_loop(append, 30, (10, 20, 30), chat_template_kwargs={"preserve_thinking": True})
    round_tokens = longest_round(answers)
    for behind, answer in enumerate(answers[1:], 1):
        changed = behind in (10, 20, 30)
        assert answer.fresh <= (2 * round_tokens if changed else round_tokens)
        assert not changed or answer.record.loss == "no_point_at_match"
    last = answers[-1]
    assert last.tokens == append_ref.complete(last.heard.prompt, **SHORT, **FREE).tokens


def test_a_stripped_tool_loop_moves_a_point_forward_too(strip: Live) -> None:
    """HYB-05 where the template strips thinking: the private point must stay before the open turn's first answer."""
    answers = tool_loop(strip, 10, (10,), enable_thinking=False)
    round_tokens = longest_round(answers)
    assert answers[-1].fresh <= 2 * round_tokens


def test_a_hidden_nudge_costs_little_when_it_is_gone(append: Live) -> None:
    """HYB-06: odd requests end with a message that the next one lacks; ten rounds."""
    messages = [user("go")]
    for number in range(1, 11):
        nudge = [user("(keep going)")] if number % 2 else []
        answer = append.ask_saying(call_text("e"), [*messages, *nudge], tools=[EDIT])
        assert answer.fresh <= 187
        (call,) = answer.message["tool_calls"]
        messages += [answer.message, result(call, filler(17, 100 + number))]


def test_a_changed_last_answer_costs_that_answer(append: Live, append_ref: Live) -> None:
    """HYB-08: the deepest point that still matches is used, and only what no longer matches is dropped."""
    messages: list[Message] = []
    for turn in range(3):
        messages.append(user(filler(250, 10 + turn)))
        before = append.ask(messages, **SHORT)
        messages.append(before.message)
    changed = {**messages[-1], "content": "X" + messages[-1]["content"][1:]}
    assert changed != messages[-1]
    replayed = [*messages[:-1], changed, user("NEXT")]
    answer = append.ask(replayed, **SHORT)
    assert answer.cached >= before.prompt - 64
    assert answer.tokens == append_ref.ask(replayed, **SHORT).tokens


def test_gauges_return_to_the_level_of_the_live_set(open_live: OpenLive, append_dir: Path) -> None:
    """HYB-08, second half: what an unrelated chat pushed out leaves nothing behind."""
    options = {"max_concurrency": 1, "max_context": 1024, "kv_capacity": 1024, "context_cache": NO_HOST}
    crowded, lonely = (open_live(append_dir, **options) for _ in range(2))
    old = [user(filler(600, 1))]
    old.append(crowded.ask(old, **SHORT).message)
    crowded.ask([*old, user("NEXT")], **SHORT)
    assert crowded.facts().points == 2
    for live in (crowded, lonely):
        live.ask([user(filler(900, 2))], **SHORT)
    assert crowded.occupancy().free == lonely.occupancy().free
    assert crowded.facts() == lonely.facts()
    assert crowded.occupancy().free[Pool.MAIN_KV] < 2
    crowded.drop_points()


@pytest.mark.parametrize("count", [88, 513, 3640])
def test_a_hit_gives_the_tokens_of_a_miss(open_live: OpenLive, append_dir: Path, count: int) -> None:
    """HYB-09: four times the same request, then on a fresh engine, cold and right (OPS-08); no hit on a chunk end."""
    messages = [user(filler(count - 20, count))]
    fields = {"seed": 1, "max_tokens": 16}
    live = open_live(append_dir)
    answers = [live.ask(messages, **fields) for _ in range(4)]
    answers.append(open_live(append_dir).ask(messages, **fields))
    assert [answer.cached > 0 for answer in answers] == [False, True, True, True, False]
    assert all(answer.tokens == answers[0].tokens for answer in answers)
    assert answers[1].cached % live.engine.options.prefill_chunk_tokens
    assert answers[1].fresh <= GLUE
