"""ResourceManager: what to keep, from where to start, what may go, behind one facade (B4).

Keeps no physical ledger: room, needs and releases are asked of Program each time. Nothing here knows time or lanes.
Orders count uses and publications; they stand for time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from ninfer.base.ids import Handle, Ticket
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts
from ninfer.ports.native import Bound, DemoteAction, HandOver, NativeProgram
from ninfer.ports.output import LossReport

from . import waiting
from .admission import Budget, Claim, Right
from .book import Owner
from .continuation import Continuation, History, Use
from .demand import Demand, DemandSummary, position_at
from .explain import LossMemory
from .keeping import Keeping
from .plans import Plan
from .ranking import KeyOf, order_of_expectation
from .retention import Retention
from .room import RoomMaker
from .shared import SharedEntry
from .sources import CostModel, Source, SourceAsk, Wishes, rank_sources


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
        key_of: KeyOf = order_of_expectation,
    ) -> None:
        """`lane_count`: lanes, each with a basic slot that execution needs and standing is not charged against (C2).

        `key_of`: in which optional content goes, within the rights of who asks.
        """
        self._program = program
        self._costs = costs or CostModel()
        self._keeps = keeps_points
        self._demand = DemandSummary()
        self._losses = LossMemory()
        self._keeping = Keeping(lambda: self._program, self._demand)
        self._room = RoomMaker(lambda: self._program, self._keeping, self._losses, lane_count, key_of)

    @property
    def keeps_points(self) -> bool:
        """False: nothing is kept for later requests."""
        return self._keeps

    @property
    def order(self) -> int:
        """The order of the last use or publication; what comes now came after it (G8)."""
        return self._keeping.order

    def list_sources(self, ask: SourceAsk) -> list[Source]:
        """Verified ways to start, best first, root among them. Valid until anything changes (V-14)."""
        return rank_sources(ask, self._list_candidates(ask), lambda point, at: self._quote(ask, point, at), self._costs)

    def list_frugal(self, ask: SourceAsk, source: Source, right: Right) -> Iterator[Source]:
        """The same start with less kept beside the active state, the least loss first (F3).

        First the record's old points end, then the input point itself passes on; last with what other waiters keep of
        it, where `right` may revoke them. Their holds go when the whole bind has succeeded, not before (G8). Each is
        good until anything changes.
        """
        quote = source.quote
        if source.entry is not None:
            yield from self._quote_left_behind(ask, source)
            return
        if quote.checkpoint is None or not source.takes_record or quote.hand_over is not HandOver.FORK:
            return
        others = waiting.list_revocable(self._keeping.book.waiters, ask.ticket, right)
        for revoked, gives_up_point in product((frozenset[Ticket](), others) if others else (others,), (False, True)):
            for frugal in self._quote(
                ask, quote.checkpoint, quote.frontier, keeps=False, gives_up_point=gives_up_point, revoked=revoked
            ):
                if frugal.takes_record and frugal.quote.need != quote.need:
                    yield frugal

    def keep_source(self, ticket: Ticket, source: Source) -> None:
        """The request waits and keeps this source, and nothing else: no use and no hit (G5, G6)."""
        waiting.keep_source(self._keeping, ticket, source)

    def take_revoked(self) -> list[Ticket]:
        """Waiting requests that lost what they kept since the last call (G7)."""
        return self._keeping.book.waiters.take_revoked()

    def list_waiting(self) -> list[Ticket]:
        """Requests that keep a source, youngest first."""
        return self._keeping.book.waiters.list_tickets()

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
        hold = self._keeping.book.waiters.find(ticket)
        if not own_resume:
            self._keeping.uses.note_asked(len(history.tokens))
            self._keeping.starts.note(source.record, source.entry, source.quote.checkpoint)
        for point in bound.consumed:  # Program has ended them: nothing may be asked about them any more
            self._keeping.forget(point)
        waiting.revoke_holders(self._keeping, bound.consumed, source.revokes, own=ticket)
        at = 0 if own_resume or bound.frontier == 0 else self._keeping.next_order()
        if not own_resume:
            self._losses.note_prompt(history)
        if at:
            self._note_demand(source, history, ticket, at)
        record = self._keeping.take(source, history) if source.takes_record else self._keeping.branch(source, history)
        if hold is not None and source.record is None:
            waiting.hand_over(self._keeping, hold, record, source.quote.checkpoint, bound.consumed)
        assert record.user in (None, ticket), "one writer a history (V-09)"
        record.user, record.session = ticket, session
        if at:
            record.demand = Demand(at, bound.frontier)
            record.last_used = at
        if source.entry is not None:
            record.input_end = source.entry.serial
        self._keeping.fulfil(record, history, bound.frontier, wishes or Wishes())
        waiting.end_wait(self._keeping, ticket, bound.consumed)
        return record

    def note_prefill(self, history: History, ticket: Ticket, wishes: Wishes, start: int, stop: int) -> None:
        """New prompt tokens in (start, stop] were committed: what they cross was computed once more (H2)."""
        at = self._keeping.order
        own = [
            position_at(history.tokens, history.digests, frontier) for frontier in wishes.list_frontiers(start, stop)
        ]
        known = self._demand.list_crossed(history.tokens, history.digests, start, stop)
        for position in dict.fromkeys((*known, *own)):
            self._demand.note_computed(position, ticket, at)

    def close(self, ticket: Ticket) -> None:
        """The request ended, wherever it stood: its wait hold and its observations go (G9)."""
        self._demand.close((ticket,))
        waiting.end_wait(self._keeping, ticket)
        self._room.forget_ended()

    def plan_capture(self, record: Continuation, wishes: Wishes, frontier: int) -> CapturePlan | None:
        """What a save at `frontier` would be for; None: nobody needs another point there (E4)."""
        uses = set(wishes.uses_at(frontier))
        history = record.history
        position = position_at(history.tokens, history.digests, frontier)
        if Use.SHARED in uses and self._keeping.book.find_entry(history, frontier) is not None:
            uses.remove(Use.SHARED)
        if record.find_at(frontier) is not None:
            uses -= {Use.INPUT, Use.ANCHOR}
        if not uses:
            return None
        outdated = record.input_point if Use.INPUT in uses else None
        is_moving = frontier == wishes.moving_marker
        retires = outdated if self._is_outdated_by(record, uses, is_moving=is_moving) else None
        points = self._keeping.book.find_exact(history, frontier)
        survivors = (at for point, at in points if point != outdated and point in self._keeping.book.paths)
        budget = Budget(frontier - next(survivors, 0))
        keep = frozenset(record.points())
        repeated = self._demand.find_repeated(position)
        if repeated is not None:
            claim = Claim(Right.DEMANDED_CAPTURE, keep, record.user, Retention.REUSED, repeated)
        elif record.serial in self._room.find_reused() and record.demand is not None and uses != {Use.SHARED}:
            claim = Claim(Right.CAPTURE, keep, record.user, Retention.REUSED, record.demand.at, budget)
        else:
            claim = Claim(Right.CAPTURE, keep, record.user, budget=budget)
        return CapturePlan(frontier, frozenset(uses), retires, claim)

    def note_retired(self, plan: CapturePlan) -> None:
        """Program has the destination; what was to end first has ended (D6)."""
        if plan.retires is not None:
            self._losses.note(self._keeping.book.position(plan.retires), "superseded")
            self._keeping.forget(plan.retires)

    def publish_captured(
        self, record: Continuation, point: Handle, frontier: int, uses: frozenset[Use], *, is_moving: bool = False
    ) -> None:
        """A capture of `record`'s user was kept: for the record, for a shared entry, or for both (D11, M2).

        `is_moving`: the entry stands at the end of the input, unasked, and replaces that of the turn before.
        """
        private = uses - {Use.SHARED}
        if private:
            self._keeping.own(record, point, frontier, private)
        if Use.SHARED in uses:
            self._keeping.open_entry(record, point, frontier, is_moving=is_moving)

    def publish_end(self, record: Continuation, point: Handle, frontier: int) -> None:
        """The user of `record` ended with a generation endpoint."""
        if record.end is not None:  # what others still keep of the old endpoint is theirs alone
            self._keeping.release_use(record, Use.END, record.end)
        ticket = record.user
        self._keeping.own(record, point, frontier, frozenset({Use.END}))
        if record.session is not None and ticket is not None:
            known = self._keeping.named.get(record.session)
            if known is None or known[0] <= ticket:  # an older request that ends late takes no name away (F4)
                self._keeping.named[record.session] = ticket, record
        self.vacate(record)

    def vacate(self, record: Continuation) -> None:
        """The user of `record` left; without points the record goes as well."""
        record.user = None
        self._keeping.drop_if_empty(record)

    def plan_room(self, shortfall: Shortfall, claim: Claim, *, may_copy: bool) -> Plan | None:
        """Actions on the device that close the gap within the claim: see `RoomMaker`."""
        return self._room.plan_room(shortfall, claim, may_copy=may_copy)

    def plan_host_room(self, shortfall: Shortfall, claim: Claim) -> Plan | None:
        """Host content whose end closes a gap in bytes."""
        return self._room.plan_host_room(shortfall, claim)

    def list_batch(self, plan: Plan, claim: Claim) -> list[DemoteAction]:
        """What of a plan may share a transaction with its first migration (I7)."""
        return self._room.list_batch(plan, claim)

    def carry_out(self, plan: Plan, claim: Claim) -> tuple[Amounts, DemoteAction | None]:
        """End what the first action of a plan ends; what came free, and the demotion to begin."""
        return self._room.carry_out(plan, claim)

    def reclaim(self, shortfall: Shortfall, claim: Claim) -> bool:
        """End points until the gap is closed, as far as the claim goes, without copies."""
        return self._room.reclaim(shortfall, claim)

    def list_points(self) -> list[Handle]:
        """Every point that somebody owns or keeps."""
        return self._keeping.book.list_points()

    def list_users(self) -> dict[Ticket, Continuation]:
        """Who writes which record on."""
        return {record.user: record for record in self._keeping.records.values() if record.user is not None}

    def reconcile(self, users: Mapping[Ticket, Continuation], in_hand: frozenset[Handle]) -> None:
        """After an error somewhere in a hand-over: agree with Program and with the requests again (SCHED-09).

        Points that Program ended are forgotten, points that nobody owns are ended, records whose user left are
        inactive. `users`: the requests that hold a record; `in_hand`: new points that are still to be published.
        """
        living = self._program.list_points()
        gone = sorted(set(self.list_points()).difference(living))
        for point in gone:
            self._keeping.forget(point)
        waiting.revoke_holders(self._keeping, gone, frozenset(self.list_waiting()))
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
        points = self._keeping.book.find_exact(history, limit)
        deepest_point = max(chosen, next((frontier for _, frontier in points), 0))
        return self._losses.explain(history, limit, deepest_point, chosen, self._keeping.records.values())

    def facts(self) -> CacheFacts:
        """What is kept now."""
        keeping = self._keeping
        branches = keeping.book.index.branches
        return CacheFacts(len(keeping.records), len(keeping.book), branches, len(keeping.entries))

    def list_classes(self) -> dict[Retention, list[Handle]]:
        """Points kept, by the highest class among their owners."""
        reused = self._room.find_reused()
        points: dict[Retention, list[Handle]] = {Retention.REUSED: [], Retention.ORDINARY: []}
        for point in self._keeping.book.list_points():
            is_reused = any(owner.serial in reused for owner in self._keeping.book.owners_of(point))
            points[Retention.REUSED if is_reused else Retention.ORDINARY].append(point)
        return points

    def audit(self) -> None:
        """Records, entries, book, summary and Program agree (V-02)."""
        self._keeping.book.audit()
        self._room.audit()
        living = frozenset(self._program.list_points())
        self._keeping.book.waiters.audit(living, frozenset(self._keeping.book.waiters.list_tickets()))
        owners: list[Owner] = [*self._keeping.records.values(), *self._keeping.entries.values()]
        for owner in owners:
            for point in owner.points():
                assert owner in self._keeping.book.owners_of(point), "V-02: a point does not know its owner"
                assert point in living, f"V-02: point {point} ended without us"
        for record in self._keeping.records.values():
            assert not record.is_empty, "C5: an empty record was kept"
            for point, frontier in record.frontiers.items():
                assert self._program.point_frontier(point) == frontier
                assert record.uses_of(point), "V-02: a point without a use"
        owned = sum(len(owner.points()) for owner in owners)
        assert owned == sum(len(self._keeping.book.owners_of(point)) for point in self._keeping.book.list_points()), (
            "V-02: owners differ"
        )

    def _list_candidates(self, ask: SourceAsk) -> Iterator[tuple[Handle | None, int]]:
        hold = None if ask.ticket is None else self._keeping.book.waiters.find(ask.ticket)
        if hold is not None and not self._keeping.book.owners_of(hold.point):  # kept for this request alone
            yield hold.point, self._program.point_frontier(hold.point)
        yield from self._keeping.book.index.find(ask.digests, ask.limit)
        yield None, 0

    def _quote(
        self,
        ask: SourceAsk,
        point: Handle | None,
        frontier: int,
        *,
        keeps: bool = True,
        gives_up_point: bool = False,
        revoked: frozenset[Ticket] = frozenset(),
    ) -> Iterator[Source]:
        """Every logical way to start from one point: as the private record's next user, as a branch, as public use.

        `keeps`: where a slot is to be had for it, nothing of a record that is taken over ends (docs/adr/0006).
        `revoked`: waiters whose holds do not count; the own hold never does (G8).
        """
        without = revoked if ask.ticket is None else revoked | {ask.ticket}
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
        owners = self._keeping.book.owners_of(point)
        if not owners:
            yield Source(branch, None, branch_s)
        for owner in owners:
            if isinstance(owner, SharedEntry):
                yield Source(branch, None, branch_s, entry=owner)
                continue
            is_named = ask.session is not None and self._keeping.named.get(ask.session, (0, None))[1] is owner
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
                may_end=frozenset()
                if keeps and self._has_spare_slot()
                else self._keeping.book.list_sole(owner, without),
            )
            assert taken is not None, "D10: the same point, verified a moment ago"
            cost_s = self._costs.restore_s(taken.copied_bytes, ask.limit - frontier)
            yield Source(taken, owner, cost_s, takes_record=True, carried=carried, is_named=is_named, revokes=revoked)

    def _quote_left_behind(self, ask: SourceAsk, source: Source) -> Iterator[Source]:
        """An old endpoint that its record has left and nobody else waits for can move all the same; a branch (G8)."""
        point, book = source.quote.checkpoint, self._keeping.book
        assert point is not None and source.entry is not None
        holders = frozenset(book.waiters.list_holders(point)) - {ask.ticket}
        if holders or book.owners_of(point) != (source.entry,) or not source.entry.is_superseded:
            return
        frontier = source.quote.frontier
        moved = self._program.quote_source(
            ask.prompt,
            point,
            takes_over=True,
            first_unit_tokens=ask.first_unit_end(frontier) - frontier,
            gives_up_point=True,
            may_end=frozenset((point,)),
        )
        if moved is not None and moved.hand_over is HandOver.MOVE:
            yield Source(moved, None, self._costs.restore_s(moved.copied_bytes, ask.limit - frontier))

    def _has_spare_slot(self) -> bool:
        """A free slot, or one that nothing is lost with."""
        if self._program.occupancy().free.state:
            return True
        return any(entry.is_superseded for entry in self._keeping.entries.values())

    def _is_outdated_by(self, record: Continuation, uses: set[Use], *, is_moving: bool) -> bool:
        """Whether a new input point leaves nobody who needs the old one: it, and the entry there, move on (E2)."""
        point = record.input_point
        if (
            point is None
            or Use.INPUT not in uses
            or point in record.anchors
            or self._keeping.book.waiters.list_holders(point)
        ):
            return False
        others = [owner for owner in self._keeping.book.owners_of(point) if owner is not record]
        moves_on = is_moving and Use.SHARED in uses
        return all(
            moves_on and isinstance(other, SharedEntry) and other.serial == record.input_end and not other.users
            for other in others
        )

    def _note_demand(self, source: Source, history: History, ticket: Ticket, at: int) -> None:
        """A real adoption: of the public entry alone, or of the private parent where it covers what was proven (H1)."""
        frontier = source.quote.frontier
        self._demand.note_adopted(position_at(history.tokens, history.digests, frontier), ticket, at)
        if source.entry is not None:
            source.entry.note_use(at)
            self._keeping.book.weigh(source.entry.point)
        parent = source.record
        if parent is None or source.takes_record:
            return
        if parent.demand is None or frontier >= parent.demand.proven_frontier:
            parent.demand = Demand(at, frontier)
            parent.last_used = at


def _may_take(record: Continuation, ask: SourceAsk) -> bool:
    """Inactive, not published after the request came, and not another named entry (F1, G8)."""
    is_newer = ask.order is not None and record.publication_order > ask.order
    is_free = record.user is None or record.user == ask.ticket
    return is_free and not is_newer and record.session in (None, ask.session)


def _list_carried(record: Continuation, frontier: int) -> tuple[Handle, ...]:
    """Input point and anchors that stay compatible with a start at `frontier`."""
    kept = (point for point, at in record.frontiers.items() if at <= frontier and record.uses_of(point) != {Use.END})
    return tuple(kept)
