"""Who has reused standing, kept in step: the newest real demand first, up to the soft target of every pool (H3).

`retention.find_reused` is the rule, from nothing. Here the set of yesterday is carried on: owners with newer demand
join in front, and as many as no longer fit leave at the back.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable

from ninfer.base.pools import Amounts, Pool
from ninfer.ports.footprint import Footprint

from .book import Owner
from .continuation import Continuation
from .retention import SOFT_TARGET

_Place = tuple[int, int]
"""Order of demand, negated, and serial: newest first."""


class Standing:
    """Reused owners of one resource manager. `footprint`: what they hold together, counted once."""

    def __init__(self, is_kept: Callable[[int], bool]) -> None:
        """`is_kept`: whether an owner of that serial is there still."""
        self._is_kept = is_kept
        self._footprint: Footprint | None = None
        self._order: list[_Place] = []
        self._place_of: dict[int, _Place] = {}
        self._owners: dict[int, Owner] = {}
        self._reused: set[int] = set()
        self._moves = -1

    def find(self, touched: Iterable[Owner], capacity: Amounts, footprint: Footprint) -> frozenset[int]:
        """Serials with reused standing. `touched`: owners that came, went, or have other demand or points.

        `capacity`: what optional content can have. `footprint`: the same one each time.
        """
        if self._footprint is not footprint or footprint.moves != self._moves:
            self._footprint, self._moves = footprint, footprint.moves
            footprint.clear()
            self._reused.clear()
        for owner in touched:
            self._take_in(owner)
        if SOFT_TARGET * capacity[Pool.STATE] < 1 or not self._order:
            for serial in list(self._reused):
                self._leave(serial)
            return frozenset()
        self._fit({pool: SOFT_TARGET * capacity[pool] for pool in Pool})
        return frozenset(self._reused)

    def _take_in(self, owner: Owner) -> None:
        serial = owner.serial
        self._leave(serial)
        place = self._place_of.pop(serial, None)
        if place is not None:
            del self._order[bisect_left(self._order, place)]
            del self._owners[serial]
        counts = isinstance(owner, Continuation) or not owner.is_superseded
        if counts and owner.demand is not None and owner.points() and self._is_kept(serial):
            place = self._place_of[serial] = (-owner.demand.at, serial)
            insort(self._order, place)
            self._owners[serial] = owner

    def _fit(self, targets: dict[Pool, float]) -> None:
        """The longest run of owners from the newest on that fits. The newest alone may exceed the targets."""
        footprint = self._footprint
        assert footprint is not None
        last = max((bisect_left(self._order, self._place_of[serial]) for serial in self._reused), default=0)
        first = self._order[0][1]
        alone = footprint.count(self._owners[first].points())
        limits = {pool: max(target, alone[pool]) for pool, target in targets.items()}
        for _, serial in self._order[: last + 1]:
            self._join(serial)
        while last and _exceeds(footprint, limits):
            self._leave(self._order[last][1])
            last -= 1
        while last + 1 < len(self._order):
            serial = self._order[last + 1][1]
            self._join(serial)
            if _exceeds(footprint, limits):
                self._leave(serial)
                return
            last += 1

    def _join(self, serial: int) -> None:
        if serial not in self._reused:
            assert self._footprint is not None
            self._reused.add(serial)
            self._footprint.add(serial, self._owners[serial].points())

    def _leave(self, serial: int) -> None:
        if serial in self._reused:
            assert self._footprint is not None
            self._reused.remove(serial)
            self._footprint.drop(serial)


def _exceeds(footprint: Footprint, limits: dict[Pool, float]) -> bool:
    return any(amount > limits[pool] for pool, amount in footprint.amounts())
