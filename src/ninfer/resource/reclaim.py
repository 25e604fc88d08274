"""Which optional points end when room is needed: a simple order over Program's finite actions (I1, I4, I5).

Chooses and changes nothing. Ordinary records come before reused ones and records in use come last; among ordinary
ones the least recovery loss for the release that counts now, then the least recently used; among reused ones the
least recently used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum

from ninfer.base.ids import Handle
from ninfer.base.pools import Pool
from ninfer.ports.native import DeleteAction

from .continuation import Continuation

REUSED_SHARE = 0.75
"""Soft target: the most recently reused records keep their standing up to this share of all points (H3)."""


class Right(Enum):
    """Who asks for room (I8)."""

    NECESSARY = "necessary"
    """Execution of an admitted request: any optional point but its own source, for whatever it gives."""
    ENTRY = "entry"
    """A request that enters or resumes: the same points, but only when they close the gap."""
    CAPTURE = "capture"
    """An optional save: inactive ordinary records only, and never for a greater loss than its own gain (E3)."""


class Standing(IntEnum):
    """How willingly a record is given up; lower goes first."""

    ORDINARY = 0
    REUSED = 1
    IN_USE = 2


@dataclass(frozen=True, slots=True)
class Ranked:
    """One action with what it costs."""

    action: DeleteAction
    standing: Standing
    loss_tokens: int
    last_used: int
    useful: int


def find_reused(records: Iterable[Continuation], point_capacity: int) -> frozenset[int]:
    """Serials of the records with reused standing: adopted at least once, the newest up to the soft target."""
    room = int(point_capacity * REUSED_SHARE)
    reused: list[int] = []
    for record in sorted((r for r in records if r.adoptions), key=lambda r: -r.last_used):
        room -= len(record.frontiers)
        if room < 0 and reused:  # a single newest record may exceed the target
            break
        reused.append(record.serial)
    return frozenset(reused)


def rank_actions(
    actions: Iterable[DeleteAction],
    pool: Pool,
    owners: Mapping[Handle, Continuation],
    reused: frozenset[int],
    keep: frozenset[Handle],
) -> list[Ranked]:
    """Admissible actions, first to go first. Actions that touch `keep` or free nothing of `pool` are left out."""
    ranked: list[Ranked] = []
    for action in actions:
        useful = action.frees[pool]
        if useful <= 0 or not keep.isdisjoint(action.points):
            continue
        holders: dict[int, Continuation] = {owners[point].serial: owners[point] for point in action.points}
        gone = frozenset(action.points)
        ranked.append(
            Ranked(
                action,
                max(_standing(record, reused) for record in holders.values()),
                sum(record.loss_without(gone) for record in holders.values()),
                max(record.last_used for record in holders.values()),
                useful,
            )
        )
    ranked.sort(key=_order)
    return ranked


def _standing(record: Continuation, reused: frozenset[int]) -> Standing:
    if record.user is not None:
        return Standing.IN_USE
    return Standing.REUSED if record.serial in reused else Standing.ORDINARY


def _order(ranked: Ranked) -> tuple[int, float, int, tuple[Handle, ...]]:
    by_loss = ranked.standing is Standing.ORDINARY
    loss = ranked.loss_tokens / ranked.useful if by_loss else 0.0
    return ranked.standing, loss, ranked.last_used, ranked.action.points
