"""Private records: the restore points of one history and who uses it now.

Knows handles, frontiers and the tokens a history stands for. Does not know pages, slots or bytes (B4, B6).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import PrefixDigests
from ninfer.base.ids import Handle, Ticket
from ninfer.base.pools import PAGE_TOKENS

from .demand import Demand


@dataclass(frozen=True, slots=True)
class History:
    """What a record is about: its tokens (they may still grow) and their page digests (they may lag behind)."""

    tokens: IntBuffer
    digests: PrefixDigests

    def match(self, tokens: IntBuffer, digests: PrefixDigests) -> int:
        """Length of the longest common prefix with other tokens. O(log pages) once both are digested."""
        low, high = 0, min(self.digests.pages, digests.pages)
        if self.digests.at_page(0) != digests.at_page(0):
            return 0
        while low < high:
            middle = (low + high + 1) // 2
            if self.digests.at_page(middle) == digests.at_page(middle):
                low = middle
            else:
                high = middle - 1
        start = low * PAGE_TOKENS
        stop = min(len(self.tokens), len(tokens))
        if low < min(self.digests.pages, digests.pages):  # the next page is digested on both sides and differs
            stop = min(stop, start + PAGE_TOKENS)
        mine, theirs = IntBuffer(self.tokens.view(start, stop)), IntBuffer(tokens.view(start, stop))
        return start + mine.common_prefix(theirs)


MOST_ANCHORS = 4
"""Explicit private anchors of one record (D1)."""


class Use(Enum):
    """What a point is to its owner (D1, D11)."""

    END = "end"
    INPUT = "input"
    ANCHOR = "anchor"
    SHARED = "shared"


@dataclass(slots=True, eq=False)
class Continuation:
    """One history with at most one generation endpoint, one input point and four anchors (D1).

    A point may have other owners as well: a shared entry at the same place, a branch that started from it, waiters.
    `user`: the request that writes this history on, None while inactive. `publication_order`: order of the last
    publication (F4). `last_used`: retention order, of the last publication or use. `demand`: the last real adoption
    and its position, or None (H1); saving and finishing change nothing there. `anchors`: oldest publication first.
    """

    serial: int
    history: History
    session: str | None = None
    user: Ticket | None = None
    end: Handle | None = None
    input_point: Handle | None = None
    anchors: list[Handle] = field(default_factory=list)
    publication_order: int = 0
    last_used: int = 0
    demand: Demand | None = None
    frontiers: dict[Handle, int] = field(default_factory=dict)
    input_end: int | None = None
    """Serial of the shared entry at the end of this conversation's last input, saved unasked."""
    turns: int = 0
    """How often the record was taken over."""
    end_starts: int = 0
    """Requests that started from its endpoint."""
    input_starts: int = 0
    """Requests that started from its input point or an anchor."""

    @property
    def is_empty(self) -> bool:
        """Nothing to restore from and nobody who writes it."""
        return self.user is None and not self.frontiers

    def points(self) -> tuple[Handle, ...]:
        """Its living points, in order of publication."""
        return tuple(self.frontiers)

    def publish(self, point: Handle, frontier: int, uses: frozenset[Use]) -> None:
        """Own a point for these uses; what it replaces was let go before (D6)."""
        self.frontiers[point] = frontier
        if Use.END in uses:
            assert self.end is None, "one endpoint a record (D1)"
            self.end = point
        if Use.INPUT in uses:
            assert self.input_point is None, "one input point a record (D1)"
            self.input_point = point
        if Use.ANCHOR in uses:
            if point in self.anchors:
                self.anchors.remove(point)
            self.anchors.append(point)
            assert len(self.anchors) <= MOST_ANCHORS, "four anchors a record (D1)"

    def uses_of(self, point: Handle) -> frozenset[Use]:
        """What the point is to this record."""
        uses = {Use.END: self.end == point, Use.INPUT: self.input_point == point, Use.ANCHOR: point in self.anchors}
        return frozenset(use for use, holds in uses.items() if holds)

    def find_at(self, frontier: int) -> Handle | None:
        """Its input point or anchor at exactly this frontier."""
        for point, at in self.frontiers.items():
            if at == frontier and point != self.end:
                return point
        return None

    def release_use(self, use: Use, point: Handle) -> bool:
        """Give up one use. True: the record has no use for the point any more and does not own it."""
        match use:
            case Use.END:
                self.end = None
            case Use.INPUT:
                self.input_point = None
            case Use.ANCHOR:
                self.anchors.remove(point)
            case Use.SHARED:
                raise AssertionError("D11: shared use belongs to an entry")
        if self.uses_of(point):
            return False
        del self.frontiers[point]
        return True

    def retire(self, point: Handle) -> None:
        """Forget a point with all its uses."""
        del self.frontiers[point]
        if self.end == point:
            self.end = None
        if self.input_point == point:
            self.input_point = None
        if point in self.anchors:
            self.anchors.remove(point)
