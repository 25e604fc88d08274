"""The seam between procedures and physics.

A `Device` holds tensors and runs units. It knows lanes only as labels: no request, no policy, no capacity decision.
Everything is submitted and later polled; a device may compute inside the call, the caller must not rely on it.
Page 0 and slot 0 of each pool are scratch (settled decision 18).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from ninfer.base.ids import LaneId, PageId, SlotId, TransferId, UnitId
from ninfer.base.pools import Pool
from ninfer.ports.sampling import SamplingParams, TokenLogprobs

BYTE_LAYOUT_VERSION = 2
"""Of pages and StateImages, on the device and on the host: docs/design/byte-layout.md (settled decision 19)."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What the caller plans with. Page and slot counts leave out the scratch page and slot."""

    vocab_tokens: int
    """Ids the tokenizer can write; higher rows of the head are masked when sampling."""
    slots: int
    pages: dict[Pool, int]
    page_bytes: dict[Pool, int]
    state_bytes: int
    run_ahead_slots: int = 0
    """State slots past `slots`, one a lane: where a launch writes that runs ahead of its commit (decision 5)."""
    follows_copies: bool = False
    """Whether a unit may be submitted behind host transfers under way, and starts on the layers that are there."""
    feeds_draws: bool = False
    """Whether a unit may feed what is drawn on the device before anybody has read it (`UnitBatch.drawn_by`)."""


class UnitKind(Enum):
    """What a unit is for. All rows of a unit share the kind.

    DECODE rows feed one token each. VERIFY rows feed several: the accepted tokens of a longer run.
    """

    PREFILL = "prefill"
    REPLAY = "replay"
    DECODE = "decode"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class StateCut:
    """The recurrent scan is cut after `offset` tokens of the row (0 < offset <= row length, settled decision 6).

    With a slot, the complete state at that point (recurrent, conv, tail hidden row) is written there as well.
    """

    offset: int
    slot: SlotId | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingOverride:
    """Rows [start, start + count) of the unit's row take prepared media rows instead of token embeddings.

    `first`: the media row that `start` takes; not 0 where a chunk begins inside the media.
    """

    start: int
    count: int
    media: int
    first: int = 0


@dataclass(frozen=True, slots=True)
class UnitRow:
    """One sequence's part of a unit.

    `token_ids`: int32 [T], fed at positions [start, start + T) of the history. `positions`: int32 [3 * T],
    axis-major (time, height, width), the rotary positions of these tokens. `pages`: per KV pool, int32 page ids
    that cover [0, start + T). State is read from `read_slot` (None: the empty state) and written to `write_slot`,
    tail hidden row included; the two are equal for a step in place (settled decision 5).
    """

    lane: LaneId
    token_ids: memoryview
    start: int
    positions: memoryview
    pages: dict[Pool, memoryview]
    read_slot: SlotId | None
    write_slot: SlotId
    cuts: tuple[StateCut, ...] = ()
    overrides: tuple[EmbeddingOverride, ...] = ()


@dataclass(frozen=True, slots=True)
class UnitBatch:
    """Rows that run as one launch: 1-8 rows (DECODE, VERIFY), or one row (PREFILL, REPLAY).

    `drawn_by`: the sampling submitted last. Each row, of DECODE, then feeds the first token which that draws for its
    lane; `token_ids` only says that it is one.
    """

    kind: UnitKind
    rows: tuple[UnitRow, ...]
    drawn_by: UnitId | None = None


@dataclass(frozen=True, slots=True)
class SampleRow:
    """Draw one token from the tail hidden row kept in `slot`: after a unit, or straight from a restored state (D9).

    `position` is the logical position of the token drawn. `uniform` is in [0, 1). `output_ids`: int32, the tokens
    generated so far, given only when `params.counts_output`. `mask`: packed bits over the vocabulary, little-endian
    bit order, 1 = allowed. `logprobs`: None, or how many alternatives to report.
    """

    lane: LaneId
    slot: SlotId
    position: int
    params: SamplingParams
    uniform: float
    output_ids: memoryview | None = None
    mask: bytes | None = None
    logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class PageCopy:
    """Copy one page inside a pool (tail copy on write). Only the first `tokens` tokens matter."""

    pool: Pool
    source: PageId
    target: PageId
    tokens: int


@dataclass(frozen=True, slots=True)
class StateCopy:
    """Copy one StateImage between slots."""

    source: SlotId
    target: SlotId


@dataclass(frozen=True, slots=True)
class PageToHost:
    """Copy one page to the host arena at byte `target`. Only the first `tokens` tokens matter."""

    pool: Pool
    source: PageId
    target: int
    tokens: int


@dataclass(frozen=True, slots=True)
class PageFromHost:
    """Copy one page from byte `source` of the host arena. Only the first `tokens` tokens matter."""

    pool: Pool
    source: int
    target: PageId
    tokens: int


@dataclass(frozen=True, slots=True)
class StateToHost:
    """Copy one StateImage to the host arena at byte `target`."""

    source: SlotId
    target: int


@dataclass(frozen=True, slots=True)
class StateFromHost:
    """Copy one StateImage from byte `source` of the host arena."""

    source: int
    target: SlotId


HostCopy = PageToHost | PageFromHost | StateToHost | StateFromHost


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one row yielded: a run of tokens (settled decision 15), one for plain decode."""

    lane: LaneId
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] | None = None


@dataclass(frozen=True, slots=True)
class CopyDone:
    transfer: TransferId


@dataclass(frozen=True, slots=True)
class UnitDone:
    unit: UnitId


@dataclass(frozen=True, slots=True)
class SamplesDone:
    unit: UnitId
    """The id that `submit_sampling` returned."""
    runs: tuple[RunResult, ...]


@dataclass(frozen=True, slots=True)
class CopyFailed:
    """A host transfer ended without its contents; its targets hold nothing. The device goes on."""

    transfer: TransferId


Completion = CopyDone | UnitDone | SamplesDone | CopyFailed


class Device(Protocol):
    """Implemented by the CPU device, the CUDA device and the simulated one. Raises DeviceFailure, nothing else."""

    facts: DeviceFacts

    def submit_copy(self, copies: Sequence[PageCopy | StateCopy]) -> TransferId:
        """Start copies; they are complete when `CopyDone` is polled."""
        ...

    def submit_unit(self, batch: UnitBatch, after: Sequence[TransferId] = ()) -> UnitId:
        """Run a forward pass, after the transfers named. Views in the rows must stay unchanged until `UnitDone`."""
        ...

    def submit_sampling(self, rows: Sequence[SampleRow]) -> UnitId:
        """Draw tokens, after every unit submitted before (settled decision 16)."""
        ...

    def poll(self) -> list[Completion]:
        """Completions since the last poll, in order of completion. Never blocks."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Block until there may be something to poll, or the time is over."""
        ...

    def close(self) -> None:
        """Give back memory and threads."""
        ...


class HostTier(Protocol):
    """The pinned host arena beside a device (C2). Blocks have the byte layout that they have on the device.

    Transfers land in any order, as `CopyDone` or `CopyFailed` from the device's own `poll`. A unit that needs one names
    it in `after`; source and target belong to the transfer until it has landed.
    """

    host_bytes: int

    def submit_host_copy(self, copies: Sequence[HostCopy]) -> TransferId:
        """Start transfers as one; it follows every unit submitted before."""
        ...
