"""Cache markers, anchors and session names that cannot be taken: refused by path, before any engine work."""

from __future__ import annotations

from typing import Any

import pytest

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
    "session name too long": ({"messages": USER, "prompt_cache_key": "x" * 1025}, "prompt_cache_key", VALUE),
}


@pytest.mark.parametrize("name", MARKER_ERRORS)
def test_a_marker_that_cannot_be_taken_is_refused_by_path(api: Api, engine: ScriptedEngine, name: str) -> None:
    """JSON-01: 400 with the path."""
    fields, param, code = MARKER_ERRORS[name]
    check_error(api.post(CHAT, {"messages": USER, **fields}), 400, param, code)
    assert engine.requests == []
