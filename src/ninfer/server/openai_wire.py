"""Wire types that the OpenAI routes share: usage, timings, progress, the model list."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from ninfer.ports.output import PrefillProgress, RestorePath, Timings, Usage


class PromptDetails(msgspec.Struct, frozen=True):
    cached_tokens: int


class CompletionDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int


class UsageOut(msgspec.Struct, frozen=True):
    """`prompt_tokens_details.cached_tokens` is always there (USE-03)."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails | UnsetType = UNSET


class TimingsOut(msgspec.Struct, frozen=True):
    """Seconds; finite or null (USE-04)."""

    queued_s: float
    prefill_s: float
    ttft_s: float
    decode_s: float
    longest_gap_s: float
    tokens_per_second: float | None
    prefill_tokens_per_second: float | None
    computed_prompt_tokens: int
    decode_steps: int
    restore_path: str | None
    pauses: int
    snapshots: int
    paused_s: float
    replayed_tokens: int
    restored_bytes: int
    captures: int


class ProgressOut(msgspec.Struct, frozen=True):
    """`processed` starts at `cached` and ends at `total`."""

    total: int
    cached: int
    processed: int


class ModelOut(msgspec.Struct, frozen=True):
    id: str
    created: int
    max_model_len: int
    object: str = "model"
    owned_by: str = "ninfer"


class ModelList(msgspec.Struct, frozen=True):
    data: list[ModelOut]
    object: str = "list"


def render_usage(usage: Usage, reasoning_tokens: int | None = None) -> UsageOut:
    """Numbers of the engine, unchanged."""
    return UsageOut(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        prompt_tokens_details=PromptDetails(usage.cached_tokens),
        completion_tokens_details=UNSET if reasoning_tokens is None else CompletionDetails(reasoning_tokens),
    )


def render_timings(timings: Timings, usage: Usage, path: RestorePath | None) -> TimingsOut:
    """Seconds rounded to the microsecond. A rate is null when its time is too short to divide by."""
    between = usage.completion_tokens - 1  # decode_s runs from the first token to the last
    return TimingsOut(
        queued_s=round(timings.queued_s, 6),
        prefill_s=round(timings.prefill_s, 6),
        ttft_s=round(timings.ttft_s, 6),
        decode_s=round(timings.decode_s, 6),
        longest_gap_s=round(timings.longest_gap_s, 6),
        tokens_per_second=_rate(between, timings.decode_s),
        prefill_tokens_per_second=_rate(timings.computed_prompt_tokens, timings.prefill_s),
        computed_prompt_tokens=timings.computed_prompt_tokens,
        decode_steps=timings.decode_steps,
        restore_path=None if path is None else path.value,
        pauses=timings.pauses,
        snapshots=timings.snapshots,
        paused_s=round(timings.paused_s, 6),
        replayed_tokens=timings.replayed_tokens,
        restored_bytes=timings.restored_bytes,
        captures=timings.captures,
    )


def render_progress(progress: PrefillProgress, cached_tokens: int) -> ProgressOut:
    return ProgressOut(progress.prompt_tokens, cached_tokens, progress.covered_tokens)


def _rate(count: int, seconds: float) -> float | None:
    return round(count / seconds, 3) if count > 0 and seconds > 0 else None
