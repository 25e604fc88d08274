"""Which actions are carried out for one gap, and how many of them at once (I7, I10, I11).

Pure. Plans are made from quotes of one moment and die with them; whoever carries one out checks again (I2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ninfer.base.ids import Handle, Ticket
from ninfer.base.pools import Pool
from ninfer.ports.native import DeleteAction, DemoteAction, HostGap

from .admission import Claim, Revokes, find_limits, may_replace
from .ranking import Ranked
from .waiters import Waiters

MOST_QUESTIONS = 64
"""Host victims of one step for which it is asked whether everything would fit after them."""

Covers = Callable[[Sequence[DemoteAction], DeleteAction], bool]
"""Whether the device pages that a deletion frees all leave with these migrations: Program knows pages."""

GapAfter = Callable[[Sequence[DeleteAction]], HostGap | None]
"""What would still be missing after these deletions; None: everything can be placed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions in order that close the gap. `revokes`: wait holds that must go for them, youngest first."""

    actions: tuple[Ranked, ...]
    revokes: tuple[Ticket, ...] = ()
    freed: int = 0


class Remembered:
    """Candidates in order, ranked only as far as somebody asks; each is ranked once."""

    def __init__(self, source: Iterable[Ranked]) -> None:
        self._source = iter(source)
        self._known: list[Ranked] = []

    def __iter__(self) -> Iterator[Ranked]:
        at = 0
        while True:
            if at == len(self._known):
                entry = next(self._source, None)
                if entry is None:
                    return
                self._known.append(entry)
            yield self._known[at]
            at += 1


def admit(claim: Claim, ranked: Iterable[Ranked], waiters: Waiters) -> Iterator[Ranked]:
    """Those of the ranked actions that the claim may carry out one by one without revoking anybody (I8-I10)."""
    return _list_open(claim, ranked, waiters.list_kept(_own(claim)))


def plan_device(claim: Claim, ranked: Iterable[Ranked], pool: Pool, gap: int, waiters: Waiters) -> Plan | None:
    """The leading admissible actions that close the gap together; None: they do not, within right and budget.

    Where the usual reclaim falls short and the right allows it, wait holds are revoked, the youngest first, as few as
    possible (G7). A claim that takes parts gets what there is. `ranked` may be gone through several times.
    """
    plan = _lead(claim, admit(claim, ranked, waiters), pool, gap)
    if plan is not None and plan.freed >= gap:
        return plan
    revoked = _plan_revoking(claim, ranked, pool, gap, waiters)
    if revoked is not None:
        return revoked
    return plan if plan is not None and plan.actions and not claim.rule.needs_whole_gap else None


def plan_batch(claim: Claim, plan: Sequence[Ranked], covers: Covers) -> list[Ranked]:
    """The leading migrations of page groups of one pool that may share a transaction (I7).

    A deletion that frees no page beyond those of migrations before it adds nothing and is skipped; any other deletion,
    or a migration that needs host victims, ends the batch.
    """
    batch: list[Ranked] = []
    moves: list[DemoteAction] = []
    for entry in plan:
        action = entry.action
        if isinstance(action, DeleteAction):
            if moves and covers(moves, action):
                continue
            break
        if entry.victims or action.pages is None or (moves and action.pool is not moves[0].pool):
            break
        if not may_replace(claim, entry.retention, entry.demand_at, sum(one.loss_tokens for one in (*batch, entry))):
            break
        batch.append(entry)
        moves.append(action)
    return batch


def plan_host(
    claim: Claim, ranked: Iterable[Ranked], gap_after: GapAfter, waiters: Waiters
) -> tuple[Ranked, ...] | None:
    """Host victims whose end lets every allocation be placed; None: no admissible set does, and nothing may go (I11).

    Victims join in reclaim order; one that makes the request fit goes before one that only adds bytes, as far as
    `MOST_QUESTIONS` reaches; those that turn out not to be needed are dropped again.
    """
    chosen: list[Ranked] = []
    rest = list(admit(claim, ranked, waiters))
    gap = gap_after([])
    while gap is not None:
        rest = [entry for entry in rest if _is_affordable(claim, chosen, entry)]
        if not rest:
            return None
        able = [entry for entry in rest if gap.is_split or entry.action.frees[Pool.HOST] >= gap.gap_bytes]
        asked = able[:MOST_QUESTIONS]
        fitting = (entry for entry in asked if gap_after(_list_deletions([*chosen, entry])) is None)
        entry = next(fitting, rest[0])
        chosen.append(entry)
        gone = frozenset().union(*(one.points for one in chosen))
        rest = [other for other in rest if not other.points <= gone]
        gap = gap_after(_list_deletions(chosen))
    for entry in reversed(list(chosen)):
        without = [other for other in chosen if other is not entry]
        if gap_after(_list_deletions(without)) is None:
            chosen = without
    return tuple(chosen)


def _lead(claim: Claim, admitted: Iterable[Ranked], pool: Pool, gap: int) -> Plan | None:
    """Actions in order until the gap is closed. Nested ones count for what they add. Asks for no more than it needs."""
    chosen: list[Ranked] = []
    gone: frozenset[Handle] = frozenset()
    freed = 0
    for entry in admitted:
        if isinstance(entry.action, DeleteAction) and entry.points <= gone:
            continue
        if not _is_affordable(claim, chosen, entry):
            if claim.rule.needs_whole_gap:
                continue
            break
        inner = [one for one in chosen if one.points <= entry.points and _same_kind(one, entry)]
        freed += entry.action.frees[pool] - sum(one.action.frees[pool] for one in inner)
        chosen = [one for one in chosen if one not in inner] + [entry]
        gone |= entry.points if isinstance(entry.action, DeleteAction) else frozenset()
        if freed >= gap:
            break
    for entry in list(chosen) if freed >= gap else ():  # what came first may have become needless (I11)
        alone = entry.action.frees[pool]
        if len(chosen) > 1 and freed - alone >= gap and not any(entry.points < one.points for one in chosen):
            chosen.remove(entry)
            freed -= alone
    return Plan(tuple(chosen), (), freed) if chosen else None


def _plan_revoking(claim: Claim, ranked: Iterable[Ranked], pool: Pool, gap: int, waiters: Waiters) -> Plan | None:
    rule = claim.rule
    if rule.revokes is Revokes.NOBODY or not len(waiters):
        return None
    limit = claim.ticket if rule.revokes is Revokes.YOUNGER else None
    revoked = _own(claim)
    for ticket in waiters.list_tickets():
        if ticket in revoked or (limit is not None and ticket <= limit):
            continue
        revoked |= {ticket}
        plan = _lead(claim, _list_open(claim, ranked, waiters.list_kept(revoked)), pool, gap)
        if plan is not None and plan.freed >= gap:
            gone = frozenset().union(*(entry.lost_points for entry in plan.actions))
            losers = {loser for point in gone for loser in waiters.list_holders(point)} - _own(claim)
            return Plan(plan.actions, tuple(sorted(losers, reverse=True)), plan.freed)
    return None


def _list_open(claim: Claim, ranked: Iterable[Ranked], kept: frozenset[Handle]) -> Iterator[Ranked]:
    """What may go if only these points are kept. Wait protection allows migration: only deletions count (G7)."""
    limits = find_limits(claim)
    return (
        entry
        for entry in ranked
        if claim.keep.isdisjoint(entry.points)
        and kept.isdisjoint(entry.lost_points)
        and limits.allow(entry.retention, entry.demand_at, entry.loss_tokens)
    )


def _own(claim: Claim) -> frozenset[Ticket]:
    """The own wait is handed over, it bars nothing (G8)."""
    return frozenset() if claim.ticket is None else frozenset((claim.ticket,))


def _is_affordable(claim: Claim, chosen: Sequence[Ranked], entry: Ranked) -> bool:
    lost = sum(one.loss_tokens for one in chosen if not one.points <= entry.points)
    return claim.budget is None or claim.budget.covers(lost + entry.loss_tokens)


def _same_kind(one: Ranked, other: Ranked) -> bool:
    return isinstance(one.action, DeleteAction) and isinstance(other.action, DeleteAction)


def _list_deletions(entries: Iterable[Ranked]) -> list[DeleteAction]:
    """Host room comes from deletions; nested ones are named once, by the largest."""
    actions = [entry.action for entry in entries if isinstance(entry.action, DeleteAction)]
    sets = [frozenset(action.points) for action in actions]
    return [
        action
        for index, action in enumerate(actions)
        if not any(sets[index] < other or (sets[index] == other and index > at) for at, other in enumerate(sets))
    ]
