"""ResourceManager: what to keep, from where to start, what may go, behind one facade (B4).

Keeps no physical ledger: room, needs and releases are asked of Program each time. Nothing here knows time or lanes.
Orders count uses and publications; they stand for time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ninfer.base.ids import Handle, Ticket
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import Bound, DeleteAction, DemoteAction, HandOver, HostGap, NativeProgram
from ninfer.ports.output import LossReport

from .admission import Budget, Claim, Right
from .book import Owner, PointBook
from .continuation import MOST_ANCHORS, Continuation, History, Use
from .demand import Demand, DemandSummary, position_at
from .explain import LossMemory
from .plans import Plan, plan_device, plan_host
from .ranking import Action, Facts, Holder, Ranked, rank
from .retention import Retention, find_reused
from .shared import SharedEntry
from .sources import CostModel, Source, SourceAsk, Wishes, rank_sources

MOST_VICTIM_SEARCHES = 8
"""Demotions of one decision for which host victims are looked for."""


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """Records, entries and points kept now."""

    records: int
    points: int
    branches: int
    entries: int = 0


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """One save that is worth trying: for whom, what ends first, and what it may replace (E2, I9)."""

    frontier: int
    uses: frozenset[Use]
    retires: Handle | None
    claim: Claim


class ResourceManager:
    """Records and entries of all histories. Engine-thread only."""

    def __init__(
        self,
        program: NativeProgram,
        costs: CostModel | None = None,
        *,
        keeps_points: bool = True,
        lane_count: int = 1,
    ) -> None:
        """`lane_count`: lanes, each with a basic slot that execution needs and standing is not charged against (C2)."""
        self._program = program
        self._lanes = lane_count
        self._costs = costs or CostModel()
        self._keeps = keeps_points
        self._book = PointBook()
        self._demand = DemandSummary()
        self._losses = LossMemory()
        self._records: dict[int, Continuation] = {}
        self._entries: dict[int, SharedEntry] = {}
        self._named: dict[str, tuple[Ticket, Continuation]] = {}
        self._serials = 0
        self._orders = 0

    @property
    def keeps_points(self) -> bool:
        """False: nothing is kept for later requests."""
        return self._keeps

    @property
    def order(self) -> int:
        """The order of the last use or publication; what comes now came after it (G8)."""
        return self._orders

    # ---- sources ---------------------------------------------------------------------------------------------------

    def list_sources(self, ask: SourceAsk) -> list[Source]:
        """Verified ways to start, best first, root among them. Valid until anything changes (V-14)."""
        return rank_sources(ask, self._list_candidates(ask), lambda point, at: self._quote(ask, point, at), self._costs)

    def list_frugal(self, ask: SourceAsk, source: Source) -> Iterator[Source]:
        """The same start with less kept beside the active state, the least loss first (F3).

        First the record's old points end, then the input point itself passes on. Each is good until anything changes.
        """
        quote = source.quote
        if quote.checkpoint is None or not source.takes_record or quote.hand_over is not HandOver.FORK:
            return
        for gives_up_point in (False, True):
            for frugal in self._quote(
                ask, quote.checkpoint, quote.frontier, keeps=False, gives_up_point=gives_up_point
            ):
                if frugal.takes_record and frugal.quote.need != quote.need:
                    yield frugal

    def adopt(
        self,
        source: Source,
        bound: Bound,
        history: History,
        ticket: Ticket,
        *,
        own_resume: bool,
        session: str | None = None,
        wishes: Wishes | None = None,
    ) -> Continuation:
        """Record that `ticket` starts from `source`. Returns the record it writes from now on.

        An own resume is no demand and refreshes nothing (H1). Wishes at or before the start are fulfilled by points
        that are there already, without a copy (D6, M2).
        """
        for point in bound.consumed:  # Program has ended them: nothing may be asked about them any more
            self._forget(point)
        at = 0 if own_resume or bound.frontier == 0 else self._next_order()
        if not own_resume:
            self._losses.note_prompt(history)
        if at:
            self._note_demand(source, history, ticket, at)
        record = self._take(source, history) if source.takes_record else self._branch(source, history)
        assert record.user in (None, ticket), "one writer a history (V-09)"
        record.user, record.session = ticket, session
        if at:
            record.demand = Demand(at, bound.frontier)
            record.last_used = at
        if source.entry is not None:
            record.input_end = source.entry.serial
        self._fulfil(record, history, bound.frontier, wishes or Wishes())
        for released in self._book.waiters.release(ticket):
            self._end_unowned(released)
        return record

    def note_prefill(self, history: History, ticket: Ticket, wishes: Wishes, start: int, stop: int) -> None:
        """New prompt tokens in (start, stop] were committed: what they cross was computed once more (H2)."""
        at = self._orders
        own = [
            position_at(history.tokens, history.digests, frontier) for frontier in wishes.list_frontiers(start, stop)
        ]
        known = self._demand.list_crossed(history.tokens, history.digests, start, stop)
        for position in dict.fromkeys((*known, *own)):
            self._demand.note_computed(position, ticket, at)

    def close(self, ticket: Ticket) -> None:
        """The request ended, wherever it stood: its wait hold and its observations go (G9)."""
        self._demand.close((ticket,))
        for released in self._book.waiters.release(ticket):
            self._end_unowned(released)

    # ---- saving ----------------------------------------------------------------------------------------------------

    def plan_capture(self, record: Continuation, wishes: Wishes, frontier: int) -> CapturePlan | None:
        """What a save at `frontier` would be for; None: nobody needs another point there (E4)."""
        uses = set(wishes.uses_at(frontier))
        history = record.history
        position = position_at(history.tokens, history.digests, frontier)
        if Use.SHARED in uses and self._book.find_entry(history, frontier) is not None:
            uses.remove(Use.SHARED)
        if record.find_at(frontier) is not None:
            uses -= {Use.INPUT, Use.ANCHOR}
        if not uses:
            return None
        outdated = record.input_point if Use.INPUT in uses else None
        is_moving = frontier == wishes.moving_marker
        retires = outdated if self._is_outdated_by(record, uses, is_moving=is_moving) else None
        points = self._book.find_exact(history, frontier)
        survivors = (at for point, at in points if point != outdated and point in self._book.paths)
        budget = Budget(frontier - next(survivors, 0))
        keep = frozenset(record.points())
        repeated = self._demand.find_repeated(position)
        if repeated is not None:
            claim = Claim(Right.DEMANDED_CAPTURE, keep, record.user, Retention.REUSED, repeated)
        elif record.serial in self._find_reused() and record.demand is not None and uses != {Use.SHARED}:
            claim = Claim(Right.CAPTURE, keep, record.user, Retention.REUSED, record.demand.at, budget)
        else:
            claim = Claim(Right.CAPTURE, keep, record.user, budget=budget)
        return CapturePlan(frontier, frozenset(uses), retires, claim)

    def note_retired(self, plan: CapturePlan) -> None:
        """Program has the destination; what was to end first has ended (D6)."""
        if plan.retires is not None:
            self._losses.note(self._book.position(plan.retires), "superseded")
            self._forget(plan.retires)

    def publish_captured(
        self, record: Continuation, point: Handle, frontier: int, uses: frozenset[Use], *, is_moving: bool = False
    ) -> None:
        """A capture of `record`'s user was kept: for the record, for a shared entry, or for both (D11, M2).

        `is_moving`: the entry stands at the end of the input, unasked, and replaces that of the turn before.
        """
        private = uses - {Use.SHARED}
        if private:
            self._own(record, point, frontier, private)
        if Use.SHARED in uses:
            self._open_entry(record, point, frontier, is_moving=is_moving)

    def publish_end(self, record: Continuation, point: Handle, frontier: int) -> None:
        """The user of `record` ended with a generation endpoint."""
        if record.end is not None:  # what others still keep of the old endpoint is theirs alone
            self._release_use(record, Use.END, record.end)
        ticket = record.user
        self._own(record, point, frontier, frozenset({Use.END}))
        if record.session is not None and ticket is not None:
            known = self._named.get(record.session)
            if known is None or known[0] <= ticket:  # an older request that ends late takes no name away (F4)
                self._named[record.session] = ticket, record
        self.vacate(record)

    def vacate(self, record: Continuation) -> None:
        """The user of `record` left; without points the record goes as well."""
        record.user = None
        self._drop_if_empty(record)

    # ---- room ------------------------------------------------------------------------------------------------------

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
        return plan_device(claim, self._fix_victims(facts, ranked, claim), pool, gap, self._book.waiters)

    def plan_host_room(self, shortfall: Shortfall, claim: Claim) -> Plan | None:
        """Host content whose end closes a gap in bytes, for a snapshot; None: there is none (I9)."""
        facts = self._find_facts()
        ranked = rank(facts, self._program.list_delete_actions(Pool.HOST), Pool.HOST, shortfall.gap, claim.keep)
        return plan_device(claim, ranked, Pool.HOST, shortfall.gap, self._book.waiters)

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
        for ticket in plan.revokes:
            for released in self._book.waiters.revoke(ticket):
                self._end_unowned(released)
        first = plan.actions[0]
        if claim.budget is not None:
            claim.budget.spend(first.loss_tokens)
        if isinstance(first.action, DeleteAction):
            return self._delete(first.action, claim.right), None
        freed = Amounts()
        for victim in first.victims:  # each deletion ends the quotes of the others
            deletion = next(
                (one for one in self._program.list_delete_actions(Pool.HOST) if one.points == victim.points), None
            )
            if deletion is not None:
                freed = freed + self._delete(deletion, claim.right)
        return freed, self._requote(first.action) if first.victims else first.action

    # ---- accounts --------------------------------------------------------------------------------------------------

    def list_points(self) -> list[Handle]:
        """Every point that somebody owns or keeps."""
        return self._book.list_points()

    def list_users(self) -> dict[Ticket, Continuation]:
        """Who writes which record on."""
        return {record.user: record for record in self._records.values() if record.user is not None}

    def reconcile(self, users: Mapping[Ticket, Continuation], in_hand: frozenset[Handle]) -> None:
        """After an error somewhere in a hand-over: agree with Program and with the requests again (SCHED-09).

        Points that Program ended are forgotten, points that nobody owns are ended, records whose user left are
        inactive. `users`: the requests that hold a record; `in_hand`: new points that are still to be published.
        """
        living = self._program.list_points()
        for point in set(self.list_points()).difference(living):
            self._forget(point)
        owned = set(self.list_points())
        for point in living:
            if point not in owned and point not in in_hand:
                self._program.discard_point(point)
        for ticket, record in self.list_users().items():
            if users.get(ticket) is not record:
                self.vacate(record)

    def explain(self, history: History, limit: int, source: Source) -> LossReport:
        """Why `source` was not deeper (settled decision 14). Ask before it is adopted."""
        chosen = source.quote.frontier
        deepest_point = max(chosen, next((frontier for _, frontier in self._book.find_exact(history, limit)), 0))
        return self._losses.explain(history, limit, deepest_point, chosen, self._records.values())

    def facts(self) -> CacheFacts:
        """What is kept now."""
        return CacheFacts(len(self._records), len(self._book), self._book.index.branches, len(self._entries))

    def list_classes(self) -> dict[Retention, list[Handle]]:
        """Points kept, by the highest class among their owners."""
        reused = self._find_reused()
        points: dict[Retention, list[Handle]] = {Retention.REUSED: [], Retention.ORDINARY: []}
        for point in self._book.list_points():
            is_reused = any(owner.serial in reused for owner in self._book.owners_of(point))
            points[Retention.REUSED if is_reused else Retention.ORDINARY].append(point)
        return points

    def audit(self) -> None:
        """Records, entries, book, summary and Program agree (V-02)."""
        self._book.audit()
        living = frozenset(self._program.list_points())
        self._book.waiters.audit(living, frozenset(self._book.waiters.list_tickets()))
        owners: list[Owner] = [*self._records.values(), *self._entries.values()]
        for owner in owners:
            for point in owner.points():
                assert owner in self._book.owners_of(point), "V-02: a point does not know its owner"
                assert point in living, f"V-02: point {point} ended without us"
        for record in self._records.values():
            assert not record.is_empty, "C5: an empty record was kept"
            for point, frontier in record.frontiers.items():
                assert self._program.point_frontier(point) == frontier
                assert record.uses_of(point), "V-02: a point without a use"
        owned = sum(len(owner.points()) for owner in owners)
        assert owned == sum(len(self._book.owners_of(point)) for point in self._book.list_points()), (
            "V-02: owners differ"
        )

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _list_candidates(self, ask: SourceAsk) -> Iterator[tuple[Handle | None, int]]:
        hold = None if ask.ticket is None else self._book.waiters.find(ask.ticket)
        if hold is not None and not self._book.owners_of(hold.point):  # kept for this request alone
            yield hold.point, self._program.point_frontier(hold.point)
        yield from self._book.index.find(ask.digests, ask.limit)
        yield None, 0

    def _quote(
        self, ask: SourceAsk, point: Handle | None, frontier: int, *, keeps: bool = True, gives_up_point: bool = False
    ) -> Iterator[Source]:
        """Every logical way to start from one point: as the private record's next user, as a branch, as public use.

        `keeps`: where a slot is to be had for it, nothing of a record that is taken over ends (docs/adr/0005).
        """
        first_unit = ask.first_unit_end(frontier) - frontier
        if point is None:
            quote = self._program.quote_source(ask.prompt, None, takes_over=False, first_unit_tokens=first_unit)
            if quote is not None:
                yield Source(quote, None, self._costs.restore_s(0, ask.limit))
            return
        branch = self._program.quote_source(ask.prompt, point, takes_over=False, first_unit_tokens=first_unit)
        if branch is None:
            return
        branch_s = self._costs.restore_s(branch.copied_bytes, ask.limit - frontier)
        owners = self._book.owners_of(point)
        if not owners:
            yield Source(branch, None, branch_s)
        for owner in owners:
            if isinstance(owner, SharedEntry):
                yield Source(branch, None, branch_s, entry=owner)
                continue
            is_named = ask.session is not None and self._named.get(ask.session, (0, None))[1] is owner
            carried = _list_carried(owner, frontier)
            if not _may_take(owner, ask):
                yield Source(branch, owner, branch_s, carried=carried, is_named=is_named)
                continue
            taken = self._program.quote_source(
                ask.prompt,
                point,
                takes_over=True,
                first_unit_tokens=first_unit,
                gives_up_point=gives_up_point,
                may_end=frozenset() if keeps and self._has_spare_slot() else self._book.list_sole(owner),
            )
            assert taken is not None, "D10: the same point, verified a moment ago"
            cost_s = self._costs.restore_s(taken.copied_bytes, ask.limit - frontier)
            yield Source(taken, owner, cost_s, takes_record=True, carried=carried, is_named=is_named)

    def _has_spare_slot(self) -> bool:
        """A free slot, or one that nothing is lost with."""
        if self._program.occupancy().free.state:
            return True
        return any(entry.is_superseded for entry in self._entries.values())

    def _is_outdated_by(self, record: Continuation, uses: set[Use], *, is_moving: bool) -> bool:
        """Whether a new input point leaves nobody who needs the old one: it, and the entry there, move on (E2)."""
        point = record.input_point
        if point is None or Use.INPUT not in uses or point in record.anchors or self._book.waiters.list_holders(point):
            return False
        others = [owner for owner in self._book.owners_of(point) if owner is not record]
        moves_on = is_moving and Use.SHARED in uses
        return all(
            moves_on and isinstance(other, SharedEntry) and other.serial == record.input_end and not other.users
            for other in others
        )

    def _take(self, source: Source, history: History) -> Continuation:
        """The record goes on: what lies deeper than its start, or was its old endpoint, is let go (F2)."""
        record = source.record
        assert record is not None
        start = source.quote.frontier
        for point, frontier in list(record.frontiers.items()):
            if frontier > start or point == record.end:
                self._let_go(record, point)
        record.history = history
        for point in record.frontiers:
            self._book.restate(point, history)
        self._records[record.serial] = record
        return record

    def _branch(self, source: Source, history: History) -> Continuation:
        """A record of its own that shares the compatible input point and anchors of its parent (G6)."""
        record = Continuation(self._next_serial(), history, last_used=self._next_order())
        self._records[record.serial] = record
        parent = source.record
        if parent is None:
            return record
        for point in source.carried:
            uses = parent.uses_of(point) - {Use.END}
            if uses:
                self._own(record, point, parent.frontiers[point], uses)
        return record

    def _fulfil(self, record: Continuation, history: History, start: int, wishes: Wishes) -> None:
        """Uses at or before the start that points on the path can serve as they are (D6, D11)."""
        for frontier in wishes.list_frontiers(0, start):
            points = self._book.list_at(history, frontier)
            if not points:
                continue
            wanted = wishes.uses_at(frontier)
            own = record.find_at(frontier)
            point = points[0] if own is None else own
            if Use.SHARED in wanted and self._book.find_entry(history, frontier) is None:
                self._open_entry(record, point, frontier, is_moving=frontier == wishes.moving_marker)
            if Use.INPUT in wanted and record.input_point not in points:
                if record.input_point is not None:
                    self._release_use(record, Use.INPUT, record.input_point)
                self._own(record, point, frontier, frozenset({Use.INPUT}))
            if Use.ANCHOR in wanted:
                self._own(record, point, frontier, frozenset({Use.ANCHOR}))

    def _note_demand(self, source: Source, history: History, ticket: Ticket, at: int) -> None:
        """A real adoption: of the public entry alone, or of the private parent where it covers what was proven (H1)."""
        frontier = source.quote.frontier
        self._demand.note_adopted(position_at(history.tokens, history.digests, frontier), ticket, at)
        if source.entry is not None:
            source.entry.note_use(at)
            self._book.weigh(source.entry.point)
        parent = source.record
        if parent is None or source.takes_record:
            return
        if parent.demand is None or frontier >= parent.demand.proven_frontier:
            parent.demand = Demand(at, frontier)
            parent.last_used = at

    def _own(self, record: Continuation, point: Handle, frontier: int, uses: frozenset[Use]) -> None:
        """The record owns a point for these uses. What it replaces was let go, or is now: the oldest anchor (D6)."""
        is_new = point not in record.frontiers
        if is_new:
            self._book.add(record, point, frontier, record.history)
        if Use.INPUT in uses and record.input_point is not None and record.input_point != point:
            self._release_use(record, Use.INPUT, record.input_point)
        if Use.ANCHOR in uses and point not in record.anchors and len(record.anchors) == MOST_ANCHORS:
            self._release_use(record, Use.ANCHOR, record.anchors[0])
        record.publish(point, frontier, uses)
        record.publication_order = record.last_used = self._next_order()
        if is_new and Use.INPUT in uses:
            self._inherit(record, point, frontier)

    def _inherit(self, record: Continuation, point: Handle, frontier: int) -> None:
        """Repeated demand of exactly this input point promotes its owner, and is what it has proven (H2)."""
        repeated = self._demand.find_repeated(self._book.position(point))
        if repeated is not None and (record.demand is None or record.demand.at <= repeated):
            record.demand = Demand(repeated, frontier)

    def _open_entry(self, record: Continuation, point: Handle, frontier: int, *, is_moving: bool) -> None:
        entry = SharedEntry(self._next_serial(), record.history, point, frontier)
        self._book.add(entry, point, frontier, record.history)
        entry.publication_order = entry.last_used = self._next_order()
        self._entries[entry.serial] = entry
        repeated = self._demand.find_repeated(self._book.position(point))
        if repeated is not None:
            entry.demand = Demand(repeated, frontier)
        if is_moving:
            before = self._entries.get(record.input_end) if record.input_end is not None else None
            if before is not None and before.frontier < frontier:
                before.is_replaced = True
                self._book.weigh(before.point)
            record.input_end = entry.serial

    def _release_use(self, record: Continuation, use: Use, point: Handle) -> None:
        if record.release_use(use, point):
            self._leave_behind(record, point)

    def _let_go(self, record: Continuation, point: Handle) -> None:
        """The record gives a point up with all its uses."""
        record.retire(point)
        self._leave_behind(record, point)

    def _leave_behind(self, record: Continuation, point: Handle) -> None:
        """What nobody else owns stays as a superseded entry, the first to go when room is needed (docs/adr/0005)."""
        if self._book.owners_of(point) == (record,):
            frontier = self._book.index.frontier(point)
            entry = SharedEntry(self._next_serial(), self._book.history(point), point, frontier, is_replaced=True)
            entry.publication_order = entry.last_used = self._next_order()
            self._entries[entry.serial] = entry
            self._book.add(entry, point, frontier, entry.history)
        self._book.drop(record, point)

    def _forget(self, point: Handle) -> None:
        """Program ended a point: nobody owns it any more."""
        for owner in list(self._book.forget(point)):
            if isinstance(owner, SharedEntry):
                del self._entries[owner.serial]
            else:
                owner.retire(point)
                self._drop_if_empty(owner)

    def _end_unowned(self, point: Handle) -> None:
        """A waiter let go of a point; with no other owner it ends."""
        if not self._book.owners_of(point) and not self._book.waiters.list_holders(point):
            self._program.discard_point(point)

    def _delete(self, action: DeleteAction, right: Right) -> Amounts:
        freed = self._program.delete(action)
        for point in action.points:
            if self._book.owners_of(point):
                self._losses.note(self._book.position(point), f"deleted_for_{right.value}")
                self._forget(point)
        return freed

    def _requote(self, action: DemoteAction) -> DemoteAction | None:
        """The same demotion, as it stands after its victims have gone (I5)."""
        fresh = self._program.list_demote_actions(action.pool)
        return next((one for one in fresh if (one.points, one.pages) == (action.points, action.pages)), None)

    def _find_facts(self) -> Facts:
        """Owners and losses for one decision (I2)."""
        reused = self._find_reused()
        holders: dict[Handle, list[Holder]] = {}
        for record in self._records.values():
            is_reused, demand = record.serial in reused, record.demand
            at, proven = (0, None) if demand is None else (demand.at, demand.proven_frontier)
            holder = Holder(record.serial, record.frontiers, record.last_used, False, is_reused, at, proven)
            for point in record.frontiers:
                holders.setdefault(point, []).append(holder)
        for entry in self._entries.values():
            at = 0 if entry.demand is None else entry.demand.at
            frontiers = {entry.point: entry.frontier}
            is_reused = entry.serial in reused and not entry.is_superseded
            holder = Holder(entry.serial, frontiers, entry.last_used, True, is_reused, at, entry.frontier)
            holders.setdefault(entry.point, []).append(holder)
        return Facts(holders, self._book.paths.loss_of)

    def _find_reused(self) -> frozenset[int]:
        owners: list[Owner] = [*self._records.values(), *self._entries.values()]
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
        gain = self._book.paths.loss_of(action.points)
        if claim.budget is not None:
            gain = min(gain, claim.budget.tokens - claim.budget.spent)
        right = Claim(Right.WRITE_BACK, kept, claim.ticket, entry.retention, entry.demand_at, Budget(gain))
        return plan_host(right, host, lambda gone: self._program.find_host_gap(action, gone), self._book.waiters)

    def _drop_if_empty(self, record: Continuation) -> None:
        if record.is_empty:
            self._records.pop(record.serial, None)
            if record.session is not None and self._named.get(record.session, (0, None))[1] is record:
                del self._named[record.session]

    def _next_order(self) -> int:
        self._orders += 1
        return self._orders

    def _next_serial(self) -> int:
        self._serials += 1
        return self._serials


def _may_take(record: Continuation, ask: SourceAsk) -> bool:
    """Inactive, not published after the request came, and not another named entry (F1, G8)."""
    is_newer = ask.order is not None and record.publication_order > ask.order
    is_free = record.user is None or record.user == ask.ticket
    return is_free and not is_newer and record.session in (None, ask.session)


def _list_carried(record: Continuation, frontier: int) -> tuple[Handle, ...]:
    """Input point and anchors that stay compatible with a start at `frontier`."""
    kept = (point for point, at in record.frontiers.items() if at <= frontier and record.uses_of(point) != {Use.END})
    return tuple(kept)


def list_victims(plan: Plan) -> Iterable[Handle]:
    """Every point that a plan ends."""
    return (point for entry in plan.actions for point in entry.lost_points)
