"""What Program holds for one bound request: its ledger, its history, its slot, and what it has under way.

Plain record. The procedures that change it live in bind, permits, capture, flights and program.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ninfer.base.ids import Handle, LaneId, PageId, SlotId
from ninfer.base.pools import Pool
from ninfer.ports.device import RunResult
from ninfer.ports.native import CaptureRequest, Prompt
from ninfer.store.audit import Owned
from ninfer.store.directory import KvDirectory

from .ledger import Ledger
from .restore import Restoring

if TYPE_CHECKING:
    from .ahead import Ahead


@dataclass(frozen=True, slots=True)
class SourceRead:
    """A Fork before its first unit has landed: the state is still the source's, under a reader lease."""

    slot: SlotId
    lease: Handle


@dataclass(frozen=True, slots=True)
class TailCopies:
    """Copies of partly filled pages under way. `replaces`: they take the tail's place in the table once landed."""

    lease: Handle
    pages: tuple[tuple[Pool, PageId], ...]
    replaces: bool


@dataclass(slots=True)
class PendingCapture:
    """A capture with its destination: reserved, then (`slot`) being written by the unit in flight."""

    request: CaptureRequest
    reservation: Handle | None
    slot: SlotId | None = None


@dataclass(slots=True)
class Sequence:
    """`slot`: the active slot; its content is complete once `slot_is_live`. `outstanding`: completions to come."""

    lane: LaneId
    prompt: Prompt
    ledger: Ledger
    directory: KvDirectory
    slot: SlotId
    slot_is_live: bool
    handle: Handle
    source: SourceRead | None = None
    tails: TailCopies | None = None
    restoring: Restoring | None = None
    permit: Handle | None = None
    captures: list[PendingCapture] = field(default_factory=list)
    run: RunResult | None = None
    ahead: Ahead | None = None
    """A launch that feeds `run` before it is committed."""
    is_early: bool = False
    """Its first unit was submitted behind the copies of its bind, and has not landed."""
    is_normalizing: bool = False
    outstanding: int = 0
    is_broken: bool = False
    """Its bind failed: all that is left is to release it."""
    is_ended: bool = False
    """Frozen or released: its handle is stale, and nothing more is reported for it."""

    @property
    def may_start(self) -> bool:
        """Whether it waits for nothing but what its bind brings back from the host."""
        return self.restoring is not None and self.outstanding == 1 and not self.is_early and not self.is_broken

    @property
    def read_slot(self) -> SlotId | None:
        """Where the state stands now, or will once the copies of the bind have landed; None is the empty state."""
        if self.source is not None:
            return self.source.slot
        if self.restoring is not None and self.restoring.missing.image is not None:
            return self.slot
        return self.slot if self.slot_is_live else None

    @property
    def fed_slot(self) -> SlotId:
        """Where the state stands once everything submitted has landed."""
        return self.slot if self.ahead is None else self.ahead.slot

    def owned(self) -> Owned:
        """Everything this sequence owns directly, for the audit."""
        slots = [self.slot]
        reservations = [] if self.permit is None else [self.permit]
        leases = [] if self.source is None else [self.source.lease]
        for capture in self.captures:
            if capture.slot is not None:
                slots.append(capture.slot)
            if capture.reservation is not None:
                reservations.append(capture.reservation)
        pages: tuple[tuple[Pool, PageId], ...] = ()
        if self.tails is not None:
            leases.append(self.tails.lease)
            pages = self.tails.pages if self.tails.replaces else ()
        if self.ahead is not None:
            leases.append(self.ahead.lease)
        if self.restoring is not None:
            leases.append(self.restoring.lease)
            pages += self.restoring.owned_pages()
        return Owned(tuple(slots), pages, tuple(reservations), tuple(leases), self.directory.serial)
