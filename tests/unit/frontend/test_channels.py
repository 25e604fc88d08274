"""What each written answer becomes, at every split: calls, reasoning, content; nothing lost, nothing cut."""

from __future__ import annotations

import json

import pytest
from text_world import (
    ADD,
    LIST_TASKS,
    STRING,
    TOOLS,
    WRITE_FILE,
    arguments_of,
    calls_of,
    content_of,
    parse_pieces,
    parser_for,
    reasoning_of,
    tool,
)

from ninfer.frontend.channels import ChannelEvent, ContentDelta, ReasoningDelta, ToolCall
from ninfer.frontend.messages import ToolSpec


def parse(
    text: str, tools: tuple[ToolSpec, ...] = TOOLS, *, thinking: bool = False, truncated: bool = False
) -> list[ChannelEvent]:
    """Events of the text; the same for all splits in two, one character at a time and all at once."""
    whole = parse_pieces([text], tools, thinking=thinking, truncated=truncated)
    assert parse_pieces(text, tools, thinking=thinking, truncated=truncated) == whole
    for cut in range(1, len(text)):
        assert parse_pieces([text[:cut], text[cut:]], tools, thinking=thinking, truncated=truncated) == whole
    return whole


def written(name: str, **parameters: str) -> str:
    """A call in the template's form."""
    body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters.items())
    return f"<tool_call>\n<function={name}>\n{body}</function>\n</tool_call>"


DOUBTFUL_VALUES = {
    "inline markers": "A block ends with </tool_call> here.\nAnd </parameter> there.\nDone.",
    "balanced parameter": "before\n<parameter=x>\ninner\n</parameter>\nafter",
    "balanced parameter at the end": "before\n<parameter=x>\ninner\n</parameter>",
    "whole call": "Like this:\n" + written("write_file", path="a", content="b") + "\nSee?",
    "only a call": written("add", a="1"),
    "two calls": written("add", a="1") + "\n" + written("list_tasks"),
    "function end": "x\n</function>\ny",
    "call end": "x\n</tool_call>\ny",
    "both ends": "x\n</function>\n</tool_call>\ny",
    "all ends": "x\n</parameter>\n</function>\n</tool_call>\ny",
    "all ends, twice": "x\n</parameter>\n</function>\n</tool_call>\ny\n</parameter>\n</function>\n</tool_call>\nz",
    "lone end line": "x\n</parameter>\ny",
    "lone end line at the end": "x\n</parameter>",
    "think markers": "<think>\nx\n</think>",
    "blank lines": "\n\nx\n\n",
    "empty": "",
    "one newline": "\n",
    "braces": "echo '}' && awk '{print \"\\\\\"}' x",
    "looks like JSON": '{"a": 1}',
    "angle brackets": "2 < 3 > 1 <b>bold</b> <",
    "spaces": "  indented\n\ttabbed  ",
    "windows lines": "a\r\nb\r\n",
    "opener": "<tool_call>",
    "unicode": "日本 🧑‍🚀 e\u0301",
}


@pytest.mark.parametrize("value", DOUBTFUL_VALUES.values(), ids=DOUBTFUL_VALUES)
def test_a_string_value_is_exact_whatever_it_contains(value: str) -> None:
    """TOOL-01 TOOL-04: exact value, not one character of it anywhere else."""
    events = parse(written("write_file", path="notes/a.md", content=value))
    assert arguments_of(events) == [("write_file", {"path": "notes/a.md", "content": value})]
    assert content_of(events) == ""


@pytest.mark.parametrize("value", DOUBTFUL_VALUES.values(), ids=DOUBTFUL_VALUES)
def test_a_doubtful_value_does_not_disturb_its_neighbours(value: str) -> None:
    """TOOL-01 TOOL-04 TOOL-08: between other parameters, between other calls, between texts."""
    first = written("write_file", content=value, path="p")
    text = f"I will look.\n\n{first}\n{written('add', a='2', note='Tokyo')}\n{written('list_tasks')}"
    events = parse_pieces([text])
    expected = [("write_file", {"content": value, "path": "p"}), ("add", {"a": 2, "note": "Tokyo"}), ("list_tasks", {})]
    if arguments_of(events) == expected:
        assert content_of(events) == "I will look."
    else:  # several readings: then it is text, to the letter
        assert "all ends" in next(name for name, other in DOUBTFUL_VALUES.items() if other == value)
        assert content_of(events).startswith(f"I will look.\n\n{first}")
    assert parse_pieces(text) == events


def test_an_unbalanced_opener_inside_a_value_is_recovered_or_text() -> None:
    """TOOL-01: a lone `<parameter=x>` line in a file; never a truncated value."""
    for key in ("x", "path", "content"):
        text = written("write_file", path="p", content=f"before\n<parameter={key}>\nafter")
        events = parse(text)
        assert calls_of(events) == []
        assert content_of(events) == text


def test_two_calls_with_the_same_parameter_keep_their_own() -> None:
    """TOOL-04 TOOL-08"""
    events = parse(written("add", note="Paris") + "\n" + written("add", note="Tokyo"))
    assert arguments_of(events) == [("add", {"note": "Paris"}), ("add", {"note": "Tokyo"})]
    assert [call.index for call in calls_of(events)] == [0, 1]
    assert len({call.id for call in calls_of(events)}) == 2


@pytest.mark.parametrize("name", ["list_tasks", "ping"])
@pytest.mark.parametrize("blank", ["", "\n"])
def test_a_call_without_arguments_has_an_empty_object(name: str, blank: str) -> None:
    """TOOL-05: "{}", with an empty schema and with none; a call that follows keeps its own."""
    text = f"<tool_call>\n<function={name}>\n{blank}</function>\n</tool_call>"
    assert [call.arguments for call in calls_of(parse(text))] == ["{}"]
    followed = parse(text + "\n" + written("add", a="1"))
    assert [call.arguments for call in calls_of(followed)] == ["{}", '{"a": 1}']


def test_text_before_a_call_is_content_without_markup() -> None:
    """TOOL-07"""
    events = parse("I will look. " + written("list_tasks"))
    assert events == [ContentDelta("I will look. "), ToolCall(0, "call_0", "list_tasks", "{}")]


@pytest.mark.parametrize(
    "text",
    [
        "2 < 3 and <tool is a word>",
        "text that ends in <tool_ca",
        "<tool_call> is a tag, <function=add> too",
        "<tool_call>\n<function=ad",
        "<tool_call>",
        "<tool_call>\n\n",
        "a\n<",
        "\n\n",
        "  ",
        "a\n\n",
        "<tool_call>" * 12 + "\n<function=add>",
        "<tool_call>" + " " * 70 + "<function=add>\n</function>\n</tool_call>",
        "<tool_call>\n<function=add>\nnot a parameter\n</function>\n</tool_call>",
        '<tool_call>\n{"name": "add", "arguments": {}}\n</tool_call>',
        "<tool_call>\n<function=" + "x" * 300 + ">\n</function>\n</tool_call>",
        "Call it so:\n</function>\n</tool_call>\n</parameter>",
    ],
)
def test_text_that_is_no_call_is_delivered_whole(text: str) -> None:
    """TOOL-07 TOOL-12: nothing is lost at the end of the stream."""
    for truncated in (False, True):
        assert parse(text, truncated=truncated) == [ContentDelta(text)]


def test_text_flows_while_it_cannot_be_a_marker() -> None:
    """TOOL-07: only what could still be a marker, or blank lines before one, is held back."""
    parser = parser_for()
    assert parser.push("2 < 3 and ") == [ContentDelta("2 < 3 and ")]
    assert parser.push("<tool") == []
    assert parser.push(" is") == [ContentDelta("<tool is")]
    assert parser.push("\n\n<tool_call>\n<func") == []
    assert parser.push("y") == [ContentDelta("\n\n<tool_call>\n<funcy")]
    assert parser.push(written("add", a="1")) == []
    assert [type(event) for event in parser.push("\n" + written("list_tasks"))] == [ToolCall]
    assert [type(event) for event in parser.finish(False)] == [ToolCall]


def test_undeclared_calls_and_switched_off_tools_are_text() -> None:
    """TOOL-10"""
    text = "So: " + written("rm_all", path="/") + "\nDone."
    assert parse(text) == [ContentDelta(text)]
    declared = written("add", a="1")
    assert parse(declared, ()) == [ContentDelta(declared)]
    inside = f"<tool_call>\n<function=rm_all>\n<parameter=x>\n{declared}\n</parameter>\n</function>\n</tool_call>"
    assert parse(inside) == [ContentDelta(inside)]
    assert parse(inside, truncated=True) == [ContentDelta(inside)]
    both = parse(inside + "\n" + declared)
    assert (content_of(both), len(calls_of(both))) == (inside, 1)
    for broken in MISSING_TAGS.values():
        assert parse(broken.replace("=add>", "=rm_all>")) == [ContentDelta(broken.replace("=add>", "=rm_all>"))]


OPEN, CLOSE = "<tool_call>\n<function=add>\n", "</function>\n</tool_call>"
NOTE = "<parameter=note>\nx y\n</parameter>\n"
MISSING_TAGS = {
    "no </parameter>": OPEN + "<parameter=note>\nx y\n" + CLOSE,
    "no </tool_call>": OPEN + NOTE + "</function>",
    "no </tool_call>, newline": OPEN + NOTE + "</function>\n",
    "neither": OPEN + "<parameter=note>\nx y\n</function>",
    "doubled opener": "<tool_call>\n" + OPEN + NOTE + CLOSE,
    "doubled both": "<tool_call>\n" + OPEN + NOTE + CLOSE + "\n</tool_call>",
    "one line": "<tool_call><function=add><parameter=note>x y</parameter></function></tool_call>",
    "value on the tag's line": OPEN + "<parameter=note>x y</parameter>\n" + CLOSE,
    "end on the value's line": OPEN + "<parameter=note>\nx y</parameter>\n" + CLOSE,
    "head on one line": "<tool_call> <function=add>\n" + NOTE + CLOSE,
    "blank lines": "<tool_call>\n\n<function=add>\n\n" + NOTE + "\n</function>\n\n</tool_call>",
    "ends joined": OPEN + "<parameter=note>\nx y\n</parameter></function></tool_call>",
}


@pytest.mark.parametrize("text", MISSING_TAGS.values(), ids=MISSING_TAGS)
def test_missing_or_misplaced_tags_are_recovered(text: str) -> None:
    """TOOL-02: a finished output whose structure has one reading gives the call with the right value."""
    events = parse(text)
    assert arguments_of(events) == [("add", {"note": "x y"})]
    assert content_of(events).strip() == ""


def test_a_tolerant_reading_explains_every_tag_or_is_none() -> None:
    """TOOL-02: tags left over behind the call mean that it ended elsewhere."""
    for left in ("</parameter>", "</function>", "</tool_call>", "<parameter=a>1", "so <tool_call> ends"):
        text = MISSING_TAGS["one line"] + " " + left
        assert parse(text) == [ContentDelta(text)]
    told = parse(MISSING_TAGS["one line"] + " and done")
    assert (content_of(told), len(calls_of(told))) == (" and done", 1)


def test_a_missing_end_before_another_call_is_recovered() -> None:
    """TOOL-02 TOOL-08"""
    for broken in (MISSING_TAGS["no </parameter>"], MISSING_TAGS["no </tool_call>"], MISSING_TAGS["one line"]):
        events = parse(broken + "\n" + written("list_tasks"))
        assert arguments_of(events) == [("add", {"note": "x y"}), ("list_tasks", {})]


def test_a_value_ends_where_a_required_parameter_begins() -> None:
    """TOOL-02: the only reading that makes the call legal; otherwise text."""
    text = written("write_file", path="p", content="c").replace("</parameter>\n", "", 1)
    assert arguments_of(parse(text)) == [("write_file", {"path": "p", "content": "c"})]
    again = text.replace("=content", "=path")
    assert parse(again) == [ContentDelta(again)]
    optional = text.replace("write_file", "add").replace("=path", "=a").replace("=content", "=note")
    assert parse(optional) == [ContentDelta(optional)]


@pytest.mark.parametrize(
    "call", [written("write_file", path="p", content="one\ntwo"), *list(MISSING_TAGS.values())[:4]]
)
def test_a_call_cut_off_is_text(call: str) -> None:
    """TOOL-02 TOOL-12 STATE-08: cut by a limit anywhere before its last tag: no call, all text there."""
    for length in range(1, call.rfind("</tool_call>") if "</tool_call>" in call else len(call)):
        text = "Before " + call[:length]
        events = parse_pieces(text, truncated=True)
        assert events == [ContentDelta(text)]
        assert parse_pieces([text], truncated=True) == events
    if call.endswith("</parameter>\n</function>\n</tool_call>"):
        assert len(calls_of(parse(call, truncated=True))) == 1


def test_a_file_cut_off_behind_an_inner_end_is_text() -> None:
    """TOOL-01 TOOL-12: what looks complete may be the middle of a value; a truncated output does not decide it."""
    text = written("write_file", path="p", content="x") + "\nmore of the file"
    assert parse(text, truncated=True) == [ContentDelta(text)]
    finished = parse(text)
    assert len(calls_of(finished)) == 1
    assert content_of(finished) == "\nmore of the file"


def test_a_second_call_cut_off_leaves_the_first() -> None:
    """TOOL-12"""
    first, second = written("add", a="1"), written("add", a="2")
    for length in range(len(second) - 1):
        events = parse_pieces([first + "\n" + second[:length]], truncated=True)
        assert arguments_of(events) == [("add", {"a": 1})]
        assert content_of(events).strip() == second[:length].strip()


def test_a_parameter_given_twice_makes_it_text() -> None:
    text = "<tool_call>\n<function=add>\n" + "<parameter=a>\n1\n</parameter>\n" * 2 + "</function>\n</tool_call>"
    assert parse(text) == [ContentDelta(text)]


def test_text_behind_a_call_is_content() -> None:
    events = parse("A\n\n" + written("list_tasks") + "\n\nB")
    assert events == [ContentDelta("A"), ToolCall(0, "call_0", "list_tasks", "{}"), ContentDelta("\n\nB")]
    between = parse(written("list_tasks") + "\nand then\n" + written("add", a="1") + "\n")
    assert content_of(between) == "\nand then"
    assert len(calls_of(between)) == 2


TYPED = tool(
    "typed",
    {
        "text": STRING,
        "number": {"type": "number"},
        "count": {"type": "integer"},
        "flag": {"type": "boolean"},
        "list": {"type": "array"},
        "map": {"type": "object"},
        "none": {"type": "null"},
        "maybe": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "pick": {"enum": ["1", "2"]},
        "level": {"enum": [1, 2]},
        "ref": {"$ref": "#/$defs/point"},
        "loop": {"$ref": "#/$defs/loop"},
        "lost": {"$ref": "#/$defs/nowhere"},
        "fixed": {"const": 3},
        "both": {"allOf": [{"type": "integer"}, {"minimum": 1}]},
        "any": {},
        "odd": True,
    },
    **{"$defs": {"point": {"type": "object"}, "loop": {"$ref": "#/$defs/loop"}}},
)
VALUES: list[tuple[str, str, object]] = [
    ("text", "5", "5"),
    ("text", '"quoted"', '"quoted"'),
    ("text", "null", "null"),
    ("number", "5", 5),
    ("number", "-2.50", -2.5),
    ("number", "1e999", "1e999"),
    ("number", "NaN", "NaN"),
    ("number", "five", "five"),
    ("number", "true", "true"),
    ("number", "9" * 5000, "9" * 5000),
    ("count", "7", 7),
    ("count", " 7 ", 7),
    ("count", "7.5", "7.5"),
    ("flag", "true", True),
    ("flag", "False", False),
    ("flag", "yes", "yes"),
    ("list", '["a", {"b": [1, null]}]', ["a", {"b": [1, None]}]),
    ("list", "[1, 2", "[1, 2"),
    ("list", "[" * 100_000, "[" * 100_000),
    ("map", '{"k": "}"}', {"k": "}"}),
    ("map", "[1]", "[1]"),
    ("none", "None", None),
    ("none", "null", None),
    ("maybe", "null", None),
    ("maybe", "5", "5"),
    ("either", "5", 5),
    ("either", "5.5", "5.5"),
    ("pick", "1", "1"),
    ("level", "1", 1),
    ("ref", '{"x": 1}', {"x": 1}),
    ("loop", "1", 1),
    ("lost", "1", 1),
    ("fixed", "3", 3),
    ("both", "4", 4),
    ("any", "5", 5),
    ("any", '"s"', '"s"'),
    ("any", "plain words", "plain words"),
    ("odd", "[1]", [1]),
    ("undeclared", "5", "5"),
]


@pytest.mark.parametrize(("key", "text", "expected"), VALUES, ids=[f"{key}-{text[:12]}" for key, text, _ in VALUES])
def test_values_have_the_type_of_the_schema(key: str, text: str, expected: object) -> None:
    """[A] string where the schema says so; JSON where it parses to an allowed type; otherwise a string."""
    events = parse_pieces([written("typed", **{key: text})], (TYPED,))
    (call,) = calls_of(events)
    value = json.loads(call.arguments)[key]
    assert value == expected
    assert type(value) is type(expected)
    json.dumps(value, allow_nan=False)


@pytest.mark.parametrize("depth", [100, 400, 900, 960, 985, 990, 995, 1000, 3000])
def test_deep_values_never_raise(depth: int) -> None:
    """TOOL-02: at any depth a value is JSON or a string."""
    text = "[" * depth + "]" * depth
    (call,) = calls_of(parse_pieces([written("typed", list=text)], (TYPED,)))
    assert text in call.arguments


def test_arguments_are_encodable_json() -> None:
    """LIMIT-03: an escaped lone surrogate inside a JSON value does not reach the wire."""
    (call,) = calls_of(parse_pieces([written("typed", list='["\\ud83d"]')], (TYPED,)))
    assert call.arguments.encode()
    assert json.loads(call.arguments) == {"list": ["\ufffd"]}


@pytest.mark.parametrize("name", ["mcp__srv-1__get.item", "a b", "x:y/z", "é"])
def test_odd_tool_names_round_trip(name: str) -> None:
    """TOOL-14"""
    (call,) = calls_of(parse(written(name, k="v"), (tool(name),)))
    assert (call.name, call.arguments) == (name, '{"k": "v"}')


def test_broken_schemas_do_not_matter() -> None:
    """TOOL-14: a schema is information."""
    for schema in ({"parameters": 5}, {"parameters": {"properties": []}}, {"parameters": {"properties": {"k": 7}}}):
        odd = ToolSpec("f", {"function": {"name": "f", **schema}})
        assert arguments_of(parse(written("f", k="v"), (odd,))) == [("f", {"k": "v"})]
    assert arguments_of(parse(written("f", k="v"), (ToolSpec("f", {"function": 3}),))) == [("f", {"k": "v"})]


def test_a_call_in_an_open_think_block_ends_the_thinking() -> None:
    """THINK-01"""
    call = written("add", a="1")
    expected = [ReasoningDelta("plan…"), ToolCall(0, "call_0", "add", '{"a": 1}')]
    assert parse(f"plan…\n{call}", thinking=True) == expected
    assert parse(f"plan…\n{call}\n</think>\n\n", thinking=True) == expected
    assert parse(f"plan…\n{call}\n{call}", thinking=True)[1:] != expected[1:]
    assert len(calls_of(parse(f"plan…\n{call}\n{call}", thinking=True))) == 2


def test_a_call_drafted_in_thinking_and_answered_is_reasoning() -> None:
    """THINK-01: the answer behind `</think>` is what counts; a draft is not called twice."""
    call = written("add", a="1")
    events = parse(f"draft:\n{call}\n</think>\n\n{call}", thinking=True)
    assert events == [ReasoningDelta(f"draft:\n{call}"), ToolCall(0, "call_0", "add", '{"a": 1}')]
    told = parse(f"draft:\n{call}\n</think>\n\nNo.", thinking=True)
    assert told == [ReasoningDelta(f"draft:\n{call}"), ContentDelta("No.")]
    cut = parse(f"draft:\n{call}\n</think>", thinking=True, truncated=True)
    assert cut == [ReasoningDelta(f"draft:\n{call}")]


@pytest.mark.parametrize(
    "mention",
    [
        "use <tool_call> here",
        "<tool_call>\n<function=rm>",
        "<tool_call>\n<function=add>\nhm",
        "<tool_call><function=add>",
    ],
)
def test_a_mention_in_thinking_is_reasoning(mention: str) -> None:
    """THINK-01"""
    assert parse(f"I could {mention} so", thinking=True) == [ReasoningDelta(f"I could {mention} so")]
    closed = parse(f"I could {mention} so\n</think>\n\nYes", thinking=True)
    assert closed == [ReasoningDelta(f"I could {mention} so"), ContentDelta("Yes")]


@pytest.mark.parametrize(
    ("text", "thinking", "reasoning", "content"),
    [
        ("</think>\n\nHi", False, "", "Hi"),
        ("\n </think>Hi", False, "", "Hi"),
        ("</think></think>x", False, "", "</think>x"),
        ("a</think>b</think>c", True, "a", "b</think>c"),
        ("a</think>Use `<think>` tags", True, "a", "Use `<think>` tags"),
        ("a\n</think>\n\nb", True, "a", "b"),
        ("\n\na\n\n</think>\n\n\nb\n", True, "a", "b\n"),
        ("\n</think>\n\nb", True, "", "b"),
        ("</think>b", True, "", "b"),
        ("<think>\na\n</think>\n\nb", True, "a", "b"),
        ("<think>\na\n</think>\n\nb", False, "a", "b"),
        ("\n<think>a", False, "a", ""),
        ("x <think> y </think>", False, "", "x <think> y </think>"),
        ("a <think> b </think>c", True, "a <think> b ", "c"),
        ("<think", False, "", "<think"),
        ("</thin", True, "</thin", ""),
        ("still thinking\n", True, "still thinking\n", ""),
        ("a </thinking> b", True, "a </thinking> b", ""),
        ("", True, "", ""),
        ("", False, "", ""),
        ("a</think>", True, "a", ""),
        ("a</think>\n \n b", True, "a", " \n b"),
    ],
)
def test_think_markers(text: str, thinking: bool, reasoning: str, content: str) -> None:
    """THINK-03 THINK-04: documented split, no loss, the same for all splits, cut off or not."""
    for truncated in (False, True):
        for tools in (TOOLS, ()):
            events = parse(text, tools, thinking=thinking, truncated=truncated)
            assert (reasoning_of(events), content_of(events)) == (reasoning, content)


def test_reasoning_flows() -> None:
    parser = parser_for((WRITE_FILE, ADD, LIST_TASKS), thinking=True)
    assert parser.push("\n") == []
    assert parser.push("one") == [ReasoningDelta("one")]
    assert parser.push("\n") == []
    assert parser.push("two</thi") == [ReasoningDelta("\ntwo")]
    assert parser.push("nk>\n") == []
    assert parser.push("x") == [ContentDelta("x")]
    assert parser.finish(False) == []
