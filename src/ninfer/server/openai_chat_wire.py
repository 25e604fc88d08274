"""Wire types of /v1/chat/completions, in the order clients see the fields. Types and their fold, no engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ninfer.server.openai_wire import ProgressOut, TimingsOut, UsageOut


class TopEntry(msgspec.Struct, frozen=True):
    token: str
    logprob: float
    bytes: list[int]


class EntryOut(msgspec.Struct, frozen=True):
    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopEntry]


class LogprobsOut(msgspec.Struct, frozen=True):
    content: list[EntryOut]
    refusal: None = None


class FunctionOut(msgspec.Struct, frozen=True):
    name: str
    arguments: str


class ToolCallOut(msgspec.Struct, frozen=True):
    id: str
    function: FunctionOut
    type: Literal["function"] = "function"


class FunctionDelta(msgspec.Struct, frozen=True):
    arguments: str
    name: str | UnsetType = UNSET


class ToolCallDelta(msgspec.Struct, frozen=True):
    """The first of a call carries id, type and name with empty arguments; the next ones only arguments."""

    index: int
    function: FunctionDelta
    id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET


class Delta(msgspec.Struct, frozen=True):
    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[ToolCallDelta] | UnsetType = UNSET


class ChunkChoice(msgspec.Struct, frozen=True):
    index: int
    delta: Delta
    logprobs: LogprobsOut | None = None
    finish_reason: str | None = None


class Chunk(msgspec.Struct, frozen=True):
    id: str
    object: str
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: UsageOut | UnsetType | None = UNSET
    timings: TimingsOut | UnsetType = UNSET
    prompt_progress: ProgressOut | UnsetType = UNSET


class MessageOut(msgspec.Struct, frozen=True):
    """`content` is a string always; reasoning and calls are there only when the answer has some."""

    role: str
    content: str
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[ToolCallOut] | UnsetType = UNSET


class Choice(msgspec.Struct, frozen=True):
    index: int
    message: MessageOut
    logprobs: LogprobsOut | None
    finish_reason: str


class Completion(msgspec.Struct, frozen=True):
    id: str
    object: str
    created: int
    model: str
    choices: list[Choice]
    usage: UsageOut
    timings: TimingsOut


def fold(chunks: Sequence[Chunk]) -> Completion:
    """The body of a request without `stream`: exactly what its stream says, added up."""
    content: list[str] = []
    reasoning: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    entries: list[EntryOut] | None = None
    finish: str | None = None
    usage: UsageOut | None = None
    timings: TimingsOut | None = None
    for chunk in chunks:
        usage = chunk.usage if isinstance(chunk.usage, UsageOut) else usage
        timings = chunk.timings if isinstance(chunk.timings, TimingsOut) else timings
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            if choice.logprobs is not None:
                entries = (entries or []) + choice.logprobs.content
            _fold_delta(choice.delta, content, reasoning, calls)
    assert finish is not None and usage is not None and timings is not None, "a stream ends with all three"
    message = MessageOut(
        role="assistant",
        content="".join(content),
        reasoning_content="".join(reasoning) if reasoning else UNSET,
        tool_calls=[_fold_call(call) for _, call in sorted(calls.items())] if calls else UNSET,
    )
    logprobs = None if entries is None else LogprobsOut(entries)
    first = chunks[0]
    choice_out = Choice(0, message, logprobs, finish)
    return Completion(first.id, "chat.completion", first.created, first.model, [choice_out], usage, timings)


def _fold_delta(delta: Delta, content: list[str], reasoning: list[str], calls: dict[int, dict[str, Any]]) -> None:
    if isinstance(delta.content, str):
        content.append(delta.content)
    if isinstance(delta.reasoning_content, str):
        reasoning.append(delta.reasoning_content)
    if isinstance(delta.tool_calls, list):
        for piece in delta.tool_calls:
            call = calls.setdefault(piece.index, {"arguments": ""})
            call["arguments"] += piece.function.arguments
            if isinstance(piece.id, str):
                call["id"], call["name"] = piece.id, piece.function.name


def _fold_call(call: dict[str, Any]) -> ToolCallOut:
    return ToolCallOut(call["id"], FunctionOut(call["name"], call["arguments"]))
