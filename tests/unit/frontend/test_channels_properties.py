"""For any text: the same at every split, every word in exactly one place, and a round trip through the template."""

from __future__ import annotations

import json
import re
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_world import (
    ADD,
    LIST_TASKS,
    TOOLS,
    WRITE_FILE,
    appending,
    arguments_of,
    assistant,
    calls_of,
    chat,
    content_of,
    counted_ids,
    parse_pieces,
    parser_for,
    reasoning_of,
    result,
    stripping,
    text_of,
    user,
)

from ninfer.base.buffers import IntBuffer
from ninfer.frontend.channels import ChannelEvent
from ninfer.frontend.frontend import Frontend
from ninfer.frontend.messages import ChatInput, Message, PastToolCall

FRAGMENTS = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<function=add>",
    "<function=list_tasks>",
    "<function=rm_all>",
    "</function>",
    "<parameter=a>",
    "<parameter=note>",
    "<parameter=x>",
    "</parameter>",
    "<tool",
    "<",
    "\n",
    "\n\n",
    " ",
    "<tool_call>\n<function=add>\n<parameter=note>\n",
    "\n</parameter>\n</function>\n</tool_call>",
    "\n</parameter>\n<parameter=a>\n",
    "<tool_call>\n<function=list_tasks>\n</function>\n</tool_call>",
]


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """Structure and words in any order; each word occurs once."""
    parts = draw(st.lists(st.sampled_from([*FRAGMENTS, "word"]), max_size=16))
    return "".join(f"w{number}w" if part == "word" else part for number, part in enumerate(parts))


@st.composite
def pieces_of(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=12)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@settings(max_examples=500, deadline=None, derandomize=True)
@given(scripts(), st.booleans(), st.booleans(), st.data())
def test_the_split_does_not_matter(text: str, thinking: bool, truncated: bool, data: st.DataObject) -> None:
    """[A] TOOL-07 SAMP-03: random cuts, one character at a time, all at once: the same events."""
    whole = parse_pieces([text], thinking=thinking, truncated=truncated)
    assert parse_pieces(text, thinking=thinking, truncated=truncated) == whole
    pieces = data.draw(pieces_of(text))
    assert parse_pieces(pieces, thinking=thinking, truncated=truncated) == whole


def words_of(events: list[ChannelEvent]) -> list[str]:
    told = content_of(events) + reasoning_of(events) + "".join(call.arguments for call in calls_of(events))
    return re.findall(r"w\d+w", told)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(scripts(), st.booleans(), st.booleans())
def test_every_word_comes_out_in_exactly_one_place(text: str, thinking: bool, truncated: bool) -> None:
    """[A] nothing lost, nothing doubled, in order; without calls the text itself comes out."""
    events = parse_pieces([text], thinking=thinking, truncated=truncated)
    assert Counter(words_of(events)) == Counter(re.findall(r"w\d+w", text))
    for call in calls_of(events):
        assert call.name in {tool.name for tool in TOOLS}
        assert isinstance(json.loads(call.arguments), dict)
    assert [call.index for call in calls_of(events)] == list(range(len(calls_of(events))))
    if not calls_of(events):
        told = reasoning_of(events) + content_of(events)
        missing = Counter(text.replace("\n", "")) - Counter(told.replace("\n", ""))
        budget = Counter("<think>" + "</think>") + Counter({" ": text.count(" ")})
        assert not missing - budget, "only one pair of think markers and space around it may go"
        assert not Counter(told) - Counter(text)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.text(alphabet="<>/=_abcdefghilmnoprtuk\n ", max_size=60), st.booleans())
def test_text_without_tags_is_delivered_to_the_letter(text: str, truncated: bool) -> None:
    """TOOL-07"""
    events = parse_pieces(text, truncated=truncated)
    if not any(marker in text for marker in ("<tool_call>", "<think>", "</think>")):
        assert content_of(events) == text
        assert parse_pieces([text], (), truncated=truncated) == events


visible = st.text(alphabet="abc .,<>{}\"'/\\\n日é🙂-1", max_size=30)
values = st.one_of(
    visible,
    st.lists(
        st.sampled_from(
            [
                "<parameter=x>",
                "</parameter>",
                "</function>",
                "</tool_call>",
                "<tool_call>",
                "<function=add>",
                "text",
                "",
            ]
        ),
        max_size=6,
    ).map("\n".join),
)
written_calls = st.one_of(
    st.fixed_dictionaries({"path": visible, "content": values}).map(lambda a: ("write_file", a)),
    st.fixed_dictionaries({"a": st.integers() | st.floats(allow_nan=False, allow_infinity=False)}).map(
        lambda a: ("add", a)
    ),
    st.just(("list_tasks", {})),
)


def in_template_form(content: str, calls: list[tuple[str, dict[str, object]]]) -> str:
    text = content
    for number, (name, arguments) in enumerate(calls):
        text += "\n" if number else "\n\n" if content else ""
        body = "".join(
            f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
            for key, value in arguments.items()
        )
        text += f"<tool_call>\n<function={name}>\n{body}</function>\n</tool_call>"
    return text


def stray_closing(value: object) -> bool:
    """Whether a value holds lines that could be the call's own structure: then text is a legal answer as well."""
    lines = str(value).split("\n")
    return "</parameter>" in lines or any(line.startswith("<parameter=") for line in lines)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(visible.map(str.strip), st.lists(written_calls, max_size=3), st.booleans())
def test_calls_in_template_form_are_exact_or_text(
    content: str, calls: list[tuple[str, dict[str, object]]], one_by_one: bool
) -> None:
    """TOOL-01 TOOL-04 TOOL-08: the very arguments written; where a value leaves a doubt about structure, text."""
    text = in_template_form(content, calls)
    events = parse_pieces(text if one_by_one else [text])
    doubtful = any(stray_closing(value) for _, arguments in calls for value in arguments.values())
    if not doubtful:
        assert arguments_of(events) == calls
        assert content_of(events) == content
    for name, arguments in arguments_of(events):
        assert any(name == given_name for given_name, _ in calls)
        if not doubtful:
            assert (name, arguments) in calls


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    st.lists(
        # An empty thought is written as two newlines, one of them the header's: no tokenizer has them as two tokens.
        st.tuples(visible.map(str.strip).filter(bool), visible.map(str.strip), st.lists(written_calls, max_size=2)),
        min_size=1,
        max_size=3,
    ),
    st.booleans(),
)
def test_what_the_model_wrote_is_what_the_next_prompt_says(
    turns: list[tuple[str, str, list[tuple[str, dict[str, object]]]]], thinking: bool
) -> None:
    """[A] HYB-01: text -> channels -> the client echoes the message -> template: the same tokens, so E is hit."""
    frontend = appending()
    tools = (WRITE_FILE, ADD, LIST_TASKS)
    messages: list[Message] = []
    for reasoning, content, calls in turns:
        asked: Message = user("next") if not messages or not messages[-1].tool_calls else result("done", "c")
        messages.append(asked)
        request = chat(*messages, tools=tools, enable_thinking=thinking)
        plan = frontend.plan_chat(request)
        assert plan.opens_thinking == thinking
        text = (f"{reasoning}\n</think>\n\n" if thinking else "") + in_template_form(content, calls)
        if "<tool_call>" in content or "think>" in reasoning + content:
            return
        parser = frontend.channel_parser(plan, request, counted_ids())
        events = [*parser.push(text), *parser.finish(False)]
        messages.append(echoed(events))
        following = chat(*messages, user("more"), tools=tools, enable_thinking=thinking)
        again = frontend.plan_chat(following)
        if len(calls_of(events)) == len(calls):
            assert frontend.render(following).startswith(frontend.render(request) + text + "<|im_end|>\n")
            if not any("<tool_call>" in str(call) or "</tool_call>" in str(call) for call in calls):
                generated = frontend.plan_text(text + "<|im_end|>\n").tokens
                assert again.tokens.starts_with(IntBuffer(plan.tokens.to_bytes() + generated.to_bytes()))
        assert again.tokens.common_prefix(plan.tokens) >= plan.rewrite_point


def echoed(events: list[ChannelEvent]) -> Message:
    """The assistant message as a client sends it back."""
    calls = tuple(PastToolCall(call.name, call.arguments, call.id) for call in calls_of(events))
    return assistant(content_of(events), *calls, reasoning=reasoning_of(events) or None)


@pytest.mark.parametrize("make", [appending, stripping])
def test_an_agent_round_trip_appends(make: object) -> None:
    """CACHE-06 HYB-01: a call, its result and the answer, within one open turn, only append."""
    frontend: Frontend = make()
    request = chat(user("Add 2."), tools=[ADD], enable_thinking=True)
    plan = frontend.plan_chat(request)
    text = "I need the tool.\n</think>\n\nAdding.\n\n" + in_template_form("", [("add", {"a": 2, "note": "x"})])
    parser = frontend.channel_parser(plan, request, counted_ids())
    message = echoed([*parser.push(text), *parser.finish(False)])
    more = ChatInput(
        (*request.messages, message, result("4", message.tool_calls[0].id)), request.tools, request.template_kwargs
    )
    expected = frontend.render(request) + text + "<|im_end|>\n"
    longer = frontend.plan_chat(more)
    assert text_of(frontend, longer.tokens).startswith(expected)
    assert longer.tokens.starts_with(frontend.plan_text(expected).tokens)


def test_long_outputs_cost_linear_time() -> None:
    """A long value, pushed in small pieces, and thousands of markers: no quadratic scans."""
    line = "x" * 50
    long_file = "<tool_call>\n<function=write_file>\n<parameter=content>\n" + f"{line}\n" * 8000
    one_line = "<tool_call>\n<function=write_file>\n<parameter=content>\n" + line * 8000
    markers = "<tool_call>\n<function=add>\n<parameter=a>\n" * 8000
    mentions = "<tool_call> " * 30_000
    ends = "<tool_call>\n<function=add>\n</function>\n</tool_call>\nx\n" * 6000
    inline = "<tool_call><function=add></function></tool_call>x" * 8000
    for text in (long_file, one_line, markers, mentions, ends, inline):
        for thinking in (False, True):
            started = time.process_time()
            parser = parser_for(thinking=thinking)
            events = [event for at in range(0, len(text), 40) for event in parser.push(text[at : at + 40])]
            events += parser.finish(False)
            assert time.process_time() - started < 3, text[:60]
            told = content_of(events) + reasoning_of(events)
            assert len(told) + sum(len(call.arguments) for call in calls_of(events)) > 0
