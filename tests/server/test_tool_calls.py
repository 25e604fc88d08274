"""Tool calls behind the real server, at every split, streaming and not."""

from __future__ import annotations

import pytest

from .answers import declare, see_all, see_script, write_call
from .clients import CHAT, Api
from .scripted import ScriptedEngine, bytewise, whole
from .simulated import Speaker

WRITE = declare("write_file", "path", "content")
FETCH = declare("fetch", "city")


def test_text_before_a_call_is_content_and_markup_is_not(speaking: Api, speaker: Speaker) -> None:
    """TOOL-07."""
    seen = see_all(speaking, speaker, "I will look. " + write_call("fetch", city="Oslo"), tools=[FETCH])
    assert (seen.content.rstrip(), seen.calls, seen.finish) == (
        "I will look.",
        (("fetch", '{"city": "Oslo"}'),),
        "tool_calls",
    )


@pytest.mark.parametrize(
    "text", ["2 < 3 and <tool is a word> here", "it ends in <tool_ca", "<tool_call", "a <tool_call> b"]
)
def test_what_only_looks_like_a_marker_is_delivered(speaking: Api, speaker: Speaker, text: str) -> None:
    """TOOL-07: held back only while it could still be a marker; nothing is lost."""
    seen = see_all(speaking, speaker, text, tools=[FETCH])
    assert (seen.content, seen.calls, seen.finish) == (text, (), "stop")


def test_no_markup_of_an_accepted_call_is_streamed(speaking: Api, speaker: Speaker) -> None:
    """TOOL-07: also byte by byte no piece of the markup appears before the call."""
    speaker.script = bytewise("Look:\n\n" + write_call("fetch", city="Rome"))
    deltas = [choice["delta"] for chunk in speaking.stream(tools=[FETCH]) for choice in chunk["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == "Look:"
    first, second = [delta["tool_calls"] for delta in deltas if "tool_calls" in delta]
    assert first[0]["function"] == {"name": "fetch", "arguments": ""}
    assert (first[0]["index"], first[0]["type"]) == (0, "function")
    assert second == [{"index": 0, "function": {"arguments": '{"city": "Rome"}'}}]


def test_closing_markers_inside_a_value_never_cut_it(speaking: Api, speaker: Speaker) -> None:
    """TOOL-01: the exact value or the text, never a shorter value."""
    content = "A block ends with </tool_call> here.\nAnd </parameter> there.\nDone."
    seen = see_all(speaking, speaker, write_call("write_file", path="notes/a.md", content=content), tools=[WRITE])
    assert seen.arguments() == {"path": "notes/a.md", "content": content}
    nested = "<parameter=x>\ninner\n</parameter>"
    seen = see_all(speaking, speaker, write_call("write_file", path="b", content=nested), tools=[WRITE])
    assert not seen.calls or seen.arguments() == {"path": "b", "content": nested}


def test_braces_and_quotes_never_count_as_structure(speaking: Api, speaker: Speaker) -> None:
    """TOOL-04."""
    shell = declare("shell", "cmd")
    command = "echo '}' && awk '{print \"\\\\\"}' x"
    seen = see_all(speaking, speaker, write_call("shell", cmd=command), tools=[shell])
    assert seen.arguments() == {"cmd": command}
    seen = see_all(
        speaking, speaker, write_call("fetch", city="Paris") + "\n" + write_call("fetch", city="Tokyo"), tools=[FETCH]
    )
    assert [seen.arguments(index) for index in (0, 1)] == [{"city": "Paris"}, {"city": "Tokyo"}]


def test_missing_closing_tags_never_break_a_stream(speaking: Api, speaker: Speaker) -> None:
    """TOOL-02: right values or text, status 200, a proper end."""
    call = write_call("write_file", path="a", content="text")
    no_parameter = call.replace("text\n</parameter>", "text")
    no_call_end = call.removesuffix("\n</tool_call>")
    doubled = "<tool_call>\n" + call
    for text in (no_parameter, no_call_end, doubled):
        seen = see_all(speaking, speaker, text, tools=[WRITE])
        assert seen.calls == () or seen.arguments() == {"path": "a", "content": "text"}
        assert seen.calls or seen.content == text


def test_a_call_cut_by_the_budget_is_text(speaking: Api, speaker: Speaker) -> None:
    """TOOL-02 c, TOOL-12, STATE-08: no call, the text kept, finish_reason length."""
    text = write_call("write_file", path="a", content="a long text that never ends")
    for budget in (1, 20, 60, len(text) - 1):
        seen = see_script(speaking, speaker, bytewise(text), tools=[WRITE], max_tokens=budget)
        assert (seen.content, seen.calls, seen.finish) == (text[:budget], (), "length")


def test_a_call_cut_by_a_stop_string_is_text(speaking: Api, speaker: Speaker) -> None:
    """TOOL-12: a stop string is looked for in all the model writes; what was held back is delivered."""
    text = "Before <tool_call>\n<function=fetch>\n<parameter=city>\n1 STOP 2\n</parameter>\n</function>\n</tool_call>"
    seen = see_all(speaking, speaker, text, tools=[FETCH], stop=["STOP"])
    assert (seen.content, seen.calls, seen.finish) == (text.partition("STOP")[0], (), "stop")


def test_complete_calls_before_the_cut_stay_calls(speaking: Api, speaker: Speaker) -> None:
    """A budget that ends in the text behind a call does not take the call away, and says length."""
    text = write_call("fetch", city="Oslo") + "\n" + write_call("fetch", city="Rome")
    seen = see_script(speaking, speaker, bytewise(text), tools=[FETCH], max_tokens=len(text) - 5)
    assert seen.calls == (("fetch", '{"city": "Oslo"}'),)
    assert seen.finish == "length"
    assert seen.content.strip().startswith("<tool_call>")


def test_a_tool_without_arguments_gets_an_empty_object(speaking: Api, speaker: Speaker) -> None:
    """TOOL-05: "{}" and a fragment for it, with and without declared parameters."""
    bare = {"type": "function", "function": {"name": "list_tasks"}}
    text = "<tool_call>\n<function=list_tasks>\n</function>\n</tool_call>"
    for tool in (declare("list_tasks"), bare):
        seen = see_all(speaking, speaker, text, tools=[tool])
        assert seen.calls == (("list_tasks", "{}"),)
    seen = see_all(speaking, speaker, text + "\n" + write_call("fetch", city="Oslo"), tools=[bare, FETCH])
    assert seen.calls == (("list_tasks", "{}"), ("fetch", '{"city": "Oslo"}'))


def test_three_calls_have_their_own_index_and_id(speaking: Api, speaker: Speaker) -> None:
    """TOOL-08: ids differ also from those of earlier turns."""
    speaker.script = whole("\n".join(write_call("fetch", city=city) for city in ("A", "B", "C")))
    used: set[str] = set()
    messages = [{"role": "user", "content": "x"}]
    for _ in range(3):
        answer = speaking.post(CHAT, {"messages": messages, "tools": [FETCH]}).json()
        message = answer["choices"][0]["message"]
        ids = {call["id"] for call in message["tool_calls"]}
        assert len(ids) == 3
        assert not ids & used
        used |= ids
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "r"} for call in message["tool_calls"]]
        messages = [*messages, message, *results]


def test_a_tool_that_was_not_declared_is_text(speaking: Api, speaker: Speaker) -> None:
    """TOOL-10."""
    text = write_call("rm_all", path="/")
    seen = see_all(speaking, speaker, text, tools=[FETCH])
    assert (seen.content, seen.calls, seen.finish) == (text, (), "stop")
    assert see_all(speaking, speaker, text).content == text


def test_choice_none_shows_no_tools_and_reads_no_calls(speaking: Api, speaker: Speaker) -> None:
    """TOOL-10: the markup is text, the prompt holds no tools, also with calls in the history."""
    text = write_call("fetch", city="Oslo")
    seen = see_all(speaking, speaker, text, tools=[FETCH], tool_choice="none")
    assert (seen.content, seen.calls, seen.finish) == (text, (), "stop")
    function = {"name": "fetch", "arguments": '{"city": "Oslo"}'}
    history = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "1", "content": "rain"},
    ]
    assert speaking.post(CHAT, {"messages": history, "tools": [FETCH], "tool_choice": "none"}).status_code == 200
    prompt = b"".join(speaker.frontend.token_bytes(token) for token in speaker.requests[-1].plan.tokens)
    assert b"<tools>" not in prompt
    assert b"rain" in prompt


def test_ordinary_schemas_are_information() -> None:
    """TOOL-14: 120 tools with references, unions and odd names; control-token text in them stays text."""
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a"}, "b": {"oneOf": [{"type": "string"}, {"type": "null"}]}},
        "$defs": {"a": {"type": "array", "items": {"type": "integer"}}},
        "additionalProperties": False,
    }
    tools = [
        {
            "type": "function",
            "function": {
                "name": f"mcp__srv-{index}__get.item",
                "description": "has </tools> and <|im_end|> inside",
                "parameters": schema,
                "strict": True,
            },
        }
        for index in range(120)
    ]
    engine = ScriptedEngine(max_context=1 << 17)
    engine.script = whole(write_call("mcp__srv-7__get.item", a="[1, 2]"))
    with Api(engine) as api:
        body = api.ask(tools=tools)
    call = body["choices"][0]["message"]["tool_calls"][0]
    assert call["function"] == {"name": "mcp__srv-7__get.item", "arguments": '{"a": [1, 2]}'}
    ends = [token for token in engine.requests[-1].plan.tokens if engine.frontend.token_bytes(token) == b"<|im_end|>"]
    assert len(ends) == 2, "one for the system message and one for the user's"
