"""What becomes of wait holds: keeping, handing over, revoking, ending, over the points that records own (G5-G9).

Changes holds and the ends of points that nobody else has. Whose turn it is, and who may be revoked for what, is decided
elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection

from ninfer.base.ids import Handle, Ticket

from .admission import RULES, Revokes, Right
from .continuation import Continuation, Use
from .keeping import Keeping
from .sources import Source
from .waiters import Waiters, WaitHold


def keep_source(keeping: Keeping, ticket: Ticket, source: Source) -> None:
    """The request waits and keeps this source with what it would carry from it, and nothing else (G5, G6).

    No use and no hit. What a record gave up after the source was first kept is still carried (G8).
    """
    waiters, point, record = keeping.book.waiters, source.quote.checkpoint, source.record
    if point is None:
        end_wait(keeping, ticket)
        return
    before = waiters.find(ticket)
    carried: tuple[tuple[Handle, frozenset[Use]], ...] = ()
    if record is not None:
        carried = tuple((one, record.uses_of(one) - {Use.END}) for one in source.carried)
    elif before is not None and before.point == point:
        carried = before.carried
    hold = WaitHold(ticket, point, tuple((one, uses) for one, uses in carried if uses))
    if hold != before:
        _end_unowned(keeping, waiters.keep(hold), ())


def hand_over(
    keeping: Keeping, hold: WaitHold, record: Continuation, start: Handle | None, ended: Collection[Handle]
) -> None:
    """The record behind the kept source has moved on: the branch gets the input point and anchors that were kept."""
    for point, uses in hold.carried if hold.point == start else ():
        if point not in ended:
            frontier = keeping.frontier_of(point)
            keeping.own(record, point, frontier, uses)


def end_wait(keeping: Keeping, ticket: Ticket, ended: Collection[Handle] = ()) -> None:
    """Adopted, cancelled, timed out or shut down (G9). `ended`: points that Program has ended already."""
    _end_unowned(keeping, keeping.book.waiters.release(ticket), ended)


def revoke_holders(
    keeping: Keeping, ended: Collection[Handle], may_lose: frozenset[Ticket], own: Ticket | None = None
) -> None:
    """Program has ended these points: whoever kept one of them chooses again (G7).

    `may_lose`: whose protection the right of whoever ended them revokes. `own`: the wait that they were kept for.
    """
    waiters = keeping.book.waiters
    for point in ended:
        for ticket in waiters.list_holders(point):
            if ticket != own:
                assert ticket in may_lose, f"G7: ticket {ticket} lost point {point} to somebody without the right"
                _end_unowned(keeping, waiters.revoke(ticket), ended)


def list_revocable(waiters: Waiters, ticket: Ticket | None, right: Right) -> frozenset[Ticket]:
    """Whose wait holds `ticket` may revoke by this right (G7)."""
    others = frozenset(other for other in waiters.list_tickets() if other != ticket)
    match RULES[right].revokes:
        case Revokes.NOBODY:
            return frozenset()
        case Revokes.YOUNGER:
            return frozenset(other for other in others if ticket is not None and other > ticket)
        case Revokes.ANYBODY:
            return others


def _end_unowned(keeping: Keeping, released: Collection[Handle], ended: Collection[Handle]) -> None:
    for point in released:
        if point not in ended:
            keeping.end_unowned(point)
