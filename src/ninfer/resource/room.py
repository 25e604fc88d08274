"""Room: facts for one decision, plans within a claim, and carrying them out (I1-I11).

Asks Program for finite actions each time and ends what the plan says; nothing here chooses who is served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from ninfer.base.ids import Handle, Ticket
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.footprint import Footprint
from ninfer.ports.native import DeleteAction, DemoteAction, HostGap, NativeProgram

from .admission import Budget, Claim, Right, find_limits
from .book import Owner
from .candidates import Candidates
from .continuation import Continuation
from .explain import LossMemory
from .keeping import Keeping
from .plans import Plan, Remembered, plan_batch, plan_device, plan_host
from .ranking import Block, Facts, KeyOf, Ranked, order_of_expectation, place, rank
from .retention import find_reused
from .standing import Standing
from .waiting import revoke_holders
from .worth import list_weights

_Place = tuple[tuple[float, ...], bool, tuple[Handle, ...], int]

MOST_CHANGES = 256
"""Marks of changes that wait for the next decision; more of them are taken in before."""

MOST_VICTIM_SEARCHES = 8
"""Demotions of one decision for which host victims are looked for."""


class RoomMaker:
    """Plans and carries out reclaim over everything that is kept."""

    facts_type: type[Facts] = Facts
    """How an action is assessed."""

    def __init__(
        self,
        program: Callable[[], NativeProgram],
        keeping: Keeping,
        losses: LossMemory,
        lanes: int,
        key_of: KeyOf,
    ) -> None:
        """`lanes`: lanes, each with a basic slot that execution needs and standing is not charged against (C2).

        `key_of`: in which order optional content goes, within the rights of who asks.
        """
        self._find_program = program
        self._keeping = keeping
        self._losses = losses
        self._lanes = lanes
        self._key_of = key_of
        self._standing = Standing(lambda serial: serial in keeping.records or serial in keeping.entries)
        self._footprint: tuple[NativeProgram, Footprint] | None = None
        self._candidates = Candidates(keeping, self.facts_type, weighs_starts=key_of is order_of_expectation)
        self._taken_order = -1

    @property
    def _program(self) -> NativeProgram:
        return self._find_program()

    def plan_room(self, shortfall: Shortfall, claim: Claim, *, may_copy: bool) -> Plan | None:
        """Actions on the device, in the order that was chosen, that close the gap; None: the claim has no such right.

        `may_copy`: demotions that need copies may begin now; else only those with complete replicas count, and none
        while another transaction is under way (L1).
        """
        pool, program = shortfall.pool, self._program
        self._refresh()
        blocks = self._candidates.look_up(pool, program.list_delete_groups(pool), moves=False)
        if not program.transaction_open:
            blocks = blocks + self._candidates.look_up(pool, program.list_demote_groups(pool), moves=True)
        ranked = self._rank(blocks, shortfall.gap, claim, may_copy=may_copy)
        return self._plan(claim, self._fix_victims(ranked, claim), shortfall)

    def plan_host_room(self, shortfall: Shortfall, claim: Claim) -> Plan | None:
        """Host content whose end closes a gap in bytes, for a snapshot; None: there is none (I9)."""
        self._refresh()
        return self._plan(claim, self._rank_host(shortfall.gap, claim), shortfall)

    def _plan(self, claim: Claim, ranked: Iterator[Ranked], shortfall: Shortfall) -> Plan | None:
        return plan_device(claim, Remembered(ranked), shortfall.pool, shortfall.gap, self._keeping.book.waiters)

    def _rank(self, blocks: Sequence[Block], gap: int, claim: Claim, *, may_copy: bool = True) -> Iterator[Ranked]:
        """Candidates that the claim leaves open, in order, as actions of this epoch (V-14)."""
        epoch, now = self._program.epoch, self._keeping.uses
        for entry in rank(blocks, gap, self._key_of, now, find_limits(claim), may_copy=may_copy):
            if claim.keep.isdisjoint(entry.action.points):
                yield replace(entry, action=replace(entry.action, epoch=epoch))

    def _rank_host(self, gap_bytes: int, claim: Claim) -> Iterator[Ranked]:
        groups = self._program.list_delete_groups(Pool.HOST)
        return self._rank(self._candidates.look_up(Pool.HOST, groups, moves=False), gap_bytes, claim)

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

    def list_batch(self, plan: Plan, claim: Claim) -> list[DemoteAction]:
        """The migrations at the front of a plan that may share a transaction with the first; empty: it stands alone."""
        batch = [entry.action for entry in plan_batch(claim, plan.actions, self._program.covers)]
        moves = [action for action in batch if isinstance(action, DemoteAction)]
        return moves if len(moves) > 1 else []

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
        self.forget_ended()
        return freed

    def _requote(self, action: DemoteAction) -> DemoteAction | None:
        """The same demotion, as it stands after its victims have gone (I5)."""
        fresh = self._program.list_demote_actions(action.pool)
        return next((one for one in fresh if (one.points, one.pages) == (action.points, action.pages)), None)

    def audit(self) -> None:
        """What is kept from decision to decision is what would be found from nothing (I2, H3)."""
        reused = self._refresh()
        self._candidates.audit()
        owners: list[Owner] = [*self._keeping.records.values(), *self._keeping.entries.values()]
        owners = [owner for owner in owners if isinstance(owner, Continuation) or not owner.is_superseded]
        known = ((owner.serial, owner.demand, owner.points()) for owner in owners)
        found = find_reused(known, self._count_optional(), self._program.list_footprints)
        assert found == reused, f"H3: reused owners are {sorted(found)}, kept were {sorted(reused)}"

    def forget_ended(self) -> None:
        """Where nothing is kept any more, or much has changed since the last decision, no trace of it stays (C5)."""
        book = self._keeping.book
        if not len(book) or book.count_changes() > MOST_CHANGES:
            self._refresh()
        if not len(book):
            self._candidates.clear()

    def find_reused(self) -> frozenset[int]:
        """Serials of the owners with reused standing now (H3)."""
        return self._refresh()

    def _refresh(self) -> frozenset[int]:
        """Take in what changed since the last decision (I2)."""
        capacity, footprint = self._count_optional(), self._open_footprint()  # first: an error here loses no mark
        keeping, taken = self._keeping, self._taken_order
        touched, points = keeping.book.take_changed()
        weights = None
        if taken != keeping.order:
            self._taken_order = keeping.order
            owners: list[Owner] = [*keeping.records.values(), *keeping.entries.values()]
            touched += [owner for owner in owners if owner.last_used > taken]
        if self._key_of is order_of_expectation and (touched or points):
            weights = list_weights(keeping.starts, keeping.records.values(), keeping.entries.values())
        touched = list({owner.serial: owner for owner in touched}.values())
        reused = self._standing.find(touched, capacity, footprint)
        self._candidates.refresh(reused, touched, points, weights)
        return reused

    def _count_optional(self) -> Amounts:
        capacity = self._program.occupancy().capacity
        return replace(capacity, state=max(0, capacity.state - self._lanes))

    def _open_footprint(self) -> Footprint:
        program = self._program
        if self._footprint is None or self._footprint[0] is not program:
            self._footprint = program, program.open_footprint()
        return self._footprint[1]

    def _fix_victims(self, ranked: Iterable[Ranked], claim: Claim) -> Iterator[Ranked]:
        """Demotions that do not fit on the host get their victims, and with them their cost and place (I5); or they are
        left out.

        What fits depends on the bytes to place alone, so that few questions answer for all. Victims are looked for
        while the demotion could still be among the first; they only ever move it back.
        """
        gaps: dict[int, HostGap | None] = {}
        later: list[tuple[_Place, int, Ranked]] = []
        host: Remembered | None = None
        tries = MOST_VICTIM_SEARCHES
        for count, entry in enumerate(ranked):
            while later and later[0][0] <= entry.order():
                yield heappop(later)[2]
            action = entry.action
            if not isinstance(action, DemoteAction) or not action.moved_bytes:
                yield entry
                continue
            if action.moved_bytes not in gaps:
                gaps[action.moved_bytes] = self._program.find_host_gap(action, ())
            gap = gaps[action.moved_bytes]
            if gap is None:
                yield entry
                continue
            if host is None:
                host = Remembered(self._rank_host(gap.gap_bytes, Claim(Right.NECESSARY, claim.keep)))
            if tries:
                tries -= 1
                chosen = self._choose_victims(entry, action, host, claim)
                if chosen:
                    deletions = tuple(one.action for one in chosen if isinstance(one.action, DeleteAction))
                    fixed = self._candidates.facts.assess(action, entry.useful, deletions)
                    fixed = place(fixed, self._key_of, self._keeping.uses)
                    heappush(later, (fixed.order(), count, fixed))
        while later:
            yield heappop(later)[2]

    def _choose_victims(
        self, entry: Ranked, action: DemoteAction, host: Iterable[Ranked], claim: Claim
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
