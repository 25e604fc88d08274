"""What is written about each request: one line, without text and without keys (OPS-06, N1).

Knows the fields of the line; docs/request-log.md describes them, and `SCHEMA` numbers that page. Writing is optional
work: a failure never reaches a request (settled decision 12).
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import IO, Protocol

import msgspec

from ninfer.ports.output import GenerationStart, LossReport, Timings, Usage

SCHEMA = 1
"""Version of the JSON lines: changed when a field ends or changes its meaning, not when one is added."""

_ONLY_IN_JSON = frozenset({"time", "trace_id", "span_id", "parent_id", "outcome", "gap_counts", "gaps_s"})
Value = str | int | float | bool | tuple[int, ...]


@dataclass(slots=True)
class RequestRecord:
    """One request, filled in as it goes. Seconds end in _s. Only set fields are written."""

    id: str
    method: str
    route: str
    status: int = 0
    time: float | None = None
    trace_id: str | None = None
    span_id: str | None = None
    parent_id: str | None = None
    outcome: str | None = None
    error: str | None = None
    param: str | None = None
    finish: str | None = None
    model: str | None = None
    stream: bool | None = None
    body_bytes: int | None = None
    plan_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    computed_tokens: int | None = None
    output_tokens: int | None = None
    path: str | None = None
    deepest_token_match: int | None = None
    deepest_kv: int | None = None
    deepest_point: int | None = None
    loss: str | None = None
    queued_s: float | None = None
    prefill_s: float | None = None
    ttft_s: float | None = None
    decode_s: float | None = None
    decode_steps: int | None = None
    longest_gap_s: float | None = None
    gap_counts: tuple[int, ...] | None = None
    gaps_s: float | None = None
    captures: int | None = None
    restored_bytes: int | None = None
    failed_restores: int | None = None
    pauses: int | None = None
    snapshots: int | None = None
    paused_s: float | None = None
    replayed_tokens: int | None = None
    total_s: float | None = None

    def note_start(self, start: GenerationStart) -> None:
        """The request has its lane and its source."""
        self.prompt_tokens = start.prompt_tokens
        self.cached_tokens = start.cached_tokens
        self.path = start.restore_path.value
        self.deepest_token_match = start.loss.deepest_token_match
        self.deepest_kv, self.deepest_point = start.loss.deepest_kv, start.loss.deepest_point
        self.loss = "none" if _is_full_hit(start.loss) else start.loss.reason or None

    def note_end(self, usage: Usage, timings: Timings) -> None:
        """The request has ended; for one that was cancelled, this is what was really computed."""
        self.prompt_tokens, self.cached_tokens = usage.prompt_tokens, usage.cached_tokens
        self.output_tokens = usage.completion_tokens
        self.computed_tokens = timings.computed_prompt_tokens
        self.queued_s, self.prefill_s = timings.queued_s, timings.prefill_s
        self.ttft_s, self.decode_s = timings.ttft_s, timings.decode_s
        self.decode_steps = timings.decode_steps
        self.longest_gap_s = timings.longest_gap_s
        self.gap_counts, self.gaps_s = timings.gap_counts, timings.gaps_s
        self.captures = timings.captures
        if timings.restored_bytes or timings.failed_restores:
            self.restored_bytes, self.failed_restores = timings.restored_bytes, timings.failed_restores
        if timings.pauses:
            self.pauses, self.snapshots, self.paused_s = timings.pauses, timings.snapshots, timings.paused_s
        if timings.replayed_tokens:
            self.replayed_tokens = timings.replayed_tokens

    def close(self, total_s: float) -> None:
        """Nothing more will come of it: sum up."""
        self.total_s = total_s
        if self.finish == "cancelled":
            self.outcome = "cancelled"
        elif self.error is None:
            self.outcome = "completed"
        else:
            self.outcome = "refused" if 400 <= self.status < 500 else "failed"

    def list_values(self) -> dict[str, Value]:
        """Set fields in order; seconds to the microsecond."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {
            name: round(value, 6) if isinstance(value, float) else value for name, value in values if value is not None
        }


class Journal(Protocol):
    """Takes finished records."""

    def write(self, record: RequestRecord) -> None:
        """Must not raise."""
        ...


class LineJournal:
    """One readable line a request, on stderr unless told otherwise."""

    def __init__(self, out: IO[str] | None = None) -> None:
        self._out = out

    def write(self, record: RequestRecord) -> None:
        values = {name: value for name, value in record.list_values().items() if name not in _ONLY_IN_JSON}
        head = " ".join(str(values.pop(name)) for name in ("id", "method", "route", "status"))
        tail = " ".join(f"{name}={_short(value)}" for name, value in values.items())
        _write_quietly(self._out or sys.stderr, f"{head} {tail}".rstrip() + "\n")


class JsonJournal:
    """One JSON object a request, appended to an open file. Says on stderr when lines begin to be lost."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._is_losing = False

    def write(self, record: RequestRecord) -> None:
        line = msgspec.json.encode({"schema": SCHEMA, **record.list_values()})
        error = _write_quietly(self._out, line.decode() + "\n")
        if error is not None and not self._is_losing:
            _write_quietly(sys.stderr, f"ninfer: the request log loses lines: {error}\n")
        self._is_losing = error is not None

    def close(self) -> None:
        """Closes the file. Does not raise: what a full disk has not taken by now is lost, the exit code is not."""
        with suppress(OSError):
            self._out.close()


class ManyJournals:
    """Writes to each."""

    def __init__(self, *journals: Journal) -> None:
        self._journals = journals

    def write(self, record: RequestRecord) -> None:
        for journal in self._journals:
            journal.write(record)


def _is_full_hit(loss: LossReport) -> bool:
    """Nothing that was known was computed again: the last token a request generates is never fed, so a point may end
    one token before the match."""
    return 0 < loss.chosen_point >= loss.deepest_token_match - 1


def _short(value: Value) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _write_quietly(out: IO[str], line: str) -> OSError | ValueError | None:
    """What went wrong, if anything did."""
    try:
        out.write(line)
        out.flush()
    except (OSError, ValueError) as error:  # full disk, closed pipe: a log line is optional work
        return error
    return None
