"""What records and entries own: taking over and branching, publishing, replacing, letting go (D1, D6, F1, F2).

Changes ownership and nothing else; which point ends in Program follows from it. Orders count uses and publications.
"""

from __future__ import annotations

from collections.abc import Callable

from ninfer.base.ids import Handle, Ticket
from ninfer.ports.native import NativeProgram

from .book import PointBook
from .continuation import MOST_ANCHORS, Continuation, History, Use
from .demand import Demand, DemandSummary
from .shared import SharedEntry
from .sources import Source, Wishes
from .uses import Uses
from .worth import Starts


class Keeping:
    """All records and shared entries, and the points they own."""

    def __init__(self, program: Callable[[], NativeProgram], demand: DemandSummary) -> None:
        self._find_program = program
        self._demand = demand
        self.starts = Starts()
        self.book = PointBook()
        self.records: dict[int, Continuation] = {}
        self.entries: dict[int, SharedEntry] = {}
        self.named: dict[str, tuple[Ticket, Continuation]] = {}
        self._serials = 0
        self.uses = Uses()

    @property
    def order(self) -> int:
        """The order of the last use or publication."""
        return self.uses.order

    @property
    def _program(self) -> NativeProgram:
        return self._find_program()

    def take(self, source: Source, history: History) -> Continuation:
        """The record goes on: what lies deeper than its start, or was its old endpoint, is let go (F2)."""
        record = source.record
        assert record is not None
        start = source.quote.frontier
        record.turns += 1
        for point, frontier in list(record.frontiers.items()):
            if frontier > start or point == record.end:
                self._let_go(record, point)
        record.history = history
        for point in record.frontiers:
            self.book.restate(point, history)
        self.records[record.serial] = record
        return record

    def branch(self, source: Source, history: History) -> Continuation:
        """A record of its own that shares the compatible input point and anchors of its parent (G6)."""
        record = Continuation(self.next_serial(), history, last_used=self.next_order())
        self.records[record.serial] = record
        parent = source.record
        if parent is None:
            return record
        for point in source.carried:
            uses = parent.uses_of(point) - {Use.END}
            if uses:
                self.own(record, point, parent.frontiers[point], uses)
        return record

    def fulfil(self, record: Continuation, history: History, start: int, wishes: Wishes) -> None:
        """Uses at or before the start that points on the path can serve as they are (D6, D11)."""
        for frontier in wishes.list_frontiers(0, start):
            points = self.book.list_at(history, frontier)
            if not points:
                continue
            wanted = wishes.uses_at(frontier)
            own = record.find_at(frontier)
            point = points[0] if own is None else own
            if Use.SHARED in wanted and self.book.find_entry(history, frontier) is None:
                self.open_entry(record, point, frontier, is_moving=frontier == wishes.moving_marker)
            if Use.INPUT in wanted and record.input_point not in points:
                if record.input_point is not None:
                    self.release_use(record, Use.INPUT, record.input_point)
                self.own(record, point, frontier, frozenset({Use.INPUT}))
            if Use.ANCHOR in wanted:
                self.own(record, point, frontier, frozenset({Use.ANCHOR}))

    def own(self, record: Continuation, point: Handle, frontier: int, uses: frozenset[Use]) -> None:
        """The record owns a point for these uses. What it replaces was let go, or is now: the oldest anchor (D6)."""
        is_new = point not in record.frontiers
        if is_new:
            self.book.add(record, point, frontier, record.history)
        if Use.INPUT in uses and record.input_point is not None and record.input_point != point:
            self.release_use(record, Use.INPUT, record.input_point)
        if Use.ANCHOR in uses and point not in record.anchors and len(record.anchors) == MOST_ANCHORS:
            self.release_use(record, Use.ANCHOR, record.anchors[0])
        record.publish(point, frontier, uses)
        record.publication_order = record.last_used = self.next_order()
        if is_new and Use.INPUT in uses:
            self._inherit(record, point, frontier)

    def _inherit(self, record: Continuation, point: Handle, frontier: int) -> None:
        """Repeated demand of exactly this input point promotes its owner, and is what it has proven (H2)."""
        repeated = self._demand.find_repeated(self.book.position(point))
        if repeated is not None and (record.demand is None or record.demand.at <= repeated):
            record.demand = Demand(repeated, frontier)

    def open_entry(self, record: Continuation, point: Handle, frontier: int, *, is_moving: bool) -> None:
        """A shared entry over a point of `record`; `is_moving`: at the end of its input, unasked."""
        entry = SharedEntry(self.next_serial(), record.history, point, frontier)
        self.book.add(entry, point, frontier, record.history)
        entry.publication_order = entry.last_used = self.next_order()
        self.entries[entry.serial] = entry
        repeated = self._demand.find_repeated(self.book.position(point))
        if repeated is not None:
            entry.demand = Demand(repeated, frontier)
        if is_moving:
            before = self.entries.get(record.input_end) if record.input_end is not None else None
            if before is not None and before.frontier < frontier:
                before.leave(record)
                self.book.weigh(before.point)
            record.input_end = entry.serial

    def release_use(self, record: Continuation, use: Use, point: Handle) -> None:
        """Give up one use of a point; the last one leaves it behind."""
        if record.release_use(use, point):
            self._leave_behind(record, point)

    def _let_go(self, record: Continuation, point: Handle) -> None:
        """The record gives a point up with all its uses."""
        record.retire(point)
        self._leave_behind(record, point)

    def _leave_behind(self, record: Continuation, point: Handle) -> None:
        """What nobody else owns stays as a superseded entry, the first to go when room is needed (docs/adr/0006)."""
        if self.book.owners_of(point) == (record,):
            frontier = self.book.index.frontier(point)
            entry = SharedEntry(self.next_serial(), self.book.history(point), point, frontier)
            entry.leave(record)
            entry.publication_order = entry.last_used = self.next_order()
            self.entries[entry.serial] = entry
            self.book.add(entry, point, frontier, entry.history)
        self.book.drop(record, point)

    def forget(self, point: Handle) -> None:
        """Program ended a point: nobody owns it any more."""
        for owner in list(self.book.forget(point)):
            if isinstance(owner, SharedEntry):
                del self.entries[owner.serial]
            else:
                owner.retire(point)
                self.drop_if_empty(owner)

    def frontier_of(self, point: Handle) -> int:
        """Where a living point stands, whoever has it."""
        return self._program.point_frontier(point)

    def end_unowned(self, point: Handle) -> None:
        """A waiter let go of a point; with no other owner it ends."""
        if not self.book.owners_of(point) and not self.book.waiters.list_holders(point):
            self._program.discard_point(point)

    def drop_if_empty(self, record: Continuation) -> None:
        """Forget a record without points and user (C5)."""
        if record.is_empty:
            self.records.pop(record.serial, None)
            if record.session is not None and self.named.get(record.session, (0, None))[1] is record:
                del self.named[record.session]

    def next_order(self) -> int:
        """The order of a use or publication that happens now."""
        return self.uses.count()

    def next_serial(self) -> int:
        """A serial that no record and no entry had."""
        self._serials += 1
        return self._serials
