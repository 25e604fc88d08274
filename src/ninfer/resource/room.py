"""Room: facts for one decision, plans within a claim, and carrying them out (I1-I11).

Asks Program for finite actions each time and ends what the plan says; nothing here chooses who is served.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ninfer.base.ids import Handle, Ticket
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import DeleteAction, DemoteAction, HostGap, NativeProgram

from .admission import Budget, Claim, Right
from .book import Owner
from .continuation import Continuation
from .explain import LossMemory
from .keeping import Keeping
from .plans import Plan, plan_device, plan_host
from .ranking import Action, Facts, Holder, Ranked, rank
from .retention import find_reused
from .waiting import revoke_holders

MOST_VICTIM_SEARCHES = 8
"""Demotions of one decision for which host victims are looked for."""


class RoomMaker:
    """Plans and carries out reclaim over everything that is kept."""

    def __init__(self, program: Callable[[], NativeProgram], keeping: Keeping, losses: LossMemory, lanes: int) -> None:
        """`lanes`: lanes, each with a basic slot that execution needs and standing is not charged against (C2)."""
        self._find_program = program
        self._keeping = keeping
        self._losses = losses
        self._lanes = lanes

    @property
    def _program(self) -> NativeProgram:
        return self._find_program()

    def plan_room(self, shortfall: Shortfall, claim: Claim, *, may_copy: bool) -> Plan | None:
        """Actions on the device, in the order of the source, that close the gap; None: the claim has no such right.

        `may_copy`: demotions that need copies may begin now; else only those with complete replicas count, and none
        while another transaction is under way (L1).
        """
        pool, gap = shortfall.pool, shortfall.gap
        facts = self._find_facts()
        actions: list[Action] = [*self._program.list_delete_actions(pool)]
        if not self._program.transaction_open:
            demotions = self._program.list_demote_actions(pool)
            actions += [action for action in demotions if may_copy or not action.moved_bytes]
        ranked = rank(facts, actions, pool, gap, claim.keep)
        return plan_device(claim, self._fix_victims(facts, ranked, claim), pool, gap, self._keeping.book.waiters)

    def plan_host_room(self, shortfall: Shortfall, claim: Claim) -> Plan | None:
        """Host content whose end closes a gap in bytes, for a snapshot; None: there is none (I9)."""
        facts = self._find_facts()
        ranked = rank(facts, self._program.list_delete_actions(Pool.HOST), Pool.HOST, shortfall.gap, claim.keep)
        return plan_device(claim, ranked, Pool.HOST, shortfall.gap, self._keeping.book.waiters)

    def reclaim(self, shortfall: Shortfall, claim: Claim) -> bool:
        """End points until the gap is closed, as far as the claim goes, without copies. False: some of it is left."""
        gap = shortfall.gap
        while gap > 0:
            plan = self.plan_room(
                Shortfall(shortfall.pool, shortfall.free + gap, shortfall.free), claim, may_copy=False
            )
            if plan is None:
                return False
            freed, demotion = self.carry_out(plan, claim)
            if demotion is not None:
                freed = self._program.demote(demotion).freed  # type: ignore[union-attr]
            gap -= freed[shortfall.pool]
        return True

    def carry_out(self, plan: Plan, claim: Claim) -> tuple[Amounts, DemoteAction | None]:
        """End what the first action of a plan ends; returns what came free, and the demotion to begin, if it is one."""
        first, may_lose = plan.actions[0], frozenset(plan.revokes)
        if claim.ticket is not None:  # the own wait bars nothing
            may_lose |= {claim.ticket}
        if claim.budget is not None:
            claim.budget.spend(first.loss_tokens)
        if isinstance(first.action, DeleteAction):
            return self._delete(first.action, claim.right, may_lose), None
        freed = Amounts()
        for victim in first.victims:  # each deletion ends the quotes of the others
            deletion = next(
                (one for one in self._program.list_delete_actions(Pool.HOST) if one.points == victim.points), None
            )
            if deletion is not None:
                freed = freed + self._delete(deletion, claim.right, may_lose)
        return freed, self._requote(first.action) if first.victims else first.action

    def _delete(self, action: DeleteAction, right: Right, may_lose: frozenset[Ticket]) -> Amounts:
        freed = self._program.delete(action)
        for point in action.points:
            if self._keeping.book.owners_of(point):
                self._losses.note(self._keeping.book.position(point), f"deleted_for_{right.value}")
                self._keeping.forget(point)
        revoke_holders(self._keeping, action.points, may_lose)
        return freed

    def _requote(self, action: DemoteAction) -> DemoteAction | None:
        """The same demotion, as it stands after its victims have gone (I5)."""
        fresh = self._program.list_demote_actions(action.pool)
        return next((one for one in fresh if (one.points, one.pages) == (action.points, action.pages)), None)

    def _find_facts(self) -> Facts:
        """Owners and losses for one decision (I2)."""
        reused = self.find_reused()
        holders: dict[Handle, list[Holder]] = {}
        for record in self._keeping.records.values():
            is_reused, demand = record.serial in reused, record.demand
            at, proven = (0, None) if demand is None else (demand.at, demand.proven_frontier)
            holder = Holder(record.serial, record.frontiers, record.last_used, False, is_reused, at, proven)
            for point in record.frontiers:
                holders.setdefault(point, []).append(holder)
        for entry in self._keeping.entries.values():
            at = 0 if entry.demand is None else entry.demand.at
            frontiers = {entry.point: entry.frontier}
            is_reused = entry.serial in reused and not entry.is_superseded
            holder = Holder(entry.serial, frontiers, entry.last_used, True, is_reused, at, entry.frontier)
            holders.setdefault(entry.point, []).append(holder)
        return Facts(holders, self._keeping.book.paths.loss_of)

    def find_reused(self) -> frozenset[int]:
        """Serials of the owners with reused standing now (H3)."""
        owners: list[Owner] = [*self._keeping.records.values(), *self._keeping.entries.values()]
        owners = [owner for owner in owners if isinstance(owner, Continuation) or not owner.is_superseded]
        known = ((owner.serial, owner.demand, owner.points()) for owner in owners)
        capacity = self._program.occupancy().capacity
        optional = replace(capacity, state=max(0, capacity.state - self._lanes))
        return find_reused(known, optional, self._program.list_footprints)

    def _fix_victims(self, facts: Facts, ranked: list[Ranked], claim: Claim) -> list[Ranked]:
        """Demotions that do not fit on the host get their victims now, and their cost (I5); or they are left out.

        What fits depends on the bytes to place alone, so that few questions answer for all. Victims are looked for
        while the demotion could still be among the first.
        """
        fixed: list[Ranked] = []
        gaps: dict[int, HostGap | None] = {}
        host: list[Ranked] | None = None
        tries = MOST_VICTIM_SEARCHES
        for entry in ranked:
            action = entry.action
            if not isinstance(action, DemoteAction) or not action.moved_bytes:
                fixed.append(entry)
                continue
            if action.moved_bytes not in gaps:
                gaps[action.moved_bytes] = self._program.find_host_gap(action, ())
            gap = gaps[action.moved_bytes]
            if gap is None:
                fixed.append(entry)
                continue
            if host is None:
                host_actions = self._program.list_delete_actions(Pool.HOST)
                host = rank(facts, host_actions, Pool.HOST, gap.gap_bytes, claim.keep)
            if host and tries:
                tries -= 1
                chosen = self._choose_victims(entry, action, host, claim)
                if chosen:
                    deletions = tuple(one.action for one in chosen if isinstance(one.action, DeleteAction))
                    fixed.append(facts.assess(action, entry.useful, deletions))
        fixed.sort(key=Ranked.order)
        return fixed

    def _choose_victims(
        self, entry: Ranked, action: DemoteAction, host: list[Ranked], claim: Claim
    ) -> tuple[Ranked, ...] | None:
        """Host content that the demoted content may replace by its own standing, not by that of who asks (I9, I10)."""
        kept = frozenset(action.points) | claim.keep
        gain = self._keeping.book.paths.loss_of(action.points)
        if claim.budget is not None:
            gain = min(gain, claim.budget.tokens - claim.budget.spent)
        right = Claim(Right.WRITE_BACK, kept, claim.ticket, entry.retention, entry.demand_at, Budget(gain))
        return plan_host(
            right, host, lambda gone: self._program.find_host_gap(action, gone), self._keeping.book.waiters
        )
