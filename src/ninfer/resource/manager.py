"""ResourceManager: private records, the prefix index, source choice and reclaim, behind one facade (B4).

Keeps no physical ledger: room, needs and releases are asked of Program each time. Nothing here knows time or lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from ninfer.base.ids import Handle, Ticket
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import PAGE_TOKENS, Amounts, Pool
from ninfer.ports.native import Bound, DemoteAction, HandOver, NativeProgram
from ninfer.ports.output import LossReport

from .continuation import Continuation, History
from .demotion import last_use, rank_demotions
from .index import PrefixIndex
from .reclaim import CAPTURE_WEIGHT, Ranked, Right, Standing, find_reused, find_standing, rank_actions
from .sources import CostModel, Source, SourceAsk, rank_sources

MATCHED_RECORDS = 64
"""How many records, the most recently used first, a loss report compares with."""


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """Records and points kept now."""

    records: int
    points: int
    branches: int


class ResourceManager:
    """Records of all histories. Engine-thread only."""

    def __init__(
        self,
        program: NativeProgram,
        costs: CostModel | None = None,
        *,
        keeps_points: bool = True,
        lane_count: int = 1,
    ) -> None:
        """`lane_count`: lanes, each with a basic slot that no reused standing is charged against."""
        self._program = program
        self._lanes = lane_count
        self._costs = costs or CostModel()
        self._keeps = keeps_points
        self._index = PrefixIndex()
        self._records: dict[int, Continuation] = {}
        self._owners: dict[Handle, Continuation] = {}
        self._serials = 0
        self._orders = 0
        self._uses = 0

    @property
    def keeps_points(self) -> bool:
        """False: nothing is kept for later requests."""
        return self._keeps

    def list_sources(self, ask: SourceAsk) -> list[Source]:
        """Verified ways to start, best first, root among them. Valid until anything changes (V-14)."""
        return rank_sources(ask, self._list_candidates(ask), lambda point, at: self._quote(ask, point, at), self._costs)

    def find_frugal(self, ask: SourceAsk, source: Source) -> Source | None:
        """The same source with its input point given up for the active state, where slots are too few for both (F3)."""
        quote = source.quote
        if quote.checkpoint is None or not quote.takes_over or quote.hand_over is not HandOver.FORK:
            return None
        frugal = self._quote(ask, quote.checkpoint, quote.frontier, gives_up_point=True)
        return frugal if frugal is not None and frugal.quote.hand_over is HandOver.MOVE else None

    def adopt(
        self,
        source: Source,
        bound: Bound,
        history: History,
        ticket: Ticket,
        *,
        own_resume: bool,
        session: str | None = None,
    ) -> Continuation:
        """Record that `ticket` starts from `source`. Returns the record it writes from now on.

        An own resume is no demand: it counts no adoption and refreshes nothing (H1).
        """
        parent = source.record
        is_demand = parent is not None and not own_resume
        self._uses += not own_resume
        if parent is not None and source.quote.takes_over:
            record = parent
        else:
            record = self._open_record(history, adoptions=int(is_demand))
        assert record.user in (None, ticket), "one writer a history (V-09)"
        record.user = ticket
        for point in bound.consumed:  # Program has ended them: nothing may be asked about them any more
            self._forget(point)
        record.history = history
        record.session = session
        if parent is not None and is_demand:
            parent.adoptions += 1
            self._note_use(parent)
        return record

    def publish_input_point(self, record: Continuation, point: Handle, frontier: int) -> None:
        """A capture of `record`'s user was kept."""
        assert record.input_point is None, "one input point a record (D1)"
        self._enter(record, point, frontier)
        record.publish_input_point(point, frontier)

    def publish_end(self, record: Continuation, point: Handle, frontier: int) -> None:
        """The user of `record` ended with a generation endpoint."""
        assert record.end is None, "one endpoint a record (D1)"
        self._enter(record, point, frontier)
        record.publish_end(point, frontier)
        self.vacate(record)

    def vacate(self, record: Continuation) -> None:
        """The user of `record` left; without points the record goes as well."""
        record.user = None
        self._drop_if_empty(record)

    def retire(self, point: Handle) -> None:
        """Program ended a point (an outdated input point before a capture)."""
        self._forget(point)

    def list_points(self) -> list[Handle]:
        """Every point that a record owns."""
        return list(self._owners)

    def list_users(self) -> dict[Ticket, Continuation]:
        """Who writes which record on."""
        return {record.user: record for record in self._records.values() if record.user is not None}

    def reconcile(self, users: Mapping[Ticket, Continuation], in_hand: frozenset[Handle]) -> None:
        """After an error somewhere in a hand-over: agree with Program and with the requests again (SCHED-09).

        Points that Program ended are forgotten, points that nobody owns are ended, records whose user left are
        inactive. `users`: the requests that hold a record; `in_hand`: new points that are still to be published.
        """
        living = self._program.list_points()
        for point in set(self._owners).difference(living):
            self._forget(point)
        for point in living:
            if point not in self._owners and point not in in_hand:
                self._program.discard_point(point)
        for ticket, record in self.list_users().items():
            if users.get(ticket) is not record:
                self.vacate(record)

    def reclaim(self, shortfall: Shortfall, right: Right, keep: frozenset[Handle] = frozenset(), gain: int = 0) -> bool:
        """End optional points until the gap is closed. False: it cannot be closed.

        `keep`: points that must stay (the own source). `gain`: tokens of added coverage, the budget of a capture (I9).
        Only NECESSARY may give up points without closing the gap.
        """
        match right:
            case Right.CAPTURE:
                allowed = self._may_replace(shortfall, keep, gain)
            case Right.ENTRY:
                allowed = self._can_close(shortfall, keep)
            case Right.NECESSARY:
                allowed = True
            case _:
                assert_never(right)
        gap = shortfall.gap
        while allowed and gap > 0:
            ranked = self._rank(shortfall.pool, keep)
            if not ranked:
                return False
            gap -= self._delete(ranked[0])[shortfall.pool]
        return allowed

    def list_demotions(self, pool: Pool, keep: frozenset[Handle]) -> list[DemoteAction]:
        """What may leave the device for the host, first to go first. Nothing is lost by it (I6)."""
        return rank_demotions(self._program.list_demote_actions(pool), self._owners, keep)

    def free_host(self, shortfall: Shortfall, keep: frozenset[Handle], comes: DemoteAction | None = None) -> bool:
        """End points until the host gap is closed; False, and nothing ended: that cannot be.

        `comes`: content that takes their place, so only what was not used since it was.
        """
        limit = None if comes is None else last_use(comes.points, self._owners)
        gap, is_checked = shortfall.gap, False
        while gap > 0:
            ranked = [
                entry
                for entry in self._rank(Pool.HOST, keep)
                if entry.standing < Standing.IN_USE and (limit is None or entry.last_used < limit)
            ]
            if not ranked or (not is_checked and self._sum_largest(ranked) < gap):
                return False
            is_checked = True
            gap -= self._delete(min(ranked, key=lambda entry: (entry.last_used, entry.action.points)))[Pool.HOST]
        return True

    def explain(self, history: History, limit: int, source: Source) -> LossReport:
        """Why `source` was not deeper (settled decision 14). Ask before it is adopted."""
        recent = sorted(self._records.values(), key=lambda record: -record.last_used)[:MATCHED_RECORDS]
        matched = [(record, record.history.match(history.tokens, history.digests)) for record in recent]
        chosen = source.quote.frontier
        deepest_point = max(chosen, next((frontier for _, frontier in self._find_exact(history, limit)), 0))
        deepest_match = min(limit, max((match for _, match in matched), default=0))
        kept = (min(match, max(record.frontiers.values(), default=0)) for record, match in matched)
        deepest_kv = min(limit, max(kept, default=0))
        return LossReport(
            deepest_token_match=max(deepest_match, deepest_point),
            deepest_point=deepest_point,
            chosen_point=chosen,
            reason=_reason(deepest_match, deepest_point, chosen),
            deepest_kv=max(deepest_kv, deepest_point),
        )

    def facts(self) -> CacheFacts:
        """What is kept now."""
        return CacheFacts(len(self._records), len(self._index), self._index.branches)

    def count_points(self) -> dict[Standing, int]:
        """Points kept, by the standing of their record."""
        reused = self._find_reused()
        counts = dict.fromkeys((Standing.ORDINARY, Standing.REUSED, Standing.IN_USE), 0)
        for record in self._records.values():
            counts[find_standing(record, reused)] += len(record.frontiers)
        return counts

    def audit(self) -> None:
        """Records, owners and index agree, and no empty record is kept (V-02, C5)."""
        self._index.audit()
        counted = {point: record.serial for record in self._records.values() for point in record.frontiers}
        assert counted == {point: record.serial for point, record in self._owners.items()}, "owners differ (V-02)"
        assert len(counted) == len(self._index), "index and records differ (V-02)"
        for record in self._records.values():
            assert not record.is_empty, "an empty record was kept (C5)"
            named = {point for point in (record.end, record.input_point) if point is not None}
            assert named == set(record.frontiers), "a record holds an unnamed point (D1)"
            assert all(self._program.point_frontier(p) == at for p, at in record.frontiers.items()), "frontier (V-06)"

    def _list_candidates(self, ask: SourceAsk) -> Iterator[tuple[Handle | None, int]]:
        if self._keeps:
            yield from self._index.find(ask.digests, ask.limit)
        yield None, 0

    def _quote(
        self, ask: SourceAsk, point: Handle | None, frontier: int, *, gives_up_point: bool = False
    ) -> Source | None:
        record = self._owners[point] if point is not None else None
        quote = self._program.quote_source(
            ask.prompt,
            point,
            takes_over=record is not None and record.user is None,
            first_unit_tokens=ask.first_unit_end(frontier) - frontier,
            gives_up_point=gives_up_point,
        )
        if quote is None:
            return None
        cost_s = self._costs.restore_s(quote.copied_bytes, ask.limit - quote.frontier)
        return Source(quote, record, cost_s)

    def _find_exact(self, history: History, limit: int) -> Iterator[tuple[Handle, int]]:
        for point, frontier in self._index.find(history.digests, limit):
            if self._owners[point].history.match(history.tokens, history.digests) >= frontier:
                yield point, frontier

    def _may_replace(self, shortfall: Shortfall, keep: frozenset[Handle], gain: int) -> bool:
        """A capture takes only what its weighted gain exceeds, and only if that closes the gap."""
        gap, lost = shortfall.gap, 0
        for ranked in self._rank(shortfall.pool, keep):
            if ranked.standing > Standing.ORDINARY:
                break
            lost += ranked.loss_tokens
            if lost >= CAPTURE_WEIGHT * gain:
                return False
            gap -= ranked.useful
            if gap <= 0:
                return True
        return False

    def _can_close(self, shortfall: Shortfall, keep: frozenset[Handle]) -> bool:
        """Whether enough could be freed."""
        ranked = self._rank(shortfall.pool, keep)
        if shortfall.pool is Pool.STATE:
            return sum(entry.useful for entry in ranked) >= shortfall.gap
        return self._sum_largest(ranked) >= shortfall.gap

    def _sum_largest(self, ranked: list[Ranked]) -> int:
        """Of the nested actions of a record the largest counts. Careful: what records share may give more."""
        largest: dict[object, int] = {}
        for entry in ranked:
            owner = self._owners.get(entry.action.points[0])
            key = entry.action.points if owner is None else owner.serial
            largest[key] = max(largest.get(key, 0), entry.useful)
        return sum(largest.values())

    def _rank(self, pool: Pool, keep: frozenset[Handle]) -> list[Ranked]:
        actions = self._program.list_delete_actions(pool)
        return rank_actions(actions, pool, self._owners, self._find_reused(), keep, self._uses)

    def _find_reused(self) -> frozenset[int]:
        spare_slots = max(0, self._program.occupancy().capacity[Pool.STATE] - self._lanes)
        return find_reused(self._records.values(), spare_slots, self._uses)

    def _delete(self, ranked: Ranked) -> Amounts:
        freed = self._program.delete(ranked.action)
        for point in ranked.action.points:
            if point in self._owners:
                self._forget(point)
        return freed

    def _open_record(self, history: History, *, adoptions: int) -> Continuation:
        self._serials += 1
        record = Continuation(self._serials, history, adoptions=adoptions)
        self._note_use(record)
        self._records[record.serial] = record
        return record

    def _enter(self, record: Continuation, point: Handle, frontier: int) -> None:
        """Make a point findable, or change nothing: what may fail comes first."""
        history = record.history
        if history.digests.pages < frontier // PAGE_TOKENS:
            history.digests.extend_to(history.tokens, frontier)
        self._index.publish(point, history.digests, frontier)
        self._owners[point] = record
        self._note_use(record)
        record.publication_order = record.last_used

    def _forget(self, point: Handle) -> None:
        record = self._owners[point]
        self._index.retire(point)
        del self._owners[point]
        record.retire(point)
        self._drop_if_empty(record)

    def _note_use(self, record: Continuation) -> None:
        record.last_used, record.used_at = self._next_order(), self._uses

    def _drop_if_empty(self, record: Continuation) -> None:
        if record.is_empty:
            self._records.pop(record.serial, None)

    def _next_order(self) -> int:
        self._orders += 1
        return self._orders


def _reason(deepest_match: int, deepest_point: int, chosen: int) -> str:
    if chosen < deepest_point:
        return "cheaper_source_chosen"
    if chosen >= deepest_match:
        return "none"
    return "no_point_at_match"
