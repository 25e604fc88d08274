"""Wait holds: a queued request keeps the source it chose, without lane, State or KV of its own (G6-G8).

A hold extends the life of the points it names and protects them from optional writes. It is no reader lease: the
content may move between device and host. Knows tickets, points and records; decides nobody's turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from ninfer.base.ids import Handle, Ticket

from .continuation import Use


@dataclass(frozen=True, slots=True)
class WaitHold:
    """What one waiting request keeps: its source, and the compatible input point and anchors with their uses.

    They are handed over to its branch when the record that owned them has moved on meanwhile (G6, G8).
    """

    ticket: Ticket
    point: Handle
    carried: tuple[tuple[Handle, frozenset[Use]], ...] = ()

    @property
    def points(self) -> tuple[Handle, ...]:
        """Everything kept, once, the source first."""
        return tuple(dict.fromkeys((self.point, *(point for point, _ in self.carried))))


class Waiters:
    """The holds of all waiting requests, by ticket and by point."""

    __slots__ = ("_by_point", "_holds", "_revoked")

    def __init__(self) -> None:
        self._holds: dict[Ticket, WaitHold] = {}
        self._by_point: dict[Handle, set[Ticket]] = {}
        self._revoked: set[Ticket] = set()

    def __len__(self) -> int:
        return len(self._holds)

    def find(self, ticket: Ticket) -> WaitHold | None:
        """What the request keeps now."""
        return self._holds.get(ticket)

    def list_holders(self, point: Handle) -> list[Ticket]:
        """Who keeps the point, oldest first."""
        return sorted(self._by_point.get(point, ()))

    def list_points(self) -> list[Handle]:
        """Every point that somebody keeps."""
        return sorted(self._by_point)

    def keep(self, hold: WaitHold) -> list[Handle]:
        """The request keeps this from now on, and nothing else. Returns points that no waiter keeps any more."""
        dropped = self._drop(hold.ticket)
        self._revoked.discard(hold.ticket)
        self._holds[hold.ticket] = hold
        for point in hold.points:
            self._by_point.setdefault(point, set()).add(hold.ticket)
        return [point for point in dropped if point not in self._by_point]

    def release(self, ticket: Ticket) -> list[Handle]:
        """The wait is over, however it ended (G9). Returns points that no waiter keeps any more."""
        self._revoked.discard(ticket)
        return self._drop(ticket)

    def revoke(self, ticket: Ticket) -> list[Handle]:
        """Take the protection away: the request has to choose again (G7)."""
        assert ticket in self._holds, f"ticket {ticket} holds nothing"
        self._revoked.add(ticket)
        return self._drop(ticket)

    def take_revoked(self) -> list[Ticket]:
        """Requests that lost their hold since the last call, oldest first: they choose again (G7)."""
        revoked, self._revoked = sorted(self._revoked), set()
        return revoked

    def list_tickets(self) -> list[Ticket]:
        """Everybody who keeps something, youngest first: the order of revocation (G7)."""
        return sorted(self._holds, reverse=True)

    def list_kept(self, without: frozenset[Ticket] = frozenset()) -> frozenset[Handle]:
        """Points that somebody keeps, holds of `without` left out."""
        return frozenset(point for point, tickets in self._by_point.items() if not tickets <= without)

    def audit(self, living: frozenset[Handle], waiting: frozenset[Ticket]) -> None:
        """Both directions agree; only waiting requests keep, and only living points (G6, G9)."""
        counted: dict[Handle, set[Ticket]] = {}
        for ticket, hold in self._holds.items():
            assert hold.ticket == ticket, "a hold stands under another ticket"
            for point in hold.points:
                counted.setdefault(point, set()).add(ticket)
        assert counted == self._by_point, "holds by point differ (V-02)"
        assert self._by_point.keys() <= living, "G6: a waiter keeps a point that ended"
        assert self._holds.keys() <= waiting, "G9: a hold outlived its wait"
        assert not self._revoked & self._holds.keys(), "a revoked request still holds"

    def _drop(self, ticket: Ticket) -> list[Handle]:
        hold = self._holds.pop(ticket, None)
        dropped: list[Handle] = []
        for point in hold.points if hold is not None else ():
            keepers = self._by_point[point]
            keepers.remove(ticket)
            if not keepers:
                del self._by_point[point]
                dropped.append(point)
        return dropped
