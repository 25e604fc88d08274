"""Chat messages of a library caller: typed ones, or mappings in the form of Chat Completions, made typed.

Takes text, past tool calls and tool results. The HTTP side has its own, stricter reader.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ninfer.base.errors import BadInput
from ninfer.frontend.messages import ChatInput, Content, Message, PastToolCall, Role, TextPart, ToolSpec

ChatMessage = Message | Mapping[str, object]


def read_chat(
    messages: Sequence[ChatMessage],
    tools: Sequence[Mapping[str, object]],
    template_kwargs: Mapping[str, object],
    session: str | None,
) -> ChatInput:
    """A typed chat. Raises BadInput whose `param` is a path like `messages[3].role`."""
    if isinstance(messages, str) or not messages:
        raise BadInput("messages must be a list with at least one message", param="messages")
    typed = tuple(_read_message(message, f"messages[{index}]") for index, message in enumerate(messages))
    declared = tuple(_read_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools))
    return ChatInput(typed, declared, template_kwargs, session=session)


def _read_message(message: ChatMessage, path: str) -> Message:
    if isinstance(message, Message):
        return message
    if not isinstance(message, Mapping):
        raise BadInput(f"{path} must be a mapping", param=path, code="invalid_type")
    try:
        role = Role(message.get("role"))
    except ValueError:
        known = ", ".join(role.value for role in Role)
        raise BadInput(f"{path}.role must be one of {known}", param=f"{path}.role") from None
    calls = message.get("tool_calls") or ()
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise BadInput(f"{path}.tool_calls must be a list", param=f"{path}.tool_calls", code="invalid_type")
    return Message(
        role=role,
        content=_read_content(message.get("content"), f"{path}.content"),
        tool_calls=tuple(_read_call(call, f"{path}.tool_calls[{index}]") for index, call in enumerate(calls)),
        reasoning_content=_read_text(message, "reasoning_content", path),
        tool_call_id=_read_text(message, "tool_call_id", path),
        name=_read_text(message, "name", path),
    )


def _read_content(content: object, path: str) -> Content:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise BadInput(f"{path} must be text or a list of text parts", param=path, code="invalid_type")
    parts: list[TextPart] = []
    for index, part in enumerate(content):
        text = part.get("text") if isinstance(part, Mapping) and part.get("type", "text") == "text" else None
        if not isinstance(text, str):
            raise BadInput(f"{path}[{index}] must be a text part", param=f"{path}[{index}]")
        parts.append(TextPart(text))
    return tuple(parts)


def _read_call(call: object, path: str) -> PastToolCall:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping) or not isinstance(name, str):
        raise BadInput(f"{path} must name a function", param=path)
    arguments = function.get("arguments", "")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return PastToolCall(name, text, _read_text(call, "id", path))


def _read_tool(tool: Mapping[str, object], path: str) -> ToolSpec:
    function = tool.get("function", tool) if isinstance(tool, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        raise BadInput(f"{path} must name a function", param=path)
    return ToolSpec(name, tool)


def _read_text(holder: Mapping[str, object], name: str, path: str) -> str | None:
    value = holder.get(name)
    if value is not None and not isinstance(value, str):
        raise BadInput(f"{path}.{name} must be text", param=f"{path}.{name}", code="invalid_type")
    return value
