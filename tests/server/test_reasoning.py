"""Thinking behind the real server, at every split, streaming and not."""

from __future__ import annotations

from typing import Any

import pytest

from .answers import declare, see_all, see_script, write_call
from .clients import CHAT, Api
from .scripted import bytewise, whole
from .simulated import Speaker

FETCH = declare("fetch", "city")
ON = {"enable_thinking": True}


def test_reasoning_and_content_are_apart(speaking: Api, speaker: Speaker) -> None:
    seen = see_all(speaking, speaker, "Because.\n</think>\n\nYes.", **ON)
    assert (seen.reasoning, seen.content, seen.finish) == ("Because.", "Yes.", "stop")


@pytest.mark.parametrize(
    "fields",
    [
        {"enable_thinking": True},
        {"chat_template_kwargs": {"enable_thinking": True}},
        {"reasoning_effort": "low"},
        {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}},
    ],
)
def test_each_switch_opens_the_think_block(speaking: Api, speaker: Speaker, fields: dict[str, Any]) -> None:
    speaking.ask(**fields)
    assert speaker.requests[-1].plan.opens_thinking


@pytest.mark.parametrize("fields", [{}, {"enable_thinking": False}, {"reasoning_effort": "none"}])
def test_thinking_is_off_otherwise(speaking: Api, speaker: Speaker, fields: dict[str, Any]) -> None:
    speaking.ask(**fields)
    assert not speaker.requests[-1].plan.opens_thinking


def test_reasoning_of_the_history_reaches_the_template(speaking: Api, speaker: Speaker) -> None:
    """`reasoning_content` in, under both names; preserve_thinking false leaves it out."""
    for name in ("reasoning_content", "reasoning"):
        messages = [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b", name: "BECAUSE"},
            {"role": "user", "content": "c"},
        ]
        for keep in (True, False):
            fields = {"messages": messages, "chat_template_kwargs": {"preserve_thinking": keep}}
            assert speaking.post(CHAT, fields).status_code == 200
            prompt = b"".join(speaker.frontend.token_bytes(token) for token in speaker.requests[-1].plan.tokens)
            assert (b"BECAUSE" in prompt) == keep


def test_a_call_in_an_open_think_block_is_a_call(speaking: Api, speaker: Speaker) -> None:
    """THINK-01: a complete declared call at the end implies the end of thinking; a mention does not."""
    seen = see_all(speaking, speaker, "plan\n" + write_call("fetch", city="Oslo"), tools=[FETCH], **ON)
    assert (seen.reasoning, seen.calls, seen.finish) == ("plan", (("fetch", '{"city": "Oslo"}'),), "tool_calls")
    text = "the word <tool_call> is only said\n</think>\n\nok"
    seen = see_all(speaking, speaker, text, tools=[FETCH], **ON)
    assert (seen.reasoning, seen.content, seen.calls) == ("the word <tool_call> is only said", "ok", ())


def test_stray_markers(speaking: Api, speaker: Speaker) -> None:
    """THINK-03: a leading lone end marker goes away; later markers are content; no character is lost."""
    seen = see_all(speaking, speaker, "</think>\n\nHi")
    assert (seen.reasoning, seen.content) == (None, "Hi")
    seen = see_all(speaking, speaker, "a</think>b</think>c", **ON)
    assert (seen.reasoning, seen.content) == ("a", "b</think>c")
    seen = see_all(speaking, speaker, "a</think>Use `<think>` tags", **ON)
    assert (seen.reasoning, seen.content) == ("a", "Use `<think>` tags")


def test_output_that_ends_while_thinking(speaking: Api, speaker: Speaker) -> None:
    """THINK-04: content is an empty string, never null; finish_reason length; the reasoning is kept."""
    seen = see_script(speaking, speaker, bytewise("I think on and on"), max_tokens=8, **ON)
    assert (seen.reasoning, seen.content, seen.finish) == ("I think ", "", "length")
    speaker.script = bytewise("I think on and on")
    message = speaking.ask(max_tokens=8, **ON)["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "", "reasoning_content": "I think "}


def test_reasoning_tokens_are_counted(speaking: Api, speaker: Speaker) -> None:
    """Tokens whose text is reasoning; markers and blank lines are not."""
    for script, count in ((bytewise("Hm.\n</think>\n\nYes."), 3), (bytewise("Yes."), 0), (bytewise("Hm"), 2)):
        speaker.script = script
        usage = speaking.ask(enable_thinking=count > 0)["usage"]
        assert usage["completion_tokens_details"] == {"reasoning_tokens": count}


def test_without_reasoning_there_is_no_field(speaking: Api, speaker: Speaker) -> None:
    speaker.script = whole("plain")
    assert "reasoning_content" not in speaking.ask()["choices"][0]["message"]
    assert all("reasoning_content" not in c["choices"][0]["delta"] for c in speaking.stream() if c["choices"])
