"""Typed chat input: what a caller said, before any template has seen it.

Knows roles, text parts, past tool calls and declared tools. Knows no JSON of any protocol, no template and no token.
Whoever builds these values has already refused media and unknown parts by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType


class Role(Enum):
    """Who speaks. `developer` is rendered as the system."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class MarkerUse(Enum):
    """What a caller's marker keeps (D1, D11)."""

    SHARED = "shared"
    """A public starting point that other conversations may use."""
    ANCHOR = "anchor"
    """A restore position of this conversation alone."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """One text part of a message that came as a list of parts. `marker`: keep the state where its text ends."""

    text: str
    marker: MarkerUse | None = None


Content = str | tuple[TextPart, ...] | None
"""Text, parts of text, or nothing (an assistant message that only calls tools)."""


@dataclass(frozen=True, slots=True)
class PastToolCall:
    """A call the assistant made earlier, as the client sent it back. `arguments` is JSON text, possibly broken."""

    name: str
    arguments: str = ""
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `tool_calls` and `reasoning_content` belong to the assistant, `tool_call_id` to tools.

    `marker`: keep the state where the whole message ends, its closing included.
    """

    role: Role
    content: Content = None
    tool_calls: tuple[PastToolCall, ...] = ()
    reasoning_content: str | None = None
    tool_call_id: str | None = None
    name: str | None = None
    marker: MarkerUse | None = None


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A declared tool: its name, and the object as the caller sent it, printed by the template as it is.

    `marker`: keep the state behind this tool; it is no part of `raw`.
    """

    name: str
    raw: Mapping[str, object]
    marker: MarkerUse | None = None

    @property
    def parameters(self) -> Mapping[str, object]:
        """The JSON schema of the arguments; empty when the tool declares none."""
        function = self.raw.get("function", self.raw)
        schema = function.get("parameters") if isinstance(function, Mapping) else None
        return schema if isinstance(schema, Mapping) else MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ChatInput:
    """One chat request as far as text goes.

    `template_kwargs`: what the caller passes to the template (`enable_thinking`, `preserve_thinking`, ...).
    `tools_enabled` False (tool choice "none"): tools are neither rendered nor parsed. `session`: a lookup hint (F4).
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    template_kwargs: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    tools_enabled: bool = True
    session: str | None = None

    @property
    def active_tools(self) -> tuple[ToolSpec, ...]:
        """The tools the model is shown and may call."""
        return self.tools if self.tools_enabled else ()
