"""Nothing stored without work, and no history that a client cannot get rid of ends its session."""

from __future__ import annotations

from typing import Any

import pytest

from ninfer.ports.output import FinishReason
from ninfer.server.app import CHAT_PATH

from .conftest import OpenLive
from .live import Live
from .words import filler, result, system, tool, user

READ = tool("read", "path")


@pytest.mark.parametrize("busy", [True, False])
def test_cancelled_requests_leave_no_entry(open_live: OpenLive, append_dir: Any, append_ref: Live, busy: bool) -> None:
    """STATE-03: two hundred cancelled at once, one-token prompts among them; then twenty chats equal REF.

    With the lane taken none of the two hundred can have computed anything; without, some may have, and keep it.
    """
    live = open_live(append_dir, max_concurrency=1, max_queue=256, context_cache={"device_state_slots": 24})
    if busy:
        holder, held = live.start_raw([65, 66, 67], max_tokens=4000, ignore_eos=True)
    streams = [live.start_raw([65 + number % 26] * (1 + number % 3), max_tokens=5) for number in range(200)]
    for stream, _ in streams:
        stream.cancel()
    if busy:
        assert held.end is None
        holder.cancel()
        holder.result()
    for stream, heard in streams:
        stream.result()
        assert heard.finished.reason is FinishReason.CANCELLED or not busy
        assert heard.finished.timings.computed_prompt_tokens == 0 or not busy
    live.occupancy()
    if busy:
        assert live.facts().points <= 2, "those of the holder"
    for number in range(20):
        chat = [user(filler(20, number))]
        assert live.ask(chat, max_tokens=4).tokens == append_ref.ask(chat, max_tokens=4).tokens
    live.occupancy()
    live.drop_points()


def test_a_poisoned_history_is_served_and_reused(append: Live) -> None:
    """STATE-08: half a call in the history is text; the session goes on, and warm."""
    half = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"cmd": "ls", '}}
    poisoned = {"role": "assistant", "content": None, "tool_calls": [half]}
    messages = [system(filler(100, 1)), user("GO"), poisoned, result(half, "NOTHING")]
    first = append.ask(messages, tools=[READ], max_tokens=8)
    assert b'{"cmd": "ls", ' in b"".join(map(append.frontend.token_bytes, first.heard.prompt))
    second = append.ask([*messages, first.message, user("NEXT")], tools=[READ], max_tokens=8)
    assert second.cached >= first.prompt


CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
TAIL = [{"role": "assistant", "content": None, "tool_calls": [CALL]}, result(CALL, "R")]
ODD = {
    "only a system": ([system("S")], False),
    "only an assistant": ([{"role": "assistant", "content": "A"}], False),
    "a tail of tools": ([system("S"), *TAIL], False),
    "a tail of tools behind a user": ([user("U"), *TAIL], True),
    "no calls": ([user("U"), {"role": "assistant", "content": None, "tool_calls": []}, user("V")], True),
    "an empty user": ([user("")], True),
    "no parts": ([{"role": "user", "content": []}], True),
    "an assistant last": ([user("U"), {"role": "assistant", "content": "A"}], True),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_conversations_are_answered_or_refused_by_name(append: Live, strip: Live, name: str) -> None:
    """LIMIT-06: an append-only template serves all; one that asks for a user message makes a 400 that says so."""
    messages, has_user = ODD[name]
    assert append.ask(messages, tools=[READ], max_tokens=2).tokens
    for stream in (False, True):
        answer = strip.post(CHAT_PATH, {"messages": messages, "tools": [READ], "max_tokens": 2, "stream": stream})
        assert answer.status_code == (200 if has_user else 400)
        if not has_user:
            error = answer.json()["error"]
            assert (error["param"], error["type"]) == ("messages", "invalid_request_error")
            assert "a user message is required" in error["message"]


def test_an_empty_conversation_is_refused(append: Live) -> None:
    """LIMIT-06: truly nothing is a 400, before any work."""
    answer = append.post(CHAT_PATH, {"messages": []})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "messages")
    assert not append.heard
