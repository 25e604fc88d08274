"""In which order finite actions are carried out for one typed gap (I1-I5).

Pure. A candidate's class and loss are found once and serve every admission check and the ranking (I2); how much of its
release the gap can use, and so its place, is a question of the gap. All candidates are ordered at once, as vectors:
1,000 of them stand in the way of an admission.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ninfer.base.ids import Handle
from ninfer.base.pools import Pool
from ninfer.ports.native import DeleteAction, DemoteAction

from .admission import Limits
from .retention import Retention
from .uses import Uses

FRESH_USES = 4.0
"""Uses and publications within which nothing counts as idle: about those of one request."""

USES_A_LENGTH = 6.0
"""Most uses that may pass for a point while its own length is asked for: small requests age it little."""

Action = DeleteAction | DemoteAction
Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Holder:
    """One optional owner of points, as ranking sees it. `frontiers`: all of its living points.

    `proven_frontier`: the position really adopted; None for an owner without demand. `last_used`: retention order.
    """

    serial: int
    frontiers: Mapping[Handle, int]
    last_used: int
    is_public: bool = False
    is_reused: bool = False
    demand_at: int = 0
    proven_frontier: int | None = None

    def is_protected_from(self, points: frozenset[Handle]) -> bool:
        """Whether the end of these points, or of their device copies, touches what its standing protects (I3).

        A hot public owner protects its point. A hot private one protects its proven position: only a suffix behind an
        earlier surviving point that covers that position is an ordinary loss.
        """
        if not self.is_reused:
            return False
        if self.is_public:
            return True
        assert self.proven_frontier is not None, "H1: reused without a proven position"
        shallowest = min(frontier for point, frontier in self.frontiers.items() if point in points)
        return not any(
            self.proven_frontier <= frontier < shallowest
            for point, frontier in self.frontiers.items()
            if point not in points
        )


@dataclass(frozen=True, slots=True)
class Ranked:
    """One action with what it costs. `useful`: what this gap can use of its release.

    `victims`: host content that a demotion deletes first; its loss and class are in these numbers (I5).
    `demand_at`: newest demand among the owners that protect it; 0 for ordinary content. `expected_loss`: each lost
    stretch as likely as a start that needs it. `key`: its place among others.
    """

    action: Action
    retention: Retention
    loss_tokens: int
    useful: int
    demand_at: int
    last_used: int
    victims: tuple[DeleteAction, ...] = ()
    expected_loss: float = 0.0
    key: tuple[float, ...] = ()

    @property
    def points(self) -> frozenset[Handle]:
        """Every point that loses something, victims included."""
        return frozenset(self.action.points).union(*(victim.points for victim in self.victims))

    @property
    def lost_points(self) -> frozenset[Handle]:
        """Every point that ends; one that is only demoted lives on."""
        own = self.action.points if isinstance(self.action, DeleteAction) else ()
        return frozenset(own).union(*(victim.points for victim in self.victims))

    @property
    def moves(self) -> bool:
        """Whether something has to be copied."""
        return isinstance(self.action, DemoteAction) and self.action.moved_bytes > 0

    def order(self) -> tuple[tuple[float, ...], bool, tuple[Handle, ...], int]:
        """Sort key. On a full tie what moves nothing goes first, then points and pages in a fixed order."""
        is_group = isinstance(self.action, DemoteAction) and self.action.pages is not None
        first = -self.action.pages.first if is_group else 0  # type: ignore[union-attr]
        return self.key, self.moves, self.action.points, first


@dataclass(frozen=True, slots=True)
class Facts:
    """What a decision knows of owners and losses. Dies with any change (I2)."""

    holders: Mapping[Handle, Sequence[Holder]]
    loss_of: Callable[[Iterable[Handle]], int]
    expected_loss_of: Callable[[Iterable[Handle]], float] | None = None

    def assess(self, action: Action, useful: int, victims: tuple[DeleteAction, ...] = ()) -> Ranked:
        """Class, loss and order of one action together with its fixed victims; its place is not found yet."""
        touched = frozenset(action.points)
        gone = touched if isinstance(action, DeleteAction) else frozenset()
        for victim in victims:
            gone = gone.union(victim.points)
            touched = touched.union(victim.points)
        known: set[int] = set()
        demand_at = last_used = 0
        retention = Retention.ORDINARY
        for point in touched:
            for holder in self.holders.get(point, ()):
                if holder.serial in known:
                    continue
                known.add(holder.serial)
                last_used = max(last_used, holder.last_used)
                if holder.is_protected_from(touched):
                    retention = Retention.REUSED
                    demand_at = max(demand_at, holder.demand_at)
        loss_tokens = self.loss_of(gone) if gone else 0
        expected = self.expected_loss_of(gone) if gone and self.expected_loss_of is not None else 0.0
        return Ranked(action, retention, loss_tokens, useful, demand_at, last_used, victims, expected)


class Columns(NamedTuple):
    """The candidates as vectors, a row each; `useful` as this gap can use it."""

    retention: Vector
    loss_tokens: Vector
    useful: Vector
    last_used: Vector
    demand_at: Vector
    expected_loss: Vector
    lost_tokens: Vector
    """Length of the longest point that ends; 0: none does."""


KeyOf = Callable[[Columns, Uses], tuple[Vector, ...]]
"""The place of candidates at a moment of the order of uses: the most important key first, what is lower goes first."""


def order_of_source(columns: Columns, _now: Uses) -> tuple[Vector, ...]:
    """Ordinary content before reused. Ordinary by least marginal loss for the release that this gap can use, then in
    retention order; reused by last real demand, the oldest first (I4)."""
    is_reused = columns.retention > 0
    first = np.where(is_reused, columns.demand_at, columns.loss_tokens / columns.useful)
    return columns.retention, first, np.where(is_reused, columns.loss_tokens, columns.last_used)


def order_of_expectation(columns: Columns, now: Uses) -> tuple[Vector, ...]:
    """Least expected loss for the release that this gap can use, the longer unused the less (docs/adr/0007). Classes
    enter by the rights of who asks alone."""
    lengths = now.list_asked_since(columns.last_used) / np.maximum(columns.lost_tokens, 1.0)
    idle = np.minimum(now.order - columns.last_used, USES_A_LENGTH * lengths) + FRESH_USES
    return columns.expected_loss / (columns.useful * idle**2), columns.last_used


class Block:
    """Candidates that were assessed together: each with `useful` as all that it frees, and the same as a table."""

    __slots__ = ("entries", "points", "table")

    def __init__(self, entries: Sequence[Ranked]) -> None:
        self.entries = entries
        self.points = frozenset(point for entry in entries for point in entry.action.points)
        self.table = np.array([(*_row(entry), entry.moves) for entry in entries], np.float64)


def rank(
    blocks: Sequence[Block], gap: int, key_of: KeyOf, now: Uses, limits: Limits, *, may_copy: bool = True
) -> Iterator[Ranked]:
    """Candidates within the limits, first to go first; only as far as somebody asks.

    `may_copy`: what has to be copied may go as well.
    """
    if not blocks:
        return
    table = np.concatenate([block.table for block in blocks])
    columns, moves = Columns(*table[:, :-1].T), table[:, -1]
    is_open = limits.allow_all(columns.retention, columns.demand_at, columns.loss_tokens)
    rows = np.flatnonzero(is_open if may_copy else is_open & (moves == 0))
    columns = Columns(*(column[rows] for column in columns))
    columns = columns._replace(useful=np.minimum(columns.useful, gap))
    keys = (*key_of(columns, now), moves[rows])
    order = np.lexsort(keys[::-1])
    places = np.stack(keys, axis=1)[order]
    ends = (places[1:] != places[:-1]).any(axis=1).nonzero()[0] + 1
    stops = list(accumulate(len(block.entries) for block in blocks))
    start = 0
    for stop in [*ends.tolist(), len(order)]:
        tied = []
        for at in range(start, stop):
            row = int(rows[order[at]])
            block = bisect_right(stops, row)
            entry = blocks[block].entries[row - stops[block]]
            tied.append(replace(entry, useful=min(gap, entry.useful), key=tuple(places[at, :-1].tolist())))
        yield from tied if len(tied) == 1 else sorted(tied, key=Ranked.order)
        start = stop


def place(entry: Ranked, key_of: KeyOf, now: Uses) -> Ranked:
    """One candidate with its place."""
    keys = key_of(Columns(*(np.array([value], np.float64) for value in _row(entry))), now)
    return replace(entry, key=tuple(float(key[0]) for key in keys))


def _row(entry: Ranked) -> tuple[float, ...]:
    """In the order of `Columns`."""
    return (
        entry.retention,
        entry.loss_tokens,
        entry.useful,
        entry.last_used,
        entry.demand_at,
        entry.expected_loss,
        entry.action.lost_tokens if isinstance(entry.action, DeleteAction) else 0,
    )


def assess_all(facts: Facts, actions: Iterable[Action], pool: Pool) -> Block:
    """Candidates of one pool. Actions on the same points in a row are assessed once."""
    entries: list[Ranked] = []
    for action in actions:
        last = entries[-1] if entries else None
        if isinstance(action, DemoteAction) and last is not None and last.action.points is action.points:
            entries.append(replace(last, action=action, useful=action.frees[pool]))
        else:
            entries.append(facts.assess(action, action.frees[pool]))
    return Block(entries)
