"""A chat body's messages and tools as the frontend's typed input. Refuses by path what cannot be served.

Tolerant to history, strict to what is new: clients send back whatever they once received (STATE-08), so odd but
harmless history is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from ninfer.frontend.messages import ChatInput, Content, MarkerUse, Message, PastToolCall, Role, TextPart, ToolSpec
from ninfer.server.body import check_depth, convert_struct
from ninfer.server.cache_input import MarkerCount, check_shown, name_marked, read_marker, split_tool
from ninfer.server.errors import invalid, unsupported
from ninfer.server.schema import ChatFields, ContentPart, MessageIn, ToolCallIn, ToolIn

MAX_TOOLS = 1024
MAX_TOOL_NAME_CHARACTERS = 128
_TOOL_NAME = re.compile(r"[^\s<>=\x00-\x1f\x7f]+")
_MEDIA_PARTS = frozenset(
    {"image_url", "image", "input_image", "input_audio", "audio", "audio_url", "video", "video_url", "file"}
)
_THINKING_OFF = frozenset({"none", "minimal"})
_THINKING_ON = frozenset({"low", "medium", "high", "xhigh", "max"})


def read_chat(fields: ChatFields, session: str | None) -> ChatInput:
    """The whole chat. Raises ApiError whose `param` is a path like `messages[3].content[0]`."""
    if not fields.messages:
        raise invalid("messages must not be empty.", param="messages", code="missing_field")
    count = MarkerCount()
    tools = _read_tools(fields.tools, count)
    messages = tuple(
        _read_message(message, f"messages[{index}]", count) for index, message in enumerate(fields.messages)
    )
    tools_enabled = _read_tool_choice(fields.tool_choice, tools)
    for index, tool in enumerate(tools):
        check_shown(tool.marker, name_marked(fields.tools[index], f"tools[{index}]"), is_shown=tools_enabled)
    return ChatInput(
        messages=messages,
        tools=tools,
        template_kwargs=_read_template_options(fields),
        tools_enabled=tools_enabled,
        session=session,
    )


def _read_message(message: MessageIn, path: str, count: MarkerCount) -> Message:
    try:
        role = Role(message.role)
    except ValueError:
        known = ", ".join(role.value for role in Role)
        raise invalid(f"{path}.role must be one of {known}.", param=f"{path}.role") from None
    _check_message(message, path)
    content = _read_content(message, f"{path}.content", count)
    marker = count.note(read_marker(message.cache_control, message.anchor, path), path)
    if marker is not None and not content and not message.tool_calls:
        raise invalid(f"{path} is empty; there is nothing to cache.", param=f"{path}.cache_control")
    if content is None and role in (Role.USER, Role.SYSTEM, Role.DEVELOPER):
        raise invalid(f"{path}.content is missing.", param=f"{path}.content", code="missing_field")
    if role is Role.TOOL and content is None:
        content = ""
    calls = message.tool_calls or []
    return Message(
        role=role,
        content=content,
        tool_calls=tuple(_read_call(call, f"{path}.tool_calls[{index}]") for index, call in enumerate(calls)),
        reasoning_content=message.reasoning_content if message.reasoning_content is not None else message.reasoning,
        tool_call_id=message.tool_call_id,
        name=message.name,
        marker=marker,
    )


def _check_message(message: MessageIn, path: str) -> None:
    """Refuse what would be lost: the template prints neither, and no answer goes on where a message ends."""
    given = {
        "function_call": message.function_call is not None,
        "audio": message.audio is not None,
        "prefix": bool(message.prefix),
        "partial": bool(message.partial),
    }
    for name, asks in given.items():
        if asks:
            raise unsupported(f"{path}.{name}", f"{path}.{name} is not supported by this server.")


def _read_content(message: MessageIn, path: str, count: MarkerCount) -> Content:
    content = message.content
    if content is None:
        return message.refusal
    if isinstance(content, str):
        return content
    return tuple(_read_part(part, f"{path}[{index}]", count) for index, part in enumerate(content))


def _read_part(part: ContentPart, path: str, count: MarkerCount) -> TextPart:
    if part.type in _MEDIA_PARTS:
        raise unsupported(path, f"{path}: parts of type '{part.type}' are not supported; this server reads text.")
    if part.type in ("text", "input_text", "output_text"):
        if part.text is None:
            raise invalid(f"{path}.text is missing.", param=f"{path}.text", code="missing_field")
        return TextPart(part.text, _read_part_marker(part, part.text, path, count))
    if part.type == "refusal" and part.refusal is not None:
        return TextPart(part.refusal, _read_part_marker(part, part.refusal, path, count))
    raise invalid(f"{path}.type is not a known kind of part.", param=f"{path}.type")


def _read_part_marker(part: ContentPart, text: str, path: str, count: MarkerCount) -> MarkerUse | None:
    marker = count.note(read_marker(part.cache_control, part.anchor, path), path)
    if marker is not None and not text.strip():
        raise invalid(f"{path} is empty; there is nothing to cache.", param=f"{path}.cache_control")
    return marker


def _read_call(call: ToolCallIn, path: str) -> PastToolCall:
    if call.type != "function":
        raise invalid(f"{path}.type must be 'function'.", param=f"{path}.type")
    arguments = call.function.arguments
    if isinstance(arguments, dict):
        check_depth(arguments, f"{path}.function.arguments")
        arguments = msgspec.json.encode(arguments).decode()
    return PastToolCall(name=call.function.name, arguments=arguments or "", id=call.id or None)


def _read_tools(tools: Sequence[dict[str, Any]], count: MarkerCount) -> tuple[ToolSpec, ...]:
    if len(tools) > MAX_TOOLS:
        raise invalid(f"tools may hold at most {MAX_TOOLS} tools.", param="tools")
    return tuple(_read_tool(tool, f"tools[{index}]", count) for index, tool in enumerate(tools))


def _read_tool(tool: dict[str, Any], path: str, count: MarkerCount) -> ToolSpec:
    check_depth(tool, path)
    marked = name_marked(tool, path)
    tool, marker = split_tool(tool, path)
    read = convert_struct(tool, ToolIn, path)
    if read.type != "function":
        raise unsupported(f"{path}.type", f"{path}.type must be 'function'.")
    name = read.function.name
    if len(name) > MAX_TOOL_NAME_CHARACTERS or not _TOOL_NAME.fullmatch(name):
        rule = f"must be 1 to {MAX_TOOL_NAME_CHARACTERS} characters without spaces, '<', '>' and '='"
        raise invalid(f"{path}.function.name {rule}.", param=f"{path}.function.name")
    return ToolSpec(name=name, raw=tool, marker=count.note(marker, marked))


def _read_tool_choice(choice: str | dict[str, Any] | None, tools: Sequence[ToolSpec]) -> bool:
    """Whether tools are shown to the model. Forced and named choices are refused by name (TOOL-10, TOOL-11)."""
    match choice:
        case None | "auto":
            return True
        case "none":
            return False
        case "required":
            if not tools:
                raise invalid("tool_choice 'required' needs tools.", param="tool_choice")
            raise unsupported("tool_choice", "tool_choice 'required' is not supported; use 'auto' or 'none'.")
        case {"type": "function", "function": {"name": str(name)}}:
            if all(tool.name != name for tool in tools):
                raise invalid("tool_choice names a function that is not in tools.", param="tool_choice")
            raise unsupported("tool_choice", "A named tool_choice is not supported; use 'auto' or 'none'.")
        case _:
            raise invalid("tool_choice must be 'auto' or 'none'.", param="tool_choice")


def _read_template_options(fields: ChatFields) -> dict[str, object]:
    """Thinking switches, the most specific spelling first: chat_template_kwargs, enable_thinking, reasoning_effort."""
    given = fields.chat_template_kwargs
    thinking = given.enable_thinking if given is not None else None
    if thinking is None:
        thinking = fields.enable_thinking
    if thinking is None and fields.reasoning_effort is not None:
        thinking = _read_effort(fields.reasoning_effort)
    options: dict[str, object] = {}
    if thinking is not None:
        options["enable_thinking"] = thinking
    if given is not None and given.preserve_thinking is not None:
        options["preserve_thinking"] = given.preserve_thinking
    return options


def _read_effort(effort: str) -> bool:
    if effort not in _THINKING_OFF | _THINKING_ON:
        known = ", ".join(sorted(_THINKING_OFF | _THINKING_ON))
        raise invalid(f"reasoning_effort must be one of {known}.", param="reasoning_effort")
    return effort in _THINKING_ON
