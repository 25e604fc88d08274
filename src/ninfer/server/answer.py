"""The one event model of an answer, before any protocol: every renderer, streaming or not, reads these events.

Knows channels (reasoning, content, calls), finish reasons and which token belongs to which channel. Does not know
HTTP or a wire format, and parses no markup: that is the frontend's channel parser.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, assert_never

from ninfer.frontend.channels import ChannelEvent, ContentDelta, ReasoningDelta, ToolCall
from ninfer.ports.output import (
    Event,
    Failed,
    Finished,
    FinishReason,
    GenerationStart,
    OutputDelta,
    PrefillProgress,
    RestorePath,
    Timings,
    Usage,
)
from ninfer.server.errors import ApiError, find_api_error, unavailable
from ninfer.server.tokentrack import TokenEntry, TokenTrack


class Channel(Enum):
    REASONING = "reasoning"
    CONTENT = "content"


class Finish(Enum):
    """Why an answer ended, as clients see it."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"


@dataclass(frozen=True, slots=True)
class Began:
    """The first event of an answer: its request has a lane."""

    start: GenerationStart


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of one channel, decided. `entries`: tokens with log-probabilities, only when asked for; they may follow
    their text by some pieces, never precede it."""

    channel: Channel
    text: str
    entries: tuple[TokenEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One complete tool call. `arguments` is a JSON object as text."""

    index: int
    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The last event of an answer that ended by itself. `restore_path` None: it ended before it had a lane."""

    finish: Finish
    usage: Usage
    reasoning_tokens: int
    timings: Timings
    restore_path: RestorePath | None


@dataclass(frozen=True, slots=True)
class Broken:
    """The last event of an answer that an error, or the server's end, cut short."""

    error: ApiError


AnswerEvent = Began | PrefillProgress | Piece | Call | Ended | Broken


class TextParser(Protocol):
    """Splits the raw text of an answer into channels."""

    def push(self, text: str) -> Iterable[ChannelEvent]:
        """What more text decides."""
        ...

    def finish(self, truncated: bool) -> Iterable[ChannelEvent]:
        """What was held back. `truncated`: the output did not end by the model's own stop token."""
        ...


class AnswerAssembler:
    """Folds the engine's events of one request into answer events."""

    def __init__(self, parser: TextParser, track: TokenTrack, *, single_call: bool = False) -> None:
        """`single_call`: calls behind the first one are not delivered (TOOL-08)."""
        self._parser = parser
        self._track = track
        self._single_call = single_call
        self._path: RestorePath | None = None
        self._calls = 0

    def push(self, event: Event) -> list[AnswerEvent]:
        """The answer events that this event decides, in order."""
        match event:
            case GenerationStart():
                self._path = event.restore_path
                return [Began(event)]
            case PrefillProgress():
                return [event]
            case OutputDelta():
                self._track.add(event.text, event.tokens)
                return self._read(self._parser.push(event.text))
            case Finished():
                return self._end(event)
            case Failed():
                return [Broken(find_api_error(event.error))]
            case _:
                assert_never(event)

    def _read(self, events: Iterable[ChannelEvent]) -> list[AnswerEvent]:
        read: list[AnswerEvent] = []
        for event in events:
            match event:
                case ReasoningDelta():
                    self._track.claim_reasoning(event.text)
                    read.append(Piece(Channel.REASONING, event.text))
                case ContentDelta():
                    entries = self._track.claim_content(event.text)
                    read.append(Piece(Channel.CONTENT, event.text, entries))
                case ToolCall():
                    self._calls += 1
                    self._track.note_call()
                    if self._single_call and self._calls > 1:
                        continue
                    read.append(Call(event.index, event.id, event.name, event.arguments))
                case _:
                    assert_never(event)
        return read

    def _end(self, event: Finished) -> list[AnswerEvent]:
        if event.reason is FinishReason.CANCELLED:
            return [Broken(unavailable("The request was stopped by the server.", "cancelled"))]
        truncated = event.reason is FinishReason.LENGTH or event.stop_string is not None
        read = self._read(self._parser.finish(truncated))
        rest = self._track.finish()
        if rest:
            read.append(Piece(Channel.CONTENT, "", rest))
        finish = Finish(event.reason.value)
        if finish is Finish.STOP and self._calls:
            finish = Finish.TOOL_CALLS
        read.append(Ended(finish, event.usage, self._track.reasoning_tokens, event.timings, self._path))
        return read
