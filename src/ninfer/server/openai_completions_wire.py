"""Wire types of /v1/completions and their fold. A chunk and a body have the same form."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from ninfer.server.openai_wire import ProgressOut, TimingsOut, UsageOut


class TextLogprobs(msgspec.Struct, frozen=True):
    """Parallel lists, one element a token. `text_offset`: characters into the answer's text."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class TextChoice(msgspec.Struct, frozen=True):
    index: int
    text: str
    logprobs: TextLogprobs | None = None
    finish_reason: str | None = None


class TextCompletion(msgspec.Struct, frozen=True):
    id: str
    object: str
    created: int
    model: str
    choices: list[TextChoice]
    usage: UsageOut | UnsetType | None = UNSET
    timings: TimingsOut | UnsetType = UNSET
    prompt_progress: ProgressOut | UnsetType = UNSET


def fold(chunks: Sequence[TextCompletion]) -> TextCompletion:
    """The body of a request without `stream`: exactly what its stream says, added up."""
    choices = [choice for chunk in chunks for choice in chunk.choices]
    parts = [choice.logprobs for choice in choices if choice.logprobs is not None]
    logprobs = None
    if parts:
        logprobs = TextLogprobs(
            [token for part in parts for token in part.tokens],
            [value for part in parts for value in part.token_logprobs],
            [top for part in parts for top in part.top_logprobs],
            [offset for part in parts for offset in part.text_offset],
        )
    finish = next(choice.finish_reason for choice in reversed(choices) if choice.finish_reason is not None)
    last = chunks[-1]
    text = "".join(choice.text for choice in choices)
    return TextCompletion(
        last.id,
        last.object,
        last.created,
        last.model,
        [TextChoice(0, text, logprobs, finish)],
        last.usage,
        last.timings,
    )
