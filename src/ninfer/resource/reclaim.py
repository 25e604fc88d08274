"""Which optional points end when room is needed: a simple order over Program's finite actions (I1, I4, I5).

Chooses and changes nothing. Points that no record owns go first; ordinary records come before reused ones and records
in use come last; among ordinary ones the least recovery loss for the release that counts now, then the least recently
used; among reused ones the least recently used. Loss fades and standing ends while only others start requests, so that
who never returns keeps nothing for ever.
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
"""Soft target: the most recently reused records keep their standing up to this share of the spare slots (H3)."""

REUSED_USES = 32
"""A reused record is ordinary again when so many requests started since it was used."""

HALVING_USES = 16
"""The loss of a record counts half after so many requests that started since it was used, a quarter after twice."""

CAPTURE_WEIGHT = 4
"""A save displaces up to so many times what it gains: chats of like size give way to each other, not to one-shots."""


class Right(Enum):
    """Who asks for room (I8)."""

    NECESSARY = "necessary"
    """Execution of an admitted request: any optional point but its own source, for whatever it gives."""
    ENTRY = "entry"
    """A request that enters or resumes: the same points, but only when they close the gap."""
    CAPTURE = "capture"
    """An optional save: inactive ordinary records only, and none whose faded loss is far above its gain (E3)."""


class Standing(IntEnum):
    """How willingly a record is given up; lower goes first."""

    UNOWNED = -1
    ORDINARY = 0
    REUSED = 1
    IN_USE = 2


@dataclass(frozen=True, slots=True)
class Ranked:
    """One action with what it costs. `loss_tokens` is faded by the time its records were idle."""

    action: DeleteAction
    standing: Standing
    loss_tokens: int
    last_used: int
    useful: int


def find_reused(records: Iterable[Continuation], spare_slots: int, uses: int) -> frozenset[int]:
    """Serials of the records with reused standing: adopted and not long idle, the newest up to the soft target.

    `spare_slots`: those beyond the basic ones of the lanes; with one alone nobody has standing, or the next chat would
    find no room. `uses`: requests started so far.
    """
    room = int(spare_slots * REUSED_SHARE)
    if room == 0:
        return frozenset()
    reused: list[int] = []
    fresh = (record for record in records if record.adoptions and uses - record.used_at < REUSED_USES)
    for record in sorted(fresh, key=lambda record: -record.last_used):
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
    uses: int,
) -> list[Ranked]:
    """Admissible actions, first to go first. Actions that touch `keep` or free nothing of `pool` are left out."""
    ranked: list[Ranked] = []
    for action in actions:
        useful = action.frees[pool]
        if useful <= 0 or not keep.isdisjoint(action.points):
            continue
        holders = {owners[point].serial: owners[point] for point in action.points if point in owners}
        gone = frozenset(action.points)
        ranked.append(
            Ranked(
                action,
                max((find_standing(record, reused) for record in holders.values()), default=Standing.UNOWNED),
                sum(fade(record.loss_without(gone), uses - record.used_at) for record in holders.values()),
                max((record.last_used for record in holders.values()), default=0),
                useful,
            )
        )
    ranked.sort(key=_order)
    return ranked


def fade(loss_tokens: int, idle_uses: int) -> int:
    """What a loss counts after `idle_uses` requests of others. Zero in the end, whatever it was."""
    return loss_tokens >> (idle_uses // HALVING_USES)


def find_standing(record: Continuation, reused: frozenset[int]) -> Standing:
    """How willingly this record is given up. `reused`: see `find_reused`."""
    if record.user is not None:
        return Standing.IN_USE
    return Standing.REUSED if record.serial in reused else Standing.ORDINARY


def _order(ranked: Ranked) -> tuple[int, float, int, tuple[Handle, ...]]:
    by_loss = ranked.standing is Standing.ORDINARY
    loss = ranked.loss_tokens / ranked.useful if by_loss else 0.0
    return ranked.standing, loss, ranked.last_used, ranked.action.points
