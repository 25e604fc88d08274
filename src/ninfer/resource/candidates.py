"""All that could go, assessed: class, loss and order of every action Program offers, kept up to date (I2).

Only what changed since the last decision is assessed again: groups of actions that Program found anew, and those that
touch a point whose owners, standing or fallback changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from ninfer.base.ids import Handle
from ninfer.base.pools import Pool
from ninfer.ports.native import ActionGroup

from .book import Owner
from .continuation import Continuation
from .keeping import Keeping
from .ranking import Block, Facts, Holder, assess_all


class Candidates:
    """The assessed actions of one resource manager."""

    def __init__(self, keeping: Keeping, facts_type: type[Facts] = Facts, *, weighs_starts: bool = False) -> None:
        """`facts_type`: how an action is assessed. `weighs_starts`: its expected loss is wanted as well."""
        self._weighs_starts = weighs_starts
        self._keeping = keeping
        self._facts_type = facts_type
        self._reused: frozenset[int] = frozenset()
        self._holders: dict[Handle, list[Holder]] = {}
        self._holder_of: dict[int, Holder] = {}
        self._blocks: dict[tuple[Pool, bool], dict[ActionGroup, Block]] = {}
        self._weights: dict[Handle, float] = {}
        """How likely each point is what somebody starts from next."""
        self._facts = self._make_facts(self._holders)

    def refresh(
        self,
        reused: frozenset[int],
        touched: Iterable[Owner],
        points: Iterable[Handle],
        weights: dict[Handle, float] | None,
    ) -> None:
        """Take in what changed. `touched`: owners with another order, demand or points; `points`: with other owners or
        another fallback. `reused`: who has reused standing now. `weights`: None: as before."""
        changed = set(points)
        if weights is not None:
            changed.update(point for point, _ in weights.items() ^ self._weights.items())
            self._weights = weights
        switched = self._reused ^ reused
        self._reused = reused
        for owner in chain(touched, (self._find_owner(serial) for serial in sorted(switched))):
            if owner is not None:
                self._holder_of.pop(owner.serial, None)
                changed.update(owner.points())
        for point in sorted(changed):
            owners = self._keeping.book.owners_of(point)
            if owners:
                self._holders[point] = [self._find_holder(owner) for owner in owners]
            else:
                self._holders.pop(point, None)
        if changed:
            for blocks in self._blocks.values():
                stale = [group for group, block in blocks.items() if not block.points.isdisjoint(changed)]
                for group in stale:
                    del blocks[group]

    def look_up(self, pool: Pool, groups: Sequence[ActionGroup], *, moves: bool) -> list[Block]:
        """The groups assessed: deletions, or demotions where content `moves`. What is not offered now is forgotten."""
        before, now = self._blocks.get((pool, moves), {}), dict[ActionGroup, Block]()
        for group in groups:
            block = before.get(group)
            now[group] = assess_all(self._facts, group.actions, pool) if block is None else block
        self._blocks[pool, moves] = now
        return list(now.values())

    def clear(self) -> None:
        """Nothing is offered."""
        self._blocks.clear()

    @property
    def facts(self) -> Facts:
        """Owners and losses as they were taken in last."""
        return self._facts

    def audit(self) -> None:
        """What is kept equals what is assessed from nothing."""
        holders: dict[Handle, list[Holder]] = {}
        for point in self._keeping.book.list_owned():
            holders[point] = [make_holder(owner, self._reused) for owner in self._keeping.book.owners_of(point)]
        assert holders == self._holders, "I2: owners of points are not those of now"
        facts = self._make_facts(holders)
        for (pool, _), blocks in self._blocks.items():
            for group, block in blocks.items():
                fresh = assess_all(facts, group.actions, pool)
                assert fresh.entries == block.entries, f"I2: a candidate for {pool.value} is not what it was"

    def _make_facts(self, holders: dict[Handle, list[Holder]]) -> Facts:
        book = self._keeping.book
        if not self._weighs_starts:
            return self._facts_type(holders, book.paths.loss_of)
        weigh = lambda point: self._weights.get(point, 0.0)  # noqa: E731
        return self._facts_type(holders, book.paths.loss_of, lambda points: book.all_paths.expected_loss(points, weigh))

    def _find_owner(self, serial: int) -> Owner | None:
        record = self._keeping.records.get(serial)
        return self._keeping.entries.get(serial) if record is None else record

    def _find_holder(self, owner: Owner) -> Holder:
        holder = self._holder_of.get(owner.serial)
        if holder is None:
            holder = self._holder_of[owner.serial] = make_holder(owner, self._reused)
        return holder


def make_holder(owner: Owner, reused: frozenset[int]) -> Holder:
    """An owner as ranking sees it."""
    if isinstance(owner, Continuation):
        demand = owner.demand
        at, proven = (0, None) if demand is None else (demand.at, demand.proven_frontier)
        return Holder(owner.serial, owner.frontiers, owner.last_used, False, owner.serial in reused, at, proven)
    at = 0 if owner.demand is None else owner.demand.at
    is_reused = owner.serial in reused and not owner.is_superseded
    return Holder(owner.serial, {owner.point: owner.frontier}, owner.last_used, True, is_reused, at, owner.frontier)
