"""Private records: the restore points of one history and who uses it now.

Knows handles, frontiers and the tokens a history stands for. Does not know pages, slots or bytes (B4, B6).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import PrefixDigests
from ninfer.base.ids import Handle, Ticket
from ninfer.base.pools import PAGE_TOKENS


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


@dataclass(slots=True, eq=False)
class Continuation:
    """One history with at most one generation endpoint and one input point (D1).

    `user`: the request that writes this history on, None while inactive. `publication_order`: order of the last
    publication (F4). `last_used`: order of the last adoption or publication, `used_at`: how many requests had started
    by then. `adoptions`: requests that really started from one of its points (H1); saving and finishing are none.
    """

    serial: int
    history: History
    session: str | None = None
    user: Ticket | None = None
    end: Handle | None = None
    input_point: Handle | None = None
    publication_order: int = 0
    last_used: int = 0
    used_at: int = 0
    adoptions: int = 0
    frontiers: dict[Handle, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Nothing to restore from and nobody who writes it."""
        return self.user is None and not self.frontiers

    def points(self) -> tuple[Handle, ...]:
        """Its live points, input point first."""
        return tuple(self.frontiers)

    def publish_end(self, point: Handle, frontier: int) -> None:
        """Set the generation endpoint."""
        assert self.end is None, "one endpoint a record (D1)"
        self.end = point
        self.frontiers[point] = frontier

    def publish_input_point(self, point: Handle, frontier: int) -> None:
        """Set the input point; the older one must have been retired (D6)."""
        assert self.input_point is None, "one input point a record (D1)"
        self.input_point = point
        self.frontiers[point] = frontier

    def retire(self, point: Handle) -> None:
        """Forget a point that Program ended."""
        del self.frontiers[point]
        if self.end == point:
            self.end = None
        if self.input_point == point:
            self.input_point = None

    def loss_without(self, points: frozenset[Handle]) -> int:
        """Tokens to recompute more if these points end, against the fallback that survives (I5)."""
        lost = max((frontier for point, frontier in self.frontiers.items() if point in points), default=0)
        fallback = max(
            (frontier for point, frontier in self.frontiers.items() if point not in points and frontier <= lost),
            default=0,
        )
        return lost - fallback
