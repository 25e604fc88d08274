"""Answer events to chunks of /v1/chat/completions. The aggregate is `fold` of the same chunks (one event model)."""

from __future__ import annotations

from typing import assert_never

from msgspec import UNSET

from ninfer.ports.output import PrefillProgress
from ninfer.server.answer import AnswerEvent, Began, Broken, Call, Channel, Ended, Piece
from ninfer.server.openai_chat_wire import (
    Chunk,
    ChunkChoice,
    Completion,
    Delta,
    EntryOut,
    FunctionDelta,
    LogprobsOut,
    ToolCallDelta,
    TopEntry,
    fold,
)
from ninfer.server.openai_wire import ProgressOut, TimingsOut, render_progress, render_timings, render_usage
from ninfer.server.tokentrack import TokenEntry

_CHUNK = "chat.completion.chunk"


class ChatRenderer:
    """Renders one answer. `wants_usage`: `stream_options.include_usage`; `wants_progress`: `return_progress`."""

    def __init__(
        self, *, answer_id: str, created: int, model: str, wants_usage: bool, wants_progress: bool, wants_logprobs: bool
    ) -> None:
        self._id = answer_id
        self._created = created
        self._model = model
        self._wants_usage = wants_usage
        self._wants_progress = wants_progress
        self._wants_logprobs = wants_logprobs
        self._role_sent = False
        self._cached_tokens = 0

    def render(self, event: AnswerEvent) -> list[Chunk]:
        """Chunks for one event; an error has none, since the framing reports it."""
        match event:
            case Began():
                self._cached_tokens = event.start.cached_tokens
                return self._open()
            case PrefillProgress():
                if not self._wants_progress:
                    return []
                progress = render_progress(event, self._cached_tokens)
                return [*self._open(), self._chunk(Delta(), progress=progress)]
            case Piece():
                return [*self._open(), self._render_piece(event)]
            case Call():
                return [*self._open(), *self._render_call(event)]
            case Ended():
                return [*self._open(), *self._render_end(event)]
            case Broken():
                return []
            case _:
                assert_never(event)

    def fold(self, chunks: list[Chunk]) -> Completion:
        """The body without `stream`."""
        return fold(chunks)

    def _open(self) -> list[Chunk]:
        if self._role_sent:
            return []
        self._role_sent = True
        return [self._chunk(Delta(role="assistant", content=""))]

    def _render_piece(self, piece: Piece) -> Chunk:
        if piece.channel is Channel.REASONING:
            return self._chunk(Delta(reasoning_content=piece.text))
        logprobs = LogprobsOut([render_entry(entry) for entry in piece.entries]) if self._wants_logprobs else None
        return self._chunk(Delta(content=piece.text), logprobs=logprobs)

    def _render_call(self, call: Call) -> list[Chunk]:
        opener = ToolCallDelta(call.index, FunctionDelta("", call.name), call.id, "function")
        fragment = ToolCallDelta(call.index, FunctionDelta(call.arguments))
        return [self._chunk(Delta(tool_calls=[opener])), self._chunk(Delta(tool_calls=[fragment]))]

    def _render_end(self, end: Ended) -> list[Chunk]:
        """The finish, and the usage when asked for. The timings are on the last chunk of all."""
        timings = render_timings(end.timings, end.usage, end.restore_path)
        logprobs = LogprobsOut([]) if self._wants_logprobs else None
        if not self._wants_usage:
            return [self._chunk(Delta(), logprobs=logprobs, finish=end.finish.value, timings=timings)]
        usage = render_usage(end.usage, end.reasoning_tokens)
        return [
            self._chunk(Delta(), logprobs=logprobs, finish=end.finish.value),
            Chunk(self._id, _CHUNK, self._created, self._model, [], usage, timings),
        ]

    def _chunk(
        self,
        delta: Delta,
        *,
        logprobs: LogprobsOut | None = None,
        finish: str | None = None,
        timings: TimingsOut | None = None,
        progress: ProgressOut | None = None,
    ) -> Chunk:
        return Chunk(
            id=self._id,
            object=_CHUNK,
            created=self._created,
            model=self._model,
            choices=[ChunkChoice(0, delta, logprobs, finish)],
            usage=None if self._wants_usage else UNSET,
            timings=UNSET if timings is None else timings,
            prompt_progress=UNSET if progress is None else progress,
        )


def render_entry(entry: TokenEntry) -> EntryOut:
    """One content token with its alternatives. Half a character shows as U+FFFD in `token`; `bytes` are exact."""
    top = [TopEntry(token_text(data), value, list(data)) for data, value in entry.top]
    return EntryOut(token_text(entry.piece), entry.logprob, list(entry.piece), top)


def token_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
