"""Which content leaves the device for the host first: plain least recently used, what needs no copy before the rest.

Chooses and changes nothing. A demotion loses nothing, so that standing and loss do not enter; content of histories in
use goes last, since it is needed soonest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ninfer.base.ids import Handle
from ninfer.ports.native import DemoteAction

from .continuation import Continuation


def rank_demotions(
    actions: Iterable[DemoteAction], owners: Mapping[Handle, Continuation], keep: frozenset[Handle]
) -> list[DemoteAction]:
    """Admissible actions, first to go first; those that touch `keep` are left out."""
    admissible = [action for action in actions if keep.isdisjoint(action.points)]
    return sorted(admissible, key=lambda action: (_is_used(action, owners), *_order(action, owners)))


def last_use(points: Iterable[Handle], owners: Mapping[Handle, Continuation]) -> int:
    """When content of these points was used last; 0 where no record owns it."""
    return max((owners[point].last_used for point in points if point in owners), default=0)


def _is_used(action: DemoteAction, owners: Mapping[Handle, Continuation]) -> bool:
    return any(owners[point].user is not None for point in action.points if point in owners)


def _order(action: DemoteAction, owners: Mapping[Handle, Continuation]) -> tuple[bool, int, int]:
    """The deepest pages of a history come first, as Program lists them: sorting keeps that order."""
    return action.moved_bytes > 0, last_use(action.points, owners), -(action.pages.first if action.pages else 0)
