"""Retention classes: which owners count as reused now (H3).

Class decides in which order content is reclaimed and promises no permanence. Footprints are physical and unique; they
are asked of Program, which knows what owners share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum

from ninfer.base.ids import Handle
from ninfer.base.pools import Amounts, Pool

from .demand import Demand

SOFT_TARGET = 0.75
"""Share of each physical pool that reused owners may take before the older ones fall back (H3)."""

Footprints = Callable[[Sequence[Sequence[Handle]]], list[Amounts]]
"""For groups of points in order: what each group holds that no group before it holds."""


class Retention(IntEnum):
    """How willingly an owner's content is given up; lower goes first."""

    ORDINARY = 0
    REUSED = 1


def find_reused(
    owners: Iterable[tuple[int, Demand | None, Sequence[Handle]]], capacity: Amounts, footprints: Footprints
) -> frozenset[int]:
    """Serials of the owners with reused standing: the newest demand first, up to the soft target of every pool.

    `owners`: serial, last real demand, points. `capacity`: what optional content can have, the lanes' basic slots left
    out. The single newest owner may exceed the target; from the first one that does not fit on, all older ones are
    ordinary. Where the target is no whole slot nobody has standing, or the next chat would find no room for ever.
    """
    if SOFT_TARGET * capacity[Pool.STATE] < 1:
        return frozenset()
    proven = [(demand.at, serial, points) for serial, demand, points in owners if demand is not None and points]
    proven.sort(key=lambda entry: (-entry[0], entry[1]))
    targets = {pool: SOFT_TARGET * capacity[pool] for pool in Pool}
    charged = dict.fromkeys(Pool, 0)
    reused: list[int] = []
    for (_, serial, _), footprint in zip(proven, footprints([points for _, _, points in proven]), strict=True):
        for pool in Pool:
            charged[pool] += footprint[pool]
        if reused and any(charged[pool] > targets[pool] for pool, _ in footprint.items()):
            break
        reused.append(serial)
    return frozenset(reused)
