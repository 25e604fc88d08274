"""From typed messages to the plain dictionaries a template reads.

Puts tool results in call order, splits inline reasoning, keeps unparsable calls as text, protects control-token text
(escape.py). Tolerant to history: what a client may replay is rendered, not refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ninfer.base.errors import BadInput
from ninfer.frontend.escape import ControlText
from ninfer.frontend.messages import ChatInput, Content, Message, PastToolCall, Role, TextPart
from ninfer.frontend.template import RESERVED_NAMES

TemplateMessage = dict[str, object]

_LENIENT_JSON = json.JSONDecoder(strict=False)
_INLINE_REASONING = re.compile(r"\s*<think>(.*?)</think>\n*(.*)", re.DOTALL)
_SYSTEM_ROLES = (Role.SYSTEM, Role.DEVELOPER)


def shape_messages(chat: ChatInput, *, late_system: bool) -> list[Message]:
    """The conversation in the order and with the roles that the template prints.

    `late_system`: the template takes system messages anywhere. If it does not, the leading ones are joined into one
    and later ones are spoken by the user, in place, so that the history before them stays as it was (ANTH-01).
    Raises BadInput for an empty conversation.
    """
    if not chat.messages:
        raise BadInput("messages must not be empty", param="messages")
    messages = _in_call_order(chat.messages)
    return messages if late_system else _with_one_system(messages)


def list_template_messages(shaped: Sequence[Message], control: ControlText) -> list[TemplateMessage]:
    """The shaped conversation as the template gets it, message by message."""
    return [_template_message(message, control) for message in shaped]


def list_template_tools(chat: ChatInput, control: ControlText) -> list[dict[str, object]]:
    """The tools the template prints: as the caller sent them, protected."""
    tools: list[dict[str, object]] = []
    for place, tool in enumerate(chat.active_tools):
        try:
            escaped = control.escape_value(tool.raw)
        except RecursionError:
            raise BadInput("the tool is nested too deeply", param=f"tools[{place}]") from None
        assert isinstance(escaped, dict)
        tools.append(escaped)
    return tools


def protected_kwargs(chat: ChatInput, control: ControlText) -> Mapping[str, object]:
    """The caller's template variables, protected. Raises BadInput for a name that is ours."""
    for name in chat.template_kwargs:
        if name in RESERVED_NAMES:
            raise BadInput(f"{name} cannot be set through chat_template_kwargs", param="chat_template_kwargs")
    try:
        return {str(name): control.escape_value(value) for name, value in chat.template_kwargs.items()}
    except RecursionError:
        raise BadInput("a template variable is nested too deeply", param="chat_template_kwargs") from None


def with_content_end_marked(message: TemplateMessage, mark: str) -> TemplateMessage | None:
    """A copy whose last text carries the mark behind its last visible character; None when there is no such text."""
    content = message["content"]
    return with_part_end_marked(message, len(content) - 1 if isinstance(content, list) else 0, mark)


def with_part_end_marked(message: TemplateMessage, part: int, mark: str) -> TemplateMessage | None:
    """The same for one text part; 0 is the whole of plain content."""
    content = message["content"]
    if isinstance(content, str):
        marked = _mark(content, mark) if part == 0 else None
        return None if marked is None else {**message, "content": marked}
    assert isinstance(content, list)
    if not 0 <= part < len(content):
        return None
    marked = _mark(content[part]["text"], mark)
    if marked is None:
        return None
    return {**message, "content": [*content[:part], {**content[part], "text": marked}, *content[part + 1 :]]}


def _mark(text: str, mark: str) -> str | None:
    body = text.rstrip()
    return body + mark + text[len(body) :] if body else None


def _in_call_order(messages: Sequence[Message]) -> list[Message]:
    """Results of one call set follow the order of the calls, whatever order they came in (CACHE-11)."""
    ordered: list[Message] = []
    rank: dict[str, int] = {}
    results: list[Message] = []
    for message in messages:
        if message.role is Role.TOOL:
            results.append(message)
            continue
        ordered += _ranked(results, rank)
        results = []
        ordered.append(message)
        rank = {}
        for position, call in enumerate(message.tool_calls):
            if call.id is not None:
                rank.setdefault(call.id, position)
    return ordered + _ranked(results, rank)


def _ranked(results: Iterable[Message], rank: Mapping[str, int]) -> list[Message]:
    return sorted(results, key=lambda result: rank.get(result.tool_call_id or "", len(rank)))


def _with_one_system(messages: Sequence[Message]) -> list[Message]:
    lead = 0
    while lead < len(messages) and messages[lead].role in _SYSTEM_ROLES:
        lead += 1
    shaped = list(messages[:lead])
    if lead > 1:
        shaped = [_join_systems(shaped)]
    for message in messages[lead:]:
        shaped.append(replace(message, role=Role.USER) if message.role in _SYSTEM_ROLES else message)
    return shaped


def _join_systems(systems: Sequence[Message]) -> Message:
    """One message; a marker at its end stays. Inside the joined text there is no boundary to keep."""
    content = systems[-1].content
    ends = content[-1].marker if isinstance(content, tuple) and content else None
    parts = [part for message in systems for part in (message.content if isinstance(message.content, tuple) else ())]
    inner = sum(part.marker is not None for part in parts) - (ends is not None)
    if inner or any(message.marker is not None for message in systems[:-1]):
        raise BadInput(
            "system messages are joined for this model: only the end of the last can be cached", param="messages"
        )
    text = "\n\n".join(_plain(message.content) for message in systems)
    return Message(Role.SYSTEM, text if ends is None else (TextPart(text, ends),), marker=systems[-1].marker)


def _plain(content: Content) -> str:
    if content is None:
        return ""
    return content if isinstance(content, str) else "".join(part.text for part in content)


def _template_message(message: Message, control: ControlText) -> TemplateMessage:
    role = Role.SYSTEM if message.role is Role.DEVELOPER else message.role
    content, reasoning = message.content, message.reasoning_content
    if role is Role.ASSISTANT and reasoning is None:
        content, reasoning = _split_reasoning(content)
    printed: TemplateMessage = {"role": role.value}
    if reasoning is not None:
        printed["reasoning_content"] = control.escape(reasoning)
    if message.tool_calls:
        calls, broken = _template_calls(message.tool_calls, control)
        if calls:
            printed["tool_calls"] = calls
        if broken:
            content = "\n\n".join(text for text in (_plain(content), *broken) if text)
    if message.tool_call_id is not None:
        printed["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        printed["name"] = control.escape(message.name)
    printed["content"] = _template_content(content, control)
    return printed


def _template_content(content: Content, control: ControlText) -> str | list[dict[str, str]]:
    if content is None:
        return ""
    if isinstance(content, str):
        return control.escape(content)
    return [{"type": "text", "text": control.escape(part.text)} for part in content]


def _split_reasoning(content: Content) -> tuple[Content, str | None]:
    """`<think>why</think>answer` as content of an assistant without separate reasoning, split as templates do it."""
    if isinstance(content, tuple):
        if len(content) != 1:
            return content, None
        answer, reasoning = _split_reasoning(content[0].text)
        return ((TextPart(answer, content[0].marker),) if isinstance(answer, str) else answer), reasoning
    found = _INLINE_REASONING.fullmatch(content) if content is not None and "</think>" in content else None
    return (content, None) if found is None else (found.group(2), found.group(1))


def _template_calls(calls: Sequence[PastToolCall], control: ControlText) -> tuple[list[dict[str, object]], list[str]]:
    """Calls with their arguments as objects, and the text of those whose arguments are no object (STATE-08)."""
    readable: list[dict[str, object]] = []
    broken: list[str] = []
    for call in calls:
        arguments = _read_arguments(call.arguments, control)
        if arguments is None:
            broken.append(f"<tool_call>\n<function={call.name}>\n{call.arguments}\n</function>\n</tool_call>")
            continue
        function = {"name": control.escape(call.name), "arguments": arguments}
        readable.append({"type": "function", "id": call.id, "function": function})
    return readable, broken


def _read_arguments(text: str, control: ControlText) -> object | None:
    """The object in `text`, protected; empty text and null mean no arguments; None: not an object, or too deep."""
    if not text.strip():
        return {}
    try:
        value = _LENIENT_JSON.decode(text)
        if value is None:
            return {}
        return control.escape_value(value) if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None
