"""What the engine and the policies may ask of Program: quotes, needs, units, captures, actions, occupancy.

Nobody above sees a page or a slot. Reading calls (`quote_`, `need_`, `list_`) change nothing. "Not now" is a
`Shortfall`, and a call that answers with one has changed nothing (V-04).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import MediaSpan
from ninfer.base.ids import Handle, LaneId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.device import RunResult
from ninfer.ports.sampling import SamplingParams


class PointKind(Enum):
    """What a checkpoint is for, as far as Program must know."""

    END = "end"
    INPUT_POINT = "input_point"


class HandOver(Enum):
    """How bind gets its state and KV (F1-F3)."""

    ROOT = "root"
    MOVE = "move"
    """The point is consumed: its state slot becomes the active one, its history is written on."""
    FORK = "fork"
    """The point stays: the first unit reads its slot and writes another."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Exact input of one request. `tokens` may grow by committed output after the prompt; `prompt_tokens` stays.

    `rope_delta`: text positions after the last media are index + rope_delta. `positions`: int32 [3 * prompt_tokens],
    axis-major, or None when all three axes equal the index.
    """

    tokens: IntBuffer
    prompt_tokens: int
    execution_identity: bytes
    execution_frontiers: tuple[int, ...] = ()
    media: tuple[MediaSpan, ...] = ()
    positions: IntBuffer | None = None
    rope_delta: int = 0


@dataclass(frozen=True, slots=True)
class SourceQuote:
    """One way to start a request. Dies with the epoch (V-14).

    `checkpoint` None is root. `takes_over`: the history behind the point is written on by this request (else a
    branch is made). `carried`: points of the same history at or below the frontier that ride along unchanged.
    `retires`: points of the same history above the frontier that acceptance ends. `need`: what bind takes beyond
    what it frees: active slot, tail copy, pages of the first unit.
    """

    checkpoint: Handle | None
    frontier: int
    hand_over: HandOver
    takes_over: bool
    carried: tuple[Handle, ...]
    retires: tuple[Handle, ...]
    need: Amounts
    copied_bytes: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Bound:
    """A request became a sequence on a lane. `consumed`: points that ended by the hand-over (MOVE and retired)."""

    sequence: Handle
    frontier: int
    carried: tuple[Handle, ...]
    consumed: tuple[Handle, ...]


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """Save the state when the sequence crosses `frontier` (absolute token position), if there is room."""

    frontier: int
    kind: PointKind


@dataclass(frozen=True, slots=True)
class PrefillTurn:
    """The next prompt tokens of one sequence, with its permit taken. `replay`: recomputes committed history."""

    sequence: Handle
    tokens: int
    capture: CaptureRequest | None = None
    replay: bool = False


@dataclass(frozen=True, slots=True)
class DrawTurn:
    """Draw the next token of a sequence from its tail hidden row; `decode` first feeds the last committed token."""

    sequence: Handle
    decode: bool
    params: SamplingParams
    uniform: float
    output_ids: memoryview | None = None
    mask: bytes | None = None
    logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class PrefillDone:
    """A prompt chunk was computed and committed; `captured` is the new point, if one was asked for and kept."""

    sequence: Handle
    frontier: int
    captured: Handle | None


@dataclass(frozen=True, slots=True)
class RunDone:
    """A run of tokens was drawn. Nothing is committed until `commit_run`."""

    sequence: Handle
    run: RunResult


@dataclass(frozen=True, slots=True)
class BindDone:
    """State and KV of a bound sequence are in place; units may run."""

    sequence: Handle


Progress = PrefillDone | RunDone | BindDone


@dataclass(frozen=True, slots=True)
class DeleteAction:
    """End these points together. `frees`: what really returns to the pools (zero is possible, B7).

    `holders`: every point whose content goes; `lost_tokens`: largest frontier among them.
    """

    points: tuple[Handle, ...]
    frees: Amounts
    lost_tokens: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Real occupancy: capacity, free, and what is reserved but not yet filled, per pool."""

    capacity: Amounts
    free: Amounts
    reserved: Amounts


class NativeProgram(Protocol):
    """The procedures. One context transaction at a time (L1, V-07)."""

    def occupancy(self) -> Occupancy: ...

    def quote_source(
        self, prompt: Prompt, point: Handle | None, *, takes_over: bool, first_unit_tokens: int
    ) -> SourceQuote | None:
        """Verify the point exactly against the prompt (D10) and price it. None: it is not a source for this prompt."""
        ...

    def bind(self, quote: SourceQuote, prompt: Prompt, lane: LaneId) -> Bound | Shortfall:
        """Hand over and take the first unit's permit. Asserts the quote's epoch (V-14)."""
        ...

    def reserve_prefill(self, sequence: Handle, tokens: int) -> Shortfall | None:
        """Permit for the next `tokens` prompt tokens. Repeating a larger or equal permit is free."""
        ...

    def reserve_decode(self, sequence: Handle) -> Shortfall | None:
        """Permit to feed one committed token."""
        ...

    def reserve_capture(self, sequence: Handle, capture: CaptureRequest, retires: Handle | None) -> Shortfall | None:
        """Destination for a capture of the next prefill turn; `retires`, an outdated point, ends first (E2)."""
        ...

    def submit(self, draws: Sequence[DrawTurn], prefill: PrefillTurn | None) -> None:
        """Run permitted turns: the draws as one batch, then the prefill chunk. Sequences must not be in flight."""
        ...

    def poll(self) -> list[Progress]:
        """Advance transfers and the transaction, commit finished prefill chunks, return what happened."""
        ...

    def commit_run(self, sequence: Handle, accepted: int) -> None:
        """Append the first `accepted` tokens of the last run to the ledger; state and KV follow exactly that prefix."""
        ...

    def freeze_end(self, sequence: Handle) -> Handle:
        """End the sequence; its legal execution state becomes an immutable END point (F4)."""
        ...

    def release(self, sequence: Handle) -> None:
        """End the sequence without a point. Its other points survive. In flight: takes effect when it lands (L3)."""
        ...

    def in_flight(self, sequence: Handle) -> bool: ...

    def point_frontier(self, point: Handle) -> int: ...

    def list_delete_actions(self, pool: Pool) -> list[DeleteAction]:
        """One action per optional point that no sequence reads (smallest sets whose end frees something of `pool`)."""
        ...

    def delete(self, action: DeleteAction) -> Amounts:
        """Carry out; returns what became free. Re-checks holders and readers."""
        ...

    def audit(self) -> None:
        """Recount everything from the owners up; AssertionError names what differs (V-01, V-02)."""
        ...
