"""What the engine and the policies may ask of Program: quotes, needs, units, captures, actions, occupancy.

Nobody above sees a page or a slot. Reading calls (`quote_`, `need_`, `list_`) change nothing. "Not now" is a
`Shortfall`, and a call that answers with one has changed nothing (V-04).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import MediaSpan
from ninfer.base.ids import Handle, LaneId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.device import RunResult
from ninfer.ports.footprint import Footprint
from ninfer.ports.sampling import SamplingParams
from ninfer.ports.transactions import TransactionEnd


class PointKind(Enum):
    """What a checkpoint is for, as far as Program must know."""

    END = "end"
    INPUT_POINT = "input_point"
    """Saved while the prompt is computed: for whom, and under how many names, the resource manager knows."""
    SNAPSHOT = "snapshot"
    """The execution position of a paused request: its own source alone, until it resumes or is revoked (K1, K3)."""


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

    `tokens` is the ledger of the sequence: `commit_run` appends to it, nobody else does, and points keep it.
    `execution_frontiers`: where the scan is cut, whatever is captured (D5); the frontier of each capture is one of
    them or `prompt_tokens`. `positions`: int32 [3 * n], axis-major, for the first n <= prompt_tokens tokens, or None
    when all three axes equal the index; beyond them every axis is index + rope_delta.
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
    branch is made); False although asked for means that the history has an active writer, or deeper points of others.
    `carried`: points of the
    same history at or below the frontier that ride along unchanged, the source itself included when it stays.
    `retires`: points of the same history that acceptance ends: those above the frontier, and an END (the source
    itself, where a reader forbids a MOVE). `need`: what bind takes beyond what it frees: active slot, tail copy,
    pages of the first unit.
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
    first_unit_tokens: int = 0
    """Prompt tokens of the first unit; 0: an exact hit, the first unit feeds the first drawn token."""
    restored_bytes: int = 0
    """The part of `copied_bytes` that comes back from the host."""


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
    """The next prompt tokens of one sequence, with its permit taken.

    `replay`: recomputes committed history; what the permit holds beyond this chunk stays reserved (C9).
    """

    sequence: Handle
    tokens: int
    captures: tuple[CaptureRequest, ...] = ()
    replay: bool = False


@dataclass(frozen=True, slots=True)
class DrawTurn:
    """Draw the next token of a sequence from its tail hidden row; `decode` first feeds the last committed token.

    Without `decode` nothing may be pending: the prompt is done and no committed token waits to be fed. A device that
    deals runs of several tokens leaves several pending; the next `decode` feeds them all.
    """

    sequence: Handle
    decode: bool
    params: SamplingParams
    uniform: float
    output_ids: memoryview | None = None
    mask: bytes | None = None
    logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class ControlTurn:
    """Say a token that nobody draws, such as the end of a thought whose budget is used up.

    What is committed and not fed is fed; the token is a run of one, committed like a drawn one, and the next unit feeds
    it. The prompt is done.
    """

    sequence: Handle
    token_id: int


@dataclass(frozen=True, slots=True)
class NormalizeTurn:
    """Feed all committed tokens but the last: where a longer run was drawn, a snapshot is taken from there (K2, D8)."""

    sequence: Handle


DecodeTurn = DrawTurn | ControlTurn | NormalizeTurn
"""Turns that run together as one compact set (J1)."""


@dataclass(frozen=True, slots=True)
class PrefillDone:
    """A prompt chunk was computed and committed; `captured`: the new points with their frontiers, shallowest first."""

    sequence: Handle
    frontier: int
    captured: tuple[tuple[int, Handle], ...] = ()


@dataclass(frozen=True, slots=True)
class RunDone:
    """A run of tokens was drawn, or said by control. Nothing is committed until `commit_run`."""

    sequence: Handle
    run: RunResult


@dataclass(frozen=True, slots=True)
class BindDone:
    """State and KV of a bound sequence are in place; units may run."""

    sequence: Handle


@dataclass(frozen=True, slots=True)
class NormalizeDone:
    """At most one committed token is left to feed; state and KV reach `frontier`."""

    sequence: Handle
    frontier: int


Progress = PrefillDone | RunDone | BindDone | NormalizeDone


@dataclass(frozen=True, slots=True)
class DeleteAction:
    """End these points together. `frees`: what really returns to the pools (zero is possible, B7).

    `holders`: every point whose content goes; `lost_tokens`: largest frontier among them.
    """

    points: tuple[Handle, ...]
    frees: Amounts
    lost_tokens: int
    epoch: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class PageGroup:
    """Pages [first, stop) of the history `serial`, in one pool: what a few missing pages are worth moving (I6)."""

    serial: int
    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class DemoteAction:
    """Leave the content of these points on the host alone: one StateImage, or one group of pages (I1, I6).

    `points`: every holder of the content; all of them must be allowed to lose the device copy. `frees`: what returns to
    the device pools once it is done. `moved_bytes`: what must be placed on the host and copied; 0 where complete host
    replicas exist. `pages` None: the StateImage of the points.
    """

    pool: Pool
    points: tuple[Handle, ...]
    frees: Amounts
    moved_bytes: int
    pages: PageGroup | None
    epoch: int = field(compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class ActionGroup:
    """Actions found together and kept: the same object as long as all of them hold (I2); `epoch` is when found."""

    actions: tuple[DeleteAction | DemoteAction, ...]


@dataclass(frozen=True, slots=True)
class HostGap:
    """What is missing for a placement on the host. `is_split`: bytes suffice in sum, no free run does (I11)."""

    gap_bytes: int
    is_split: bool


@dataclass(frozen=True, slots=True)
class Demoting:
    """A demotion has begun. `freed`: at once, where replicas existed; `coming`: when the copies have landed."""

    freed: Amounts
    coming: Amounts


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Real occupancy: capacity, free, and what is reserved but not yet filled, per pool."""

    capacity: Amounts
    free: Amounts
    reserved: Amounts


class NativeProgram(Protocol):
    """The procedures. One context transaction at a time (L1, V-07).

    Where there is no host arena nothing can be demoted, and a pause keeps its snapshot only if nothing must be copied.
    """

    def occupancy(self) -> Occupancy: ...

    def quote_source(
        self,
        prompt: Prompt,
        point: Handle | None,
        *,
        takes_over: bool,
        first_unit_tokens: int,
        gives_up_point: bool = False,
        may_end: frozenset[Handle] | None = None,
    ) -> SourceQuote | None:
        """Verify the point exactly against the prompt (D10) and price it. None: it is not a source for this prompt.

        `first_unit_tokens` is cut to what is committed; a resume asks for its whole rebuild and more, and the rest
        of the permit stays reserved across Replay chunks until new work is submitted (C9). `gives_up_point`: where
        slots are too few to keep a taken-over input point beside the active state, consume it (F3): MOVE, not FORK.
        `may_end`: the points that only the taker owns, None for all; what others own neither ends nor moves, and where
        it lies deeper in the history a branch is made (F1).
        """
        ...

    def bind(self, quote: SourceQuote, prompt: Prompt, lane: LaneId) -> Bound | Shortfall:
        """Hand over and take the first unit's permit. Asserts the quote's epoch (V-14).

        Without a copy to make, the sequence is in place at once; `BindDone` comes with the next poll all the same.
        """
        ...

    def reserve_prefill(self, sequence: Handle, tokens: int) -> Shortfall | None:
        """Permit for the next `tokens` prompt tokens. Repeating a larger or equal permit is free."""
        ...

    def reserve_decode(self, sequence: Handle) -> Shortfall | None:
        """Permit to feed the committed tokens that are pending (one, in ordinary generation). Repeating is free."""
        ...

    def reserve_control(self, sequence: Handle) -> Shortfall | None:
        """Permit for a token that nobody draws: to feed what is pending, and nothing for the token itself."""
        ...

    def reserve_normalize(self, sequence: Handle) -> Shortfall | None:
        """Permit to feed all pending tokens but the last."""
        ...

    def is_normal(self, sequence: Handle) -> bool:
        """At most one committed token is left to feed, as in ordinary generation (D8)."""
        ...

    def reserve_capture(self, sequence: Handle, capture: CaptureRequest, retires: Handle | None) -> Shortfall | None:
        """Destination for a capture of the next prefill turn; `retires`, an outdated point, ends first (E2).

        One chunk may hold several captures, each reserved by itself. With a `Shortfall` nothing is retired. The next
        prefill turn uses the destinations that it names and gives the others back.
        """
        ...

    def submit(self, turns: Sequence[DecodeTurn], prefill: PrefillTurn | None, *, runs_ahead: bool = False) -> int:
        """Run permitted turns: the compact set as one batch, then the chunk. Sequences must not be in flight.

        `runs_ahead`: what is drawn is fed at once, before anybody has read it, where the device can do that and there
        is room; returns for how many sequences. For these launches the words of `run_ahead` hold.
        """
        ...

    def poll(self) -> list[Progress]:
        """Advance transfers and the transaction, commit finished prefill chunks, return what happened."""
        ...

    def run_ahead(self, sequences: Sequence[Handle]) -> int:
        """Feed runs that are drawn and not committed yet, as one launch ahead of their commit (settled decision 5).

        Optional: a sequence without a run-ahead slot, or without free pages, is left out; returns how many were not.
        The next turn with `decode` adopts the launch when just what it feeds was committed; whatever else happens to
        the sequence drops it.
        """
        ...

    def commit_run(self, sequence: Handle, accepted: int) -> None:
        """Append the first `accepted` tokens of the last run to the ledger; state and KV follow exactly that prefix."""
        ...

    def freeze_end(self, sequence: Handle) -> Handle:
        """End the sequence; its legal execution state becomes an immutable END point (F4).

        The prompt must be done; a drawn run that was not committed is forgotten. Not in flight.
        """
        ...

    def release(self, sequence: Handle) -> None:
        """End the sequence without a point. Its other points survive. In flight: takes effect when it lands (L3).

        The handle is stale at once, and nothing more is reported for it.
        """
        ...

    def in_flight(self, sequence: Handle) -> bool: ...

    def may_start(self, sequence: Handle) -> bool:
        """Whether its first chunk may follow the copies of its bind, under way; `BindDone` comes before its end."""
        ...

    def point_frontier(self, point: Handle) -> int: ...

    def list_sequences(self) -> list[Handle]:
        """Every sequence that was neither frozen nor released."""
        ...

    def count_leaving(self) -> int:
        """Released sequences and dropped launches that have not landed: what they hold comes back by itself (L3)."""
        ...

    def count_transfers(self) -> int:
        """Context transactions that wait for their copies, cancelled ones included: something comes by itself."""
        ...

    def list_points(self) -> list[Handle]:
        """Every living point."""
        ...

    def discard_point(self, point: Handle) -> None:
        """End a point that nobody took over (SCHED-09). What reads its content goes on reading."""
        ...

    def list_footprints(self, groups: Sequence[Sequence[Handle]]) -> list[Amounts]:
        """For groups of points in order: the cells and bytes that each holds and no group before it does (H3)."""
        ...

    def open_footprint(self) -> Footprint: ...

    def find_host_gap(self, action: DemoteAction, deletions: Sequence[DeleteAction]) -> HostGap | None:
        """What the copies of a demotion would lack on the host once these points have ended; None: they fit (I11).

        Safe duplicates count as room. Changes nothing.
        """
        ...

    def list_delete_actions(self, pool: Pool) -> list[DeleteAction]:
        """One action per optional point that no sequence reads (smallest sets whose end frees something of `pool`)."""
        ...

    def list_delete_groups(self, pool: Pool) -> list[ActionGroup]:
        """`list_delete_actions` in the groups they were found in; an unchanged group is the same object (I2)."""
        ...

    def list_demote_groups(self, pool: Pool) -> list[ActionGroup]:
        """`list_demote_actions` in the groups they were found in."""
        ...

    @property
    def epoch(self) -> int:
        """Counts changes. An action of a group is carried out as one of this epoch, and of no later one (V-14)."""
        ...

    def delete(self, action: DeleteAction) -> Amounts:
        """Carry out; returns what became free. Re-checks holders and readers."""
        ...

    @property
    def transaction_open(self) -> bool:
        """Whether a context transaction is under way: no bind, demotion or pause may begin (L1, V-07)."""
        ...

    def list_demote_actions(self, pool: Pool) -> list[DemoteAction]:
        """Finite ways to free something of a device pool by leaving content on the host (I1, I6)."""
        ...

    def demote(
        self, action: DemoteAction, *, most: int | None = None, keeps_device: bool = False
    ) -> Demoting | Shortfall:
        """Begin a demotion of this epoch; `most`: pages wanted of the group, the deepest first.

        `keeps_device`: a write-back; replicas are made, and nothing leaves the device (I9).

        Safe duplicates make room on the host before anything is missing, and a group of pages is halved until a part of
        it fits (I11). HOST shortfall: not even one page, or the StateImage, can be placed; nothing has changed.
        """
        ...

    def demote_batch(self, actions: Sequence[DemoteAction], most: int) -> Demoting | Shortfall:
        """Begin one demotion of several page groups of one pool, in reclaim order (I7).

        Trimmed to the leading pages, `most` at most, that can be placed on the host. HOST shortfall: not one of them;
        nothing has changed, and single actions may still do.
        """
        ...

    def covers(self, demotions: Sequence[DemoteAction], deletion: DeleteAction) -> bool:
        """Whether the device pages of their pool that a deletion would free all leave with these demotions (I7)."""
        ...

    def capture_on_host(self, sequence: Handle, capture: CaptureRequest, retires: Handle | None) -> Shortfall | None:
        """Save the state as it stands at `capture.frontier` to the host, where no device slot is to be had (E2).

        At least one unit has landed since the bind: before, the state is that of its source, which exists (E4).
        `retires`, an outdated point, ends first. The sequence is in flight until the copy has ended; `TransactionEnd`
        names the point, or says that it failed. HOST shortfall: nothing has changed.
        """
        ...

    def pause(self, sequence: Handle) -> Handle | Shortfall:
        """End the sequence as a SNAPSHOT point; what only it has leaves the device (K1, K2). Not in flight.

        HOST shortfall: there is no room for all of it; nothing has changed, and `release` is the destructive pause.
        """
        ...

    def revoke_snapshot(self, snapshot: Handle) -> Amounts:
        """End a snapshot for good; Replay follows (K3). Returns what became free at once."""
        ...

    def quote_revocation(self, snapshot: Handle) -> Amounts:
        """What `revoke_snapshot` would free at once (J3)."""
        ...

    def cancel_demotion(self) -> None:
        """Give up the demotion under way; its content stays on the device (L3)."""
        ...

    def collect_ends(self) -> list[TransactionEnd]:
        """Transactions that ended since the last call."""
        ...

    def audit(self) -> None:
        """Recount everything from the owners up; AssertionError names what differs (V-01, V-02)."""
        ...
