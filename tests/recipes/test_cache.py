"""Reuse across turns when clients, templates and tools drift. Sizes are an eighth of the recipes', rules the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ninfer.base.buffers import IntBuffer

from .conftest import OpenLive
from .live import Answer, Live
from .words import (
    Message,
    call_text,
    filler,
    result,
    system,
    tool,
    user,
    with_arguments,
    without_reasoning,
)

READ = tool("read", "path")
SHORT = {"max_tokens": 12}


def agent_turn(live: Live, rounds: int, seed: int) -> tuple[list[Message], Answer]:
    """One user message, tool rounds with thinking, a final answer. Returns the history and the first answer."""
    messages = [system(filler(100, seed)), user(filler(50, seed + 1))]
    first: Answer | None = None
    for number in range(rounds):
        text = f"STEP {number}\n</think>\n\nI LOOK.\n\n{call_text('read', path=f'F{number}')}"
        answer = live.ask_saying(text, messages, tools=[READ], enable_thinking=True)
        first = first or answer
        assert answer.message["reasoning_content"] == f"STEP {number}"
        (call,) = answer.message["tool_calls"]
        messages += [answer.message, result(call, filler(50, seed + 10 + number))]
    answer = live.ask_saying("NOW I KNOW\n</think>\n\nDONE.", messages, tools=[READ], enable_thinking=True)
    assert first is not None
    return [*messages, answer.message], first


def test_dropped_reasoning_costs_the_closed_turn_only(strip: Live, strip_ref: Live) -> None:
    """CACHE-03: the point before the first assistant message of the turn survives the whole tool chain."""
    history, first = agent_turn(strip, rounds=4, seed=1)
    closing = len(strip.encode("<|im_end|>\n<|im_start|>assistant\n<think>\n"))
    messages = [*map(without_reasoning, history), user("NEXT")]
    fields = {"tools": [READ], "enable_thinking": True, **SHORT}
    answer = strip.ask(messages, **fields)
    assert answer.cached >= first.prompt - closing
    assert answer.tokens == strip_ref.ask(messages, **fields).tokens


def test_reasoning_that_comes_back_is_reused(strip: Live, strip_ref: Live) -> None:
    """CACHE-03, second half: with thinking preserved nothing but the new turn is read."""
    history, _ = agent_turn(strip, rounds=4, seed=2)
    new = user("NEXT " + filler(30, 3))
    fields = {"tools": [READ], "chat_template_kwargs": {"enable_thinking": True, "preserve_thinking": True}, **SHORT}
    answer = strip.ask([*history, new], **fields)
    assert answer.fresh <= len(new["content"]) + 64
    assert answer.tokens == strip_ref.ask([*history, new], **fields).tokens


def test_an_empty_think_pair_costs_the_last_answer_only(strip: Live) -> None:
    """CACHE-05: with thinking off each turn reads the last answer and the new words again, never more."""
    messages: list[Message] = [system(filler(200, 1))]
    answer_tokens = 0
    for turn in range(8):
        messages.append(user(filler(20, 10 + turn)))
        answer = strip.ask(messages, enable_thinking=False, max_tokens=13)
        if turn:
            assert answer.fresh <= answer_tokens + 20 + 128
        assert answer.cached > 0 or turn == 0
        answer_tokens = len(answer.tokens)
        messages.append(answer.message)


def test_reprinted_arguments_cost_the_call_only(append: Live, append_ref: Live) -> None:
    """CACHE-06: sorted keys and other spacing fall back to the response's start; the client's order is printed."""
    write = tool("write", "a", "b", "content")
    messages = [system(filler(150, 1)), user(filler(80, 2))]
    first = append.ask_saying(call_text("write", b="2", a="1", content=filler(100, 4)), messages, tools=[write])
    (call,) = first.message["tool_calls"]
    assert list(json.loads(call["function"]["arguments"])) == ["b", "a", "content"]
    replayed = with_arguments(first.message, lambda value: json.dumps(value, sort_keys=True, indent=1))
    messages += [replayed, result(call, "WRITTEN")]
    second = append.ask(messages, tools=[write], **SHORT)
    assert second.cached >= first.prompt - 128
    text = append.frontend.detokenizer()
    prompt = "".join(text.push(token) for token in second.heard.prompt)
    assert prompt.index("<parameter=a>") < prompt.index("<parameter=b>")
    assert second.tokens == append_ref.ask(messages, tools=[write], **SHORT).tokens


def test_a_changed_tool_list_is_a_visible_miss(append: Live, append_ref: Live) -> None:
    """CACHE-08: never wrong reuse; the request's record names the first token that differs."""
    tools = [tool(f"t{number}", "path") for number in range(12)]
    messages = [system(filler(50, 1)), user(filler(20, 2))]
    first = append.ask(messages, tools=tools, **SHORT)
    swapped = [*tools[:2], tools[3], tools[2], *tools[4:]]
    function = tools[4]["function"]
    schema = dict(reversed(function["parameters"].items()))
    turned = [*tools[:4], {"type": "function", "function": {**function, "parameters": schema}}, *tools[5:]]
    for changed in (swapped, turned):
        answer = append.ask(messages, tools=changed, **SHORT)
        common = IntBuffer(first.heard.prompt).common_prefix(IntBuffer(answer.heard.prompt))
        assert answer.record.deepest_token_match == common
        assert answer.record.loss == "no_point_at_match"
        assert answer.cached <= common
        assert answer.tokens == append_ref.ask(messages, tools=changed, **SHORT).tokens
    again = append.ask(messages, tools=tools, **SHORT)
    assert again.cached > 0
    assert again.tokens == first.tokens


def long_chat(live: Live) -> tuple[list[dict[str, Any]], list[Message]]:
    """System and tools of about 500 tokens, a chat of about 1,500 in all."""
    tools = [tool(f"tool{number}", "path") for number in range(2)]
    messages: list[Message] = [system(filler(150, 1))]
    for turn in range(4):
        messages.append(user(filler(230, 10 + turn)))
        messages.append(live.ask(messages, tools=tools, **SHORT).message)
    return tools, messages


def test_a_summary_request_hits_the_live_chat(append: Live, append_ref: Live) -> None:
    """CACHE-09, first request: the whole history with one more instruction."""
    tools, messages = long_chat(append)
    messages.append(user("Summarise everything above."))
    answer = append.ask(messages, tools=tools, **SHORT)
    assert answer.prompt > 1500
    assert answer.cached >= 1437
    assert answer.tokens == append_ref.ask(messages, tools=tools, **SHORT).tokens


def test_a_compacted_chat_hits_the_head_of_system_and_tools(append: Live, append_ref: Live) -> None:
    """CACHE-09, second request: same system and tools, then one message with the summary."""
    tools, messages = long_chat(append)
    append.ask([*messages, user("Summarise everything above.")], tools=tools, **SHORT)
    head = append_ref.ask([messages[0], user("X")], tools=tools, max_tokens=1).prompt
    answer = append.ask([messages[0], user(filler(60, 9))], tools=tools, **SHORT)
    assert answer.cached >= head - 30


@pytest.mark.parametrize("answered", [True, False])
def test_results_in_another_order_are_the_same_prompt(append: Live, append_ref: Live, answered: bool) -> None:
    """CACHE-11: results are printed in call order, so that their order in the request costs nothing."""
    messages = [system(filler(100, 1)), user(filler(50, 2))]
    script = "\n".join(call_text("read", path=name) for name in "ABC")
    asked = append.ask_saying(script, messages, tools=[READ])
    calls = asked.message["tool_calls"]
    results = [result(call, filler(60, 20 + number)) for number, call in enumerate(calls)]
    first = append.ask([*messages, asked.message, *results], tools=[READ], **SHORT)
    turned = [*messages, asked.message, results[2], results[0], results[1]]
    turned += [first.message, user("NEXT")] if answered else [user("NEXT")]
    second = append.ask(turned, tools=[READ], **SHORT)
    assert second.cached >= first.prompt - 64
    assert second.tokens == append_ref.ask(turned, tools=[READ], **SHORT).tokens


@pytest.mark.parametrize("side_requests", [3, 30])
def test_side_requests_leave_the_chat_its_point(open_live: OpenLive, append_dir: Any, side_requests: int) -> None:
    """CACHE-12: one lane, room for two states, short one-shots between two turns of a long chat."""
    live = open_live(append_dir, max_concurrency=1, context_cache={"device_state_slots": 1})
    messages = [system(filler(900, 1)), user(filler(225, 2))]
    messages.append(live.ask(messages, **SHORT).message)
    for number in range(side_requests):
        live.ask([user(f"Make a title for: {filler(20, 100 + number)}")], max_tokens=4)
    answer = live.ask([*messages, user("NEXT")], **SHORT)
    assert answer.cached >= 1112
