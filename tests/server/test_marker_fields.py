"""Cache markers, anchors and session names that cannot be taken: refused by path, before any engine work."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ninfer.frontend.messages import MarkerUse
from ninfer.server.cache_input import split_tool

from .clients import CHAT, Api
from .scripted import ScriptedEngine
from .test_bad_input import TYPE, USER, VALUE, check_error, tool

MARK = {"cache_control": {"type": "ephemeral"}}


def marked_parts(count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": [{"type": "text", "text": f"{number}", **MARK, **more} for number in range(count)]}
    ]


MARKER_ERRORS: dict[str, tuple[dict[str, Any], str, str]] = {
    "five markers": ({"messages": marked_parts(5)}, "messages[0].content[4].cache_control", VALUE),
    "five anchors": ({"messages": marked_parts(5, anchor=True)}, "messages[0].content[4].cache_control", VALUE),
    "markers in tools count": (
        {"messages": marked_parts(4), "tools": [tool() | MARK]},
        "messages[0].content[3].cache_control",
        VALUE,
    ),
    "marker on an empty part": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": " ", **MARK}]}]},
        "messages[0].content[0].cache_control",
        VALUE,
    ),
    "marker on an empty message": (
        {"messages": [*USER, {"role": "assistant", "content": "", **MARK}]},
        "messages[1].cache_control",
        VALUE,
    ),
    "marker of another type": (
        {"messages": [{**USER[0], "cache_control": {"type": "persistent"}}]},
        "messages[0].cache_control",
        VALUE,
    ),
    "marker a string": (
        {"messages": [{**USER[0], "cache_control": "ephemeral"}]},
        "messages[0].cache_control",
        TYPE,
    ),
    "anchor without a marker": ({"messages": [{**USER[0], "anchor": True}]}, "messages[0].anchor", VALUE),
    "anchor on a tool a number": (
        {"messages": USER, "tools": [tool() | MARK | {"anchor": 1}]},
        "tools[0].anchor",
        TYPE,
    ),
    "anchor in the marker": (
        {"messages": [{**USER[0], "cache_control": {"type": "ephemeral", "anchor": True}}]},
        "messages[0].cache_control.anchor",
        VALUE,
    ),
    "anchor beside no marker": (
        {"messages": [{**USER[0], "cache_control": None, "anchor": True}]},
        "messages[0].anchor",
        VALUE,
    ),
    "anchor a string": ({"messages": [{**USER[0], **MARK, "anchor": "yes"}]}, "messages[0].anchor", TYPE),
    "marker on thinking alone": (
        {"messages": [*USER, {"role": "assistant", "reasoning_content": "so", **MARK}, *USER]},
        "messages[1].cache_control",
        VALUE,
    ),
    "marker on a picture": (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}, **MARK}]}]},
        "messages[0].content[0]",
        "unsupported_parameter",
    ),
    "marker on a tool that is not shown": (
        {"messages": USER, "tools": [tool(), tool() | MARK], "tool_choice": "none"},
        "tools[1].cache_control",
        VALUE,
    ),
    "marker on the function of a tool that is not shown": (
        {"messages": USER, "tools": [{"type": "function", "function": {"name": "f", **MARK}}], "tool_choice": "none"},
        "tools[0].function.cache_control",
        VALUE,
    ),
    "a fifth marker on a function": (
        {"messages": USER, "tools": [{"type": "function", "function": {"name": f"f{i}", **MARK}} for i in range(5)]},
        "tools[4].function.cache_control",
        VALUE,
    ),
    "two markers on one tool": (
        {"messages": USER, "tools": [tool() | MARK | {"function": {"name": "f", **MARK, "anchor": True}}]},
        "tools[0].function.cache_control",
        VALUE,
    ),
    "session name of a wrong type": ({"messages": USER, "prompt_cache_key": ["a"]}, "prompt_cache_key", TYPE),
    "session name too long": ({"messages": USER, "prompt_cache_key": "x" * 1025}, "prompt_cache_key", VALUE),
}


@pytest.mark.parametrize("name", MARKER_ERRORS)
def test_a_marker_that_cannot_be_taken_is_refused_by_path(api: Api, engine: ScriptedEngine, name: str) -> None:
    """JSON-01: 400 with the path."""
    fields, param, code = MARKER_ERRORS[name]
    check_error(api.post(CHAT, {"messages": USER, **fields}), 400, param, code)
    assert engine.requests == []


SESSIONS: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "none": ({}, {}, None),
    "null and empty": ({"prompt_cache_key": None}, {"x-session-id": ""}, None),
    "any characters": ({"prompt_cache_key": "a\0b\ud800\n\U0001f4a5"}, {}, "a\0b\ufffd\n\U0001f4a5"),
    "as long as may be": ({"prompt_cache_key": "\U0001f4a5" * 1024}, {}, "\U0001f4a5" * 1024),
    "bytes that are no text": ({}, {"x-session-id": b"\xff\xfe\x01"}, "\xff\xfe\x01"),
    "the header goes first": ({"prompt_cache_key": "key"}, {"x-session-id": "header"}, "header"),
    "an empty header says nothing": ({"prompt_cache_key": "key"}, {"x-session-id": " "}, "key"),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_may_have_any_name(api: Api, engine: ScriptedEngine, name: str) -> None:
    """[F4]: it is compared and never printed."""
    fields, headers, session = SESSIONS[name]
    answer = api.post(CHAT, json.dumps({"messages": USER, **fields}).encode(), headers=headers)
    assert answer.status_code == 200, answer.text
    assert engine.requests[-1].plan.session == session


@pytest.mark.parametrize("length", [1025, 100_000])
def test_a_session_name_without_end_is_refused(api: Api, engine: ScriptedEngine, length: int) -> None:
    """Also the one that would not have counted."""
    for fields, headers, param in (
        ({}, {"x-session-id": "x" * length}, "x-session-id"),
        ({"prompt_cache_key": "x" * length}, {"x-session-id": "a"}, "prompt_cache_key"),
    ):
        answer = api.post(CHAT, {"messages": USER, **fields}, headers=headers)
        check_error(answer, 400, param, VALUE)
    assert engine.requests == []


def test_a_marker_on_a_function_is_a_marker_on_its_tool(api: Api) -> None:
    """[D12]: it is no part of what the template prints."""
    function = {"name": "f", "description": "d"}
    declared = {"type": "function", "function": function}
    inside = {"type": "function", "function": function | MARK}
    for body in (inside, inside | MARK, declared | MARK):
        assert split_tool(body, "tools[0]") == (declared, MarkerUse.SHARED)
        assert api.post(CHAT, {"messages": USER, "tools": [body]}).status_code == 200
