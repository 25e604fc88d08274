"""Evidence of real demand: who needed which exact position, and when (H1, H2).

Holds digests and orders only: no State, no KV, no hit statistics. Rendering, queries, polling, own resumes and saving
observe nothing; whoever calls `note_computed` or `note_adopted` vouches for committed work or a finished adoption.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import PrefixDigests
from ninfer.base.ids import Ticket
from ninfer.base.pools import PAGE_TOKENS

SUMMARY_ENTRIES = 256
"""Positions that the summary remembers, the least recently observed goes first (H2)."""

_TAG_BYTES = 8


@dataclass(frozen=True, slots=True)
class Demand:
    """A private owner's pair, or a public entry's use: order of the last real demand, and the position adopted (H1)."""

    at: int
    proven_frontier: int


@dataclass(frozen=True, slots=True)
class Position:
    """An exact place in a prefix: digest of its complete pages, frontier, tag of the tokens behind the last page."""

    digest: bytes
    frontier: int
    tag: bytes


def position_at(tokens: IntBuffer, digests: PrefixDigests, frontier: int) -> Position:
    """The position of `tokens` at `frontier`. `digests` must reach its last complete page."""
    pages = frontier // PAGE_TOKENS
    tail = tokens.view(pages * PAGE_TOKENS, frontier)
    hasher = hashlib.blake2b(tail, digest_size=_TAG_BYTES)
    for span in digests.media:
        if pages * PAGE_TOKENS <= span.start < frontier:
            hasher.update(repr((span.start, span.stop, span.digest, span.grid)).encode())
    return Position(digests.at_page(pages), frontier, hasher.digest())


@dataclass(slots=True)
class _Evidence:
    """Observations of one position. `first`: who computed it first; `repeated_at`: when demand was last repeated."""

    first: Ticket
    repeated_at: int | None = None


class DemandSummary:
    """At most `capacity` positions with what really happened at them."""

    __slots__ = ("_capacity", "_evidence", "_observed")

    def __init__(self, capacity: int = SUMMARY_ENTRIES) -> None:
        assert capacity > 0
        self._capacity = capacity
        self._evidence: OrderedDict[Position, _Evidence] = OrderedDict()
        self._observed: dict[Ticket, set[Position]] = {}

    def __len__(self) -> int:
        return len(self._evidence)

    def __contains__(self, position: Position) -> bool:
        return position in self._evidence

    def note_computed(self, position: Position, ticket: Ticket, at: int) -> None:
        """Committed new prefill of `ticket` crossed the position. The second request to do so proves repetition."""
        if not self._is_first_time(position, ticket):
            return
        evidence = self._evidence.get(position)
        if evidence is None:
            self._remember(position, _Evidence(ticket))
            return
        if evidence.first != ticket:
            evidence.repeated_at = at
        self._evidence.move_to_end(position)

    def note_adopted(self, position: Position, ticket: Ticket, at: int) -> None:
        """`ticket` started from a point of another request there: repeated demand at once."""
        if position.frontier == 0 or not self._is_first_time(position, ticket):
            return
        evidence = self._evidence.get(position)
        if evidence is None:
            self._remember(position, _Evidence(ticket, at))
            return
        evidence.repeated_at = at
        self._evidence.move_to_end(position)

    def find_repeated(self, position: Position) -> int | None:
        """Order of the last repeated demand at exactly this position; None: there was none."""
        evidence = self._evidence.get(position)
        return None if evidence is None else evidence.repeated_at

    def list_crossed(self, tokens: IntBuffer, digests: PrefixDigests, start: int, stop: int) -> list[Position]:
        """Remembered positions of this prefix in (start, stop], shallowest first."""
        crossed = [position for position in self._evidence if start < position.frontier <= stop]
        exact = [
            position
            for position in crossed
            if position.frontier // PAGE_TOKENS <= digests.pages
            and digests.at_page(position.frontier // PAGE_TOKENS) == position.digest
            and position_at(tokens, digests, position.frontier) == position
        ]
        return sorted(exact, key=lambda position: position.frontier)

    def close(self, tickets: Iterable[Ticket]) -> None:
        """These requests ended: what they observed need not be told apart any more."""
        for ticket in tickets:
            self._observed.pop(ticket, None)

    def audit(self, living: frozenset[Ticket]) -> None:
        """Bounded, and no memory of requests that ended (C5)."""
        assert len(self._evidence) <= self._capacity, "H2: the summary outgrew its bound"
        assert self._observed.keys() <= living, "C5: observations of a request that ended"

    def _is_first_time(self, position: Position, ticket: Ticket) -> bool:
        """Once per request and position (H2)."""
        seen = self._observed.setdefault(ticket, set())
        if position in seen:
            return False
        seen.add(position)
        return True

    def _remember(self, position: Position, evidence: _Evidence) -> None:
        self._evidence[position] = evidence
        if len(self._evidence) > self._capacity:
            self._evidence.popitem(last=False)
