"""Typed requests of the two OpenAI completion routes. Types only: what a value may be is decided in `fields` and
`sampling`, what a message means in the frontend.

A field that is neither declared here nor named in `fields` is accepted and has no effect: docs/serving.md lists all.
"""

from __future__ import annotations

from typing import Any

import msgspec


class ContentPart(msgspec.Struct):
    """One part of a message's content. Only `text` parts are served; the others are refused by their type."""

    type: str
    text: str | None = None
    refusal: str | None = None
    cache_control: dict[str, Any] | None = None
    anchor: bool | None = None


class FunctionCall(msgspec.Struct):
    """A call of an earlier turn. `arguments` is JSON text as OpenAI has it, or an object as some clients send it."""

    name: str
    arguments: str | dict[str, Any] | None = None


class ToolCallIn(msgspec.Struct):
    function: FunctionCall
    id: str = ""
    type: str = "function"


class MessageIn(msgspec.Struct):
    """One message of the history. `reasoning` is another spelling of `reasoning_content`."""

    role: str
    content: str | list[ContentPart] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    function_call: dict[str, Any] | None = None
    audio: dict[str, Any] | None = None
    prefix: bool | None = None
    partial: bool | None = None
    tool_calls: list[ToolCallIn] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    refusal: str | None = None
    cache_control: dict[str, Any] | None = None
    anchor: bool | None = None


class FunctionSpec(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ToolIn(msgspec.Struct):
    """A declared tool, only to check it: the template prints the object as it was sent."""

    type: str
    function: FunctionSpec


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """`include_obfuscation` false, the only value served, asks for what is done anyway."""

    include_usage: bool = False
    include_obfuscation: bool = False


class TemplateOptions(msgspec.Struct, forbid_unknown_fields=True):
    """`chat_template_kwargs`: only what the template really reads."""

    enable_thinking: bool | None = None
    preserve_thinking: bool | None = None


class SamplingFields(msgspec.Struct):
    """Fields that both routes share."""

    model: str | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    seed: int | None = None
    ignore_eos: bool = False
    stop: str | list[str] | None = None
    stop_token_ids: list[int] = msgspec.field(default_factory=list)
    stream: bool = False
    stream_options: StreamOptions | None = None
    return_progress: bool = False
    prompt_cache_key: str | None = None


class ChatFields(SamplingFields):
    """Body of /v1/chat/completions."""

    messages: list[MessageIn] = msgspec.field(default_factory=list)
    tools: list[dict[str, Any]] = msgspec.field(default_factory=list)
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool = True
    max_completion_tokens: int | None = None
    logprobs: bool = False
    top_logprobs: int | None = None
    chat_template_kwargs: TemplateOptions | None = None
    enable_thinking: bool | None = None
    reasoning_effort: str | None = None
    thinking_token_budget: int | None = None
    thinking_budget: int | None = None


class CompletionFields(SamplingFields):
    """Body of /v1/completions."""

    prompt: str | list[Any] | None = None
    logprobs: int | None = None
