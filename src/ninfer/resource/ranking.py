"""In which order finite actions are carried out for one typed gap (I1-I5).

Pure. A candidate's class and loss are found once and serve every admission check and the ranking (I2). Ordinary content
goes before reused content; ordinary by least marginal loss for the release that this gap can use, then in retention
order; reused by last real demand, the oldest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ninfer.base.ids import Handle
from ninfer.base.pools import Pool
from ninfer.ports.native import DeleteAction, DemoteAction

from .retention import Retention

Action = DeleteAction | DemoteAction


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
    `demand_at`: newest demand among the owners that protect it; 0 for ordinary content.
    """

    action: Action
    retention: Retention
    loss_tokens: int
    useful: int
    demand_at: int
    last_used: int
    victims: tuple[DeleteAction, ...] = ()

    @property
    def points(self) -> frozenset[Handle]:
        """Every point that loses something, victims included."""
        return frozenset(self.action.points).union(*(victim.points for victim in self.victims))

    @property
    def lost_points(self) -> frozenset[Handle]:
        """Every point that ends; one that is only demoted lives on."""
        own = self.action.points if isinstance(self.action, DeleteAction) else ()
        return frozenset(own).union(*(victim.points for victim in self.victims))

    def order(self) -> tuple[int, float, int, bool, tuple[Handle, ...], int]:
        """Sort key (I4). On a full tie what moves nothing goes first, then points and pages in a fixed order."""
        first = 0
        moves = False
        if isinstance(self.action, DemoteAction):
            moves = self.action.moved_bytes > 0
            first = -self.action.pages.first if self.action.pages is not None else 0
        if self.retention is Retention.ORDINARY:
            return self.retention, self.loss_tokens / self.useful, self.last_used, moves, self.action.points, first
        return self.retention, self.demand_at, self.loss_tokens, moves, self.action.points, first


@dataclass(frozen=True, slots=True)
class Facts:
    """What a decision knows of owners and losses. Dies with any change (I2)."""

    holders: Mapping[Handle, Sequence[Holder]]
    loss_of: Callable[[Iterable[Handle]], int]

    def assess(self, action: Action, useful: int, victims: tuple[DeleteAction, ...] = ()) -> Ranked:
        """Class, loss and order of one action together with its fixed victims."""
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
        return Ranked(action, retention, loss_tokens, useful, demand_at, last_used, victims)


def rank(facts: Facts, actions: Iterable[Action], pool: Pool, gap: int, keep: frozenset[Handle]) -> list[Ranked]:
    """Actions that release something of the gap, first to go first. What touches `keep` is left out (I1, I8)."""
    ranked: list[Ranked] = []
    for action in actions:
        useful = min(gap, action.frees[pool])
        if useful > 0 and keep.isdisjoint(action.points):
            ranked.append(facts.assess(action, useful))
    ranked.sort(key=Ranked.order)
    return ranked
