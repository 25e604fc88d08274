"""Frontends and conversations that the tests of this folder share."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from ninfer.frontend.channels import ChannelEvent, ChannelParser, ContentDelta, ReasoningDelta, ToolCall
from ninfer.frontend.frontend import Frontend
from ninfer.frontend.messages import ChatInput, Message, PastToolCall, Role, ToolSpec

ROOT = Path(__file__).resolve().parents[3]
FIXTURE_DIR = ROOT / "tests" / "data" / "fixtures" / "dense_text"
COMMON_DIR = ROOT / "tests" / "data" / "fixtures" / "common"
BUNDLED_DIR = ROOT / "src" / "ninfer" / "bundled_model"
IDENTITY = b"identity of the tests"


@cache
def frontend_of(model_dir: Path) -> Frontend:
    return Frontend.from_dir(model_dir, IDENTITY, 8192)


def stripping() -> Frontend:
    """A template that takes the thinking out of closed turns (and wants a user message)."""
    return frontend_of(FIXTURE_DIR)


def appending() -> Frontend:
    """The bundled model's template: history is append-only."""
    return frontend_of(BUNDLED_DIR)


def text_of(frontend: Frontend, tokens: Iterable[int]) -> str:
    return b"".join(frontend.token_bytes(token) for token in tokens).decode()


def tool(name: str, properties: dict[str, object] | None = None, **schema: object) -> ToolSpec:
    function: dict[str, object] = {"name": name, "description": f"Does {name}."}
    if properties is not None:
        function["parameters"] = {"type": "object", "properties": properties, **schema}
    return ToolSpec(name, {"type": "function", "function": function})


STRING = {"type": "string"}
WRITE_FILE = tool("write_file", {"path": STRING, "content": STRING}, required=["path", "content"])
ADD = tool("add", {"a": {"type": "number"}, "note": STRING})
LIST_TASKS = tool("list_tasks", {})
NO_SCHEMA = tool("ping")
TOOLS = (WRITE_FILE, ADD, LIST_TASKS, NO_SCHEMA)


def user(text: str) -> Message:
    return Message(Role.USER, text)


def assistant(text: str | None, *calls: PastToolCall, reasoning: str | None = None) -> Message:
    return Message(Role.ASSISTANT, text, calls, reasoning)


def result(text: str, call_id: str | None = None) -> Message:
    return Message(Role.TOOL, text, tool_call_id=call_id)


def chat(*messages: Message, tools: Sequence[ToolSpec] = (), **kwargs: object) -> ChatInput:
    return ChatInput(tuple(messages), tuple(tools), kwargs)


def counted_ids() -> Callable[[], str]:
    numbers = itertools.count()
    return lambda: f"call_{next(numbers)}"


def parser_for(tools: Sequence[ToolSpec] = TOOLS, *, thinking: bool = False) -> ChannelParser:
    return ChannelParser(tools, opens_thinking=thinking, new_call_id=counted_ids())


def parse_pieces(
    pieces: Iterable[str], tools: Sequence[ToolSpec] = TOOLS, *, thinking: bool = False, truncated: bool = False
) -> list[ChannelEvent]:
    """Events of a text given in pieces, neighbours of one kind joined: what a client that joins deltas has."""
    parser = parser_for(tools, thinking=thinking)
    events = [event for piece in pieces for event in parser.push(piece)]
    return join_events([*events, *parser.finish(truncated)])


def join_events(events: Iterable[ChannelEvent]) -> list[ChannelEvent]:
    joined: list[ChannelEvent] = []
    for event in events:
        last = joined[-1] if joined else None
        if isinstance(event, ContentDelta) and isinstance(last, ContentDelta):
            joined[-1] = ContentDelta(last.text + event.text)
        elif isinstance(event, ReasoningDelta) and isinstance(last, ReasoningDelta):
            joined[-1] = ReasoningDelta(last.text + event.text)
        else:
            joined.append(event)
    return joined


def content_of(events: Iterable[ChannelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ContentDelta))


def reasoning_of(events: Iterable[ChannelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ReasoningDelta))


def calls_of(events: Iterable[ChannelEvent]) -> list[ToolCall]:
    return [event for event in events if isinstance(event, ToolCall)]


def arguments_of(events: Iterable[ChannelEvent]) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in calls_of(events)]


def as_hugging_face(chat_input: ChatInput) -> list[dict[str, object]]:
    """The messages as a caller of the reference renderer would write them."""
    written: list[dict[str, object]] = []
    for message in chat_input.messages:
        content = message.content
        entry: dict[str, object] = {"role": message.role.value}
        if isinstance(content, tuple):
            entry["content"] = [{"type": "text", "text": part.text} for part in content]
        else:
            entry["content"] = content or ""
        if message.reasoning_content is not None:
            entry["reasoning_content"] = message.reasoning_content
        if message.tool_calls:
            entry["tool_calls"] = [
                {
                    "type": "function",
                    "id": call.id,
                    "function": {"name": call.name, "arguments": json.loads(call.arguments)},
                }
                for call in message.tool_calls
            ]
        if message.tool_call_id is not None:
            entry["tool_call_id"] = message.tool_call_id
        written.append(entry)
    return written


words = st.text(alphabet="abc XY.\n\t{}\"'<>/=é日🙂\u0301-0", max_size=24)
"""Text that spells no control token."""

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def conversations(draw: st.DrawFn, *, rounds: int = 3) -> ChatInput:
    """A legal conversation: system or none, user turns, answers, calls with their results, a user or tool tail."""
    messages: list[Message] = []
    if draw(st.booleans()):
        messages.append(Message(Role.SYSTEM, draw(words)))
    for turn in range(draw(st.integers(1, rounds))):
        messages.append(user(draw(words)))
        for step in range(draw(st.integers(0, 2))):
            count = draw(st.integers(1, 2))
            ids = [f"id{turn}{step}{number}" for number in range(count)]
            calls = [
                PastToolCall("add", json.dumps(draw(st.dictionaries(words, json_values, max_size=3))), call_id)
                for call_id in ids
            ]
            messages.append(assistant(draw(words), *calls, reasoning=draw(st.none() | words)))
            messages += [result(draw(words), call_id) for call_id in ids]
        messages.append(assistant(draw(words), reasoning=draw(st.none() | words)))
    if draw(st.booleans()) or messages[-1].role is not Role.TOOL:
        messages.append(user(draw(words)))
    kwargs: dict[str, object] = {}
    for name in ("enable_thinking", "preserve_thinking"):
        choice = draw(st.none() | st.booleans())
        if choice is not None:
            kwargs[name] = choice
    return ChatInput(tuple(messages), (ADD, LIST_TASKS) if draw(st.booleans()) else (), kwargs)
