"""Everything Program offers to give up, by history: an answer is kept until what it rests on changes (I1, I2).

A listing finds again only what changed since the last one; what spans several histories is found each time.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from ninfer.base.pools import Pool
from ninfer.ports.native import ActionGroup, DeleteAction, DemoteAction
from ninfer.store.stores import ContextStores

from .actions import find_deletions, find_joint_deletions
from .demotions import find_demotions, find_shared_demotions
from .releases import Releases


class Kind(Enum):
    """What becomes of the content."""

    DELETE = "delete"
    DEMOTE = "demote"


class _Offer:
    """The groups of one kind and pool. `barren`: histories whose pages free nothing alone."""

    __slots__ = ("barren", "groups", "joint", "stale")

    def __init__(self, stale: set[int]) -> None:
        self.groups: dict[int, ActionGroup] = {}
        self.barren: set[int] = set()
        self.joint = ActionGroup(())
        self.stale = stale


class Offers:
    """The finite actions of one Program."""

    def __init__(self, stores: ContextStores) -> None:
        self._stores = stores
        self.releases = Releases(stores)
        self._offers: dict[tuple[Kind, Pool], _Offer] = {}

    def list_groups(self, kind: Kind, pool: Pool) -> list[ActionGroup]:
        """Groups of actions that free something of `pool`; an unchanged group is the same object."""
        if pool not in (Pool.STATE, Pool.HOST) and pool not in self._stores.pages:
            return []
        if not self._has_any(kind, pool):
            return []
        changed = self.releases.sync()
        for offer in self._offers.values():
            offer.stale |= changed
        offer = self._offers.get((kind, pool)) or self._open(kind, pool)
        for serial in sorted(offer.stale):
            self._find(offer, kind, pool, serial)
        offer.stale.clear()
        joint = self._list_joint(offer, kind, pool)
        if joint != offer.joint.actions:
            offer.joint = ActionGroup(joint)
        groups = [offer.groups[serial] for serial in sorted(offer.groups)]
        return [*groups, offer.joint] if joint else groups

    def forget_ended(self) -> None:
        """Where no point is left nothing is kept of those that were there (C5)."""
        if self._offers and not len(self._stores.checkpoints):
            self._offers.clear()
            self.releases.sync()

    def audit(self) -> None:
        """What is kept equals what is found from nothing: no change goes unnoticed (I2)."""
        for kind, pool in list(self._offers):
            kept = [action for group in self.list_groups(kind, pool) for action in group.actions]
            found = self._list_afresh(kind, pool) if self._has_any(kind, pool) else []
            assert _sort(kept) == _sort(found), f"I2: {kind.value} actions of {pool.value} are not those of now"

    def _list_afresh(self, kind: Kind, pool: Pool) -> list[DeleteAction | DemoteAction]:
        stores, releases = self._stores, Releases(self._stores)
        actions: list[DeleteAction | DemoteAction] = []
        barren: list[int] = []
        for directory in stores.directories:
            releases.facts(directory)
            if kind is Kind.DEMOTE:
                actions += find_demotions(stores, releases, directory, pool)
                continue
            mine, is_barren = find_deletions(stores, releases, directory, pool)
            actions += mine
            barren += [directory.serial] if is_barren else []
        if kind is Kind.DEMOTE:
            return actions + find_shared_demotions(stores, releases, pool)
        return actions + find_joint_deletions(stores, releases, barren, pool)

    def _has_any(self, kind: Kind, pool: Pool) -> bool:
        arena = self._stores.arena
        if kind is Kind.DEMOTE:
            return arena.capacity_bytes > 0 and pool is not Pool.HOST
        return pool is not Pool.HOST or len(arena) > 0

    def _open(self, kind: Kind, pool: Pool) -> _Offer:
        offer = _Offer({directory.serial for directory in self._stores.directories})
        self._offers[kind, pool] = offer
        return offer

    def _find(self, offer: _Offer, kind: Kind, pool: Pool, serial: int) -> None:
        offer.groups.pop(serial, None)
        offer.barren.discard(serial)
        if serial not in self._stores.directories:
            return
        directory = self._stores.directories[serial]
        actions: list[DeleteAction] | list[DemoteAction]
        if kind is Kind.DELETE:
            actions, is_barren = find_deletions(self._stores, self.releases, directory, pool)
            if is_barren:
                offer.barren.add(serial)
        else:
            actions = find_demotions(self._stores, self.releases, directory, pool)
        if actions:
            offer.groups[serial] = ActionGroup(tuple(actions))

    def _list_joint(self, offer: _Offer, kind: Kind, pool: Pool) -> tuple[DeleteAction | DemoteAction, ...]:
        if kind is Kind.DELETE:
            return tuple(find_joint_deletions(self._stores, self.releases, offer.barren, pool))
        return tuple(find_shared_demotions(self._stores, self.releases, pool))


def _sort(actions: list[DeleteAction | DemoteAction]) -> list[str]:
    return sorted(repr(replace(action, epoch=0)) for action in actions)
