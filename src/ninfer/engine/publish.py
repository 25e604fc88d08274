"""What the world hears of one request: start once, first token once, the end exactly once (N2).

Knows the sink, the clock and the request's counters. Does not know phases: whoever calls decides when something is
worth an event. A sink that raises fails its own request only.
"""

from __future__ import annotations

from bisect import bisect_left

from ninfer.base.clock import Clock
from ninfer.base.errors import NInferError
from ninfer.ports.output import (
    GAP_BOUNDS_S,
    Failed,
    Finished,
    FinishReason,
    GenerationStart,
    LossReport,
    OutputDelta,
    OutputSink,
    PrefillProgress,
    RestorePath,
    Timings,
    TokenOut,
    Usage,
)


class Publication:
    """Events and first times of one request. Times are kept across pauses; a replay publishes nothing (K4)."""

    __slots__ = (
        "_clock",
        "_covered",
        "_ended",
        "_first",
        "_gap",
        "_gap_counts",
        "_gaps_s",
        "_last",
        "_paused_at",
        "_sink",
        "_started",
        "_submitted",
        "cached_tokens",
        "captures",
        "completion_tokens",
        "computed_tokens",
        "decode_steps",
        "failed_restores",
        "paused_s",
        "pauses",
        "prompt_tokens",
        "replayed_tokens",
        "restored_bytes",
        "snapshots",
    )

    def __init__(self, sink: OutputSink, clock: Clock, prompt_tokens: int) -> None:
        self._sink = sink
        self._clock = clock
        self._submitted = clock.now()
        self._started: float | None = None
        self._first: float | None = None
        self._last: float | None = None
        self._gap = self._gaps_s = 0.0
        self._gap_counts = [0] * (len(GAP_BOUNDS_S) + 1)
        self._covered = 0
        self._ended = False
        self._paused_at: float | None = None
        self.prompt_tokens = prompt_tokens
        self.cached_tokens = 0
        self.completion_tokens = 0
        self.computed_tokens = 0
        self.replayed_tokens = 0
        self.decode_steps = 0
        self.pauses = 0
        self.failed_restores = 0
        self.snapshots = 0
        self.restored_bytes = 0
        self.captures = 0
        self.paused_s = 0.0

    @property
    def submitted_s(self) -> float:
        """When the request arrived, on the engine's clock."""
        return self._submitted

    @property
    def has_started(self) -> bool:
        """Whether `GenerationStart` went out."""
        return self._started is not None

    @property
    def has_ended(self) -> bool:
        """Whether the last event went out."""
        return self._ended

    def start(self, cached_tokens: int, path: RestorePath, loss: LossReport) -> None:
        """The request has its lane and its source."""
        assert self._started is None, "V-12: started twice"
        self._started = self._clock.now()
        self.cached_tokens = self._covered = cached_tokens
        self._sink(GenerationStart(self.prompt_tokens, cached_tokens, path, loss))
        self._sink(PrefillProgress(cached_tokens, self.prompt_tokens))

    def progress(self, covered_tokens: int) -> None:
        """Prompt tokens are computed up to here; said only when it is news."""
        if covered_tokens > self._covered:
            self._covered = covered_tokens
            self._sink(PrefillProgress(covered_tokens, self.prompt_tokens))

    def draw(self, tokens: int) -> None:
        """A step gave so many committed tokens. The first one may be a stop token, which no delta shows."""
        self.decode_steps += 1
        self.completion_tokens += tokens
        if self._first is None:
            self._first = self._clock.now()

    def delta(self, text: str, tokens: tuple[TokenOut, ...]) -> None:
        """Output that is decided. Gaps are measured between these."""
        assert not self._ended, "V-12: output after the end"
        now = self._clock.now()
        if self._last is not None:
            gap = now - self._last
            self._gap = max(self._gap, gap)
            self._gap_counts[bisect_left(GAP_BOUNDS_S, gap)] += 1
            self._gaps_s += gap
        self._last = now
        self._sink(OutputDelta(text, tokens))

    def pause(self, *, by_snapshot: bool) -> None:
        """The request lost its lane."""
        self.pauses += 1
        self.snapshots += by_snapshot
        self._paused_at = self._clock.now()

    def lose_restore(self) -> None:
        """What the request was to start from could not be copied: it waits for another lane."""
        self.failed_restores += 1
        self._paused_at = self._clock.now()

    def resume(self) -> None:
        """The request has a lane again."""
        assert self._paused_at is not None
        self.paused_s += self._clock.now() - self._paused_at
        self._paused_at = None

    def finish(self, reason: FinishReason, stop_string: str | None = None, stop_token: int | None = None) -> None:
        """The last event of a request that ended as asked or was cancelled."""
        self._end()
        self._sink(Finished(reason, self._usage(), self.timings(), stop_string, stop_token))

    def fail(self, error: NInferError) -> None:
        """The last event of a request that ended by an error."""
        self._end()
        self._sink(Failed(error, self._usage(), self.timings()))

    def timings(self) -> Timings:
        """Seconds so far; everything is finite, also for a request that never got a lane or a token (USE-04)."""
        now = self._clock.now()
        started = now if self._started is None else self._started
        first = now if self._first is None else self._first
        paused_s = self.paused_s + (now - self._paused_at if self._paused_at is not None else 0.0)
        return Timings(
            queued_s=started - self._submitted,
            prefill_s=first - started,
            ttft_s=first - self._submitted if self._first is not None else 0.0,
            decode_s=now - first,
            longest_gap_s=self._gap,
            computed_prompt_tokens=self.computed_tokens,
            decode_steps=self.decode_steps,
            pauses=self.pauses,
            replayed_tokens=self.replayed_tokens,
            paused_s=paused_s,
            failed_restores=self.failed_restores,
            snapshots=self.snapshots,
            restored_bytes=self.restored_bytes,
            captures=self.captures,
            gap_counts=tuple(self._gap_counts),
            gaps_s=self._gaps_s,
        )

    def _usage(self) -> Usage:
        return Usage(self.prompt_tokens, self.cached_tokens, self.completion_tokens)

    def _end(self) -> None:
        assert not self._ended, "V-12: ended twice"
        self._ended = True
