"""/v1/completions: raw text or token ids in, text out. No template and no channels: all the model writes is text."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any, assert_never

from msgspec import UNSET

from ninfer.base.clock import unix_seconds
from ninfer.frontend.channels import ChannelEvent, ContentDelta
from ninfer.frontend.frontend import Frontend
from ninfer.frontend.plan import InputPlan
from ninfer.ports.output import PrefillProgress
from ninfer.ports.sampling import MAX_LOGPROBS
from ninfer.server.answer import AnswerEvent, Began, Broken, Call, Ended, Piece
from ninfer.server.body import decode_fields, decode_struct
from ninfer.server.cache_input import read_session
from ninfer.server.errors import invalid, unsupported
from ninfer.server.fields import check_completion_fields
from ninfer.server.openai_chat_render import token_text
from ninfer.server.openai_completions_wire import TextChoice, TextCompletion, TextLogprobs, fold
from ninfer.server.openai_wire import ProgressOut, render_progress, render_timings, render_usage
from ninfer.server.route import Context, Job
from ninfer.server.sampling import (
    check_budget,
    check_context,
    check_floor,
    check_stop_tokens,
    clamp_budget,
    read_sampling,
    read_stops,
    wants_usage,
)
from ninfer.server.schema import CompletionFields
from ninfer.server.service import Ask
from ninfer.server.tokentrack import TokenEntry

DEFAULT_MAX_TOKENS = 16


def prepare_completion(body: bytes, context: Context) -> Job:
    """Check and tokenise. Raises ApiError or BadInput; nothing has reached the engine then."""
    raw = decode_fields(body)
    check_completion_fields(raw)
    fields = decode_struct(raw, CompletionFields)
    frontend = context.engine.frontend
    model = context.service.find_model(fields.model)
    params = read_sampling(fields, context.engine.default_sampling, frontend.vocab_size)
    stops = read_stops(fields.stop)
    check_budget(fields.max_tokens, "max_tokens")
    wanted = DEFAULT_MAX_TOKENS if fields.max_tokens is None else fields.max_tokens
    check_floor(fields.min_tokens, wanted)
    check_stop_tokens(fields.stop_token_ids, frontend.vocab_size)
    if fields.logprobs is not None and not 0 <= fields.logprobs <= MAX_LOGPROBS:
        raise invalid(f"logprobs must be between 0 and {MAX_LOGPROBS}.", param="logprobs")
    plan = _read_prompt(fields.prompt, frontend, context.engine.max_context)
    plan = replace(plan, session=read_session(context.session, fields.prompt_cache_key))
    prompt_tokens, max_context = len(plan.tokens), context.engine.max_context
    check_context(prompt_tokens, max_context, "prompt")
    renderer = TextRenderer(
        answer_id=f"cmpl-{secrets.token_hex(12)}",
        model=model,
        wants_usage=wants_usage(fields) or not fields.stream,
        wants_progress=fields.return_progress and fields.stream,
        wants_logprobs=fields.logprobs is not None,
    )
    ask = Ask(
        plan=plan,
        params=params,
        max_tokens=clamp_budget(wanted, prompt_tokens, max_context),
        min_tokens=fields.min_tokens,
        stops=stops,
        stop_token_ids=tuple(fields.stop_token_ids),
        logprobs=fields.logprobs,
        ignore_eos=fields.ignore_eos,
        parser=PlainParser(),
    )
    return Job(ask, renderer, fields.stream, model)


def _read_prompt(prompt: str | list[Any] | None, frontend: Frontend, max_context: int) -> InputPlan:
    """Text, a list of token ids, or a list that holds one of these."""
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if prompt is None:
        raise invalid("prompt is missing.", param="prompt", code="missing_field")
    if not prompt:
        raise invalid("prompt must not be empty.", param="prompt")
    if isinstance(prompt, str):
        return frontend.plan_text(prompt)
    if len(prompt) > 1 and all(isinstance(item, (str, list)) for item in prompt):
        raise unsupported("prompt", "prompt must be one text or one list of token ids, not several.")
    check_context(len(prompt), max_context, "prompt")
    vocab_tokens = frontend.vocab_size
    for index, item in enumerate(prompt):
        if isinstance(item, bool) or not isinstance(item, int):
            raise invalid(f"prompt[{index}] is not a token id.", param=f"prompt[{index}]", code="invalid_type")
        if not 0 <= item < vocab_tokens:
            raise invalid(f"prompt[{index}]: token ids are 0 to {vocab_tokens - 1}.", param=f"prompt[{index}]")
    return frontend.plan_tokens(prompt)


class PlainParser:
    """All text is content."""

    def push(self, text: str) -> list[ChannelEvent]:
        """The same text."""
        return [ContentDelta(text)] if text else []

    def finish(self, truncated: bool) -> list[ChannelEvent]:
        """Nothing is held back."""
        del truncated
        return []


class TextRenderer:
    """Renders one answer of /v1/completions."""

    def __init__(
        self, *, answer_id: str, model: str, wants_usage: bool, wants_progress: bool, wants_logprobs: bool
    ) -> None:
        self._id = answer_id
        self._created = unix_seconds()
        self._model = model
        self._wants_usage = wants_usage
        self._wants_progress = wants_progress
        self._wants_logprobs = wants_logprobs
        self._cached_tokens = 0
        self._offset = 0

    def render(self, event: AnswerEvent) -> list[TextCompletion]:
        """Chunks for one event; an error has none, since the framing reports it."""
        match event:
            case Began():
                self._cached_tokens = event.start.cached_tokens
                return []
            case PrefillProgress():
                if not self._wants_progress:
                    return []
                return [self._chunk(TextChoice(0, ""), progress=render_progress(event, self._cached_tokens))]
            case Piece():
                return [self._chunk(TextChoice(0, event.text, self._render_logprobs(event.entries)))]
            case Ended():
                return self._render_end(event)
            case Call() | Broken():
                return []
            case _:
                assert_never(event)

    def fold(self, chunks: list[TextCompletion]) -> TextCompletion:
        """The body without `stream`."""
        return fold(chunks)

    def _render_end(self, end: Ended) -> list[TextCompletion]:
        """The finish, and the usage when asked for. The timings are on the last chunk of all."""
        timings = render_timings(end.timings, end.usage, end.restore_path)
        last = TextChoice(0, "", self._render_logprobs(()), end.finish.value)
        if not self._wants_usage:
            return [TextCompletion(self._id, _OBJECT, self._created, self._model, [last], UNSET, timings)]
        usage = render_usage(end.usage)
        tail = TextCompletion(self._id, _OBJECT, self._created, self._model, [], usage, timings)
        return [self._chunk(last), tail]

    def _render_logprobs(self, entries: tuple[TokenEntry, ...]) -> TextLogprobs | None:
        if not self._wants_logprobs:
            return None
        offsets = []
        for entry in entries:
            offsets.append(self._offset)
            self._offset += len(token_text(entry.piece))
        return TextLogprobs(
            [token_text(entry.piece) for entry in entries],
            [entry.logprob for entry in entries],
            [_render_top(entry) for entry in entries],
            offsets,
        )

    def _chunk(self, choice: TextChoice, progress: ProgressOut | None = None) -> TextCompletion:
        return TextCompletion(
            self._id,
            _OBJECT,
            self._created,
            self._model,
            [choice],
            None if self._wants_usage else UNSET,
            UNSET,
            UNSET if progress is None else progress,
        )


_OBJECT = "text_completion"


def _render_top(entry: TokenEntry) -> dict[str, float]:
    """Alternatives by their text, the chosen token always among them."""
    top = {token_text(data): value for data, value in reversed(entry.top)}
    return {token_text(entry.piece): entry.logprob, **top}
