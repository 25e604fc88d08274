"""Events of one request, from the engine towards whoever asked. Plain frozen messages (settled decision 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ninfer.base.errors import NInferError
from ninfer.ports.sampling import TokenLogprobs

GAP_BOUNDS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Upper ends of the classes that gaps between two pieces of output are counted in; one more class lies above."""


class RestorePath(Enum):
    """Where the execution began (N1)."""

    ROOT = "root"
    END = "generation_endpoint"
    INPUT_POINT = "recovery_point"
    ANCHOR = "anchor"
    SHARED = "shared_entry"


class FinishReason(Enum):
    STOP = "stop"
    """A stop token or a stop string."""
    LENGTH = "length"
    """The output budget or the context is used up."""
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class TokenOut:
    """One generated token with its log-probabilities, if asked for."""

    token_id: int
    logprobs: TokenLogprobs | None = None


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds of one request. `longest_gap_s` is the longest time between two pieces of output."""

    queued_s: float
    prefill_s: float
    ttft_s: float
    decode_s: float
    longest_gap_s: float
    computed_prompt_tokens: int
    decode_steps: int
    pauses: int = 0
    replayed_tokens: int = 0
    """Committed or cached tokens computed again, after a pause or a failed restore; never part of the prompt tokens
    computed (SCHED-12)."""
    paused_s: float = 0.0
    failed_restores: int = 0
    """Times that cached content could not be copied to the device and was computed again."""
    snapshots: int = 0
    """Pauses that kept the execution position; the others were rebuilt by Replay."""
    restored_bytes: int = 0
    """Copied from the host to the device for this request."""
    captures: int = 0
    """Restore points of its input that were kept."""
    gap_counts: tuple[int, ...] = (0,) * (len(GAP_BOUNDS_S) + 1)
    """Gaps between pieces of output, by the classes of `GAP_BOUNDS_S`."""
    gaps_s: float = 0.0
    """All of them together."""


@dataclass(frozen=True, slots=True)
class Usage:
    """prompt_tokens = cached_tokens + prompt tokens really computed for this request (USE-03)."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class LossReport:
    """Why the restore point was no deeper (settled decision 14). Positions are token indexes of the prompt."""

    deepest_token_match: int
    deepest_point: int
    chosen_point: int
    reason: str
    deepest_kv: int = 0
    """Up to where KV of the same tokens is kept: beyond `deepest_point` there is KV, but no state to go on from."""


@dataclass(frozen=True, slots=True)
class GenerationStart:
    """Published once, when the request has its lane and its source (N2)."""

    prompt_tokens: int
    cached_tokens: int
    restore_path: RestorePath
    loss: LossReport


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """Prompt tokens covered so far, cached ones included; non-decreasing, ends at the prompt's length."""

    covered_tokens: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class OutputDelta:
    """Text that is decided (never half a character, never part of a possible stop string) and new tokens.

    Either may be empty: a token may hold back its text, held text may be released by a later token.
    """

    text: str
    tokens: tuple[TokenOut, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a request that ended as asked, or was cancelled."""

    reason: FinishReason
    usage: Usage
    timings: Timings
    stop_string: str | None = None
    """The stop string that ended it; None for a stop token."""
    stop_token: int | None = None
    """The stop token that ended it: part of the usage, in no `OutputDelta`."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The last event of a request that ended by an error, with what it had cost by then."""

    error: NInferError
    usage: Usage
    timings: Timings


Event = GenerationStart | PrefillProgress | OutputDelta | Finished | Failed

OutputSink = Callable[[Event], None]
"""Called on the control thread; must return at once and must not raise."""
