"""Waiting requests: fresh ones first in, first out with bounded overtaking; paused ones by their original ticket.

Knows tickets and capacity events. A request that failed under an event is not asked again until a new one, so that a
scan which was broken off goes on behind those already asked (J2, J9). A blocked fresh request is passed by at most C
younger ones (V-10); then everybody behind it waits until it has started.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice

from ninfer.base.ids import Ticket


class WaitingQueue:
    """Tickets that wait for a lane or for room. Tickets are handed out in order of arrival."""

    __slots__ = ("_event", "_failed_at", "_fresh", "_most_passes", "_paused")

    def __init__(self, most_passes: int) -> None:
        """`most_passes`: C, by how many younger requests a blocked one may be passed, and how far a scan looks."""
        self._most_passes = most_passes
        self._fresh: OrderedDict[Ticket, int] = OrderedDict()  # with the number of younger ones that passed it
        self._paused: list[Ticket] = []
        self._failed_at: dict[Ticket, int] = {}
        self._event = 0

    def __len__(self) -> int:
        return len(self._fresh) + len(self._paused)

    def __contains__(self, ticket: Ticket) -> bool:
        return ticket in self._fresh or ticket in self._paused

    def __iter__(self) -> Iterator[Ticket]:
        yield from self._paused
        yield from self._fresh

    @property
    def fresh_count(self) -> int:
        """Requests that never had a lane."""
        return len(self._fresh)

    def arrive(self, ticket: Ticket) -> None:
        """A new request joins at the end."""
        assert not self._fresh or next(reversed(self._fresh)) < ticket, "tickets arrive in order"
        self._fresh[ticket] = 0

    def pause(self, ticket: Ticket) -> None:
        """A resident lost its lane. Its own release is no reason to try it again (J9)."""
        assert ticket not in self._paused
        self._paused.append(ticket)
        self._paused.sort()
        self._event += 1
        self._failed_at[ticket] = self._event

    def start(self, ticket: Ticket) -> None:
        """It got a lane. A fresh one has passed every older fresh one, and only that counts: failed tries are free."""
        if ticket in self._fresh:
            for older in self._fresh:
                if older == ticket:
                    break
                self._fresh[older] += 1
                assert self._fresh[older] <= self._most_passes, f"V-10: ticket {older} was passed too often"
        self.leave(ticket)

    def leave(self, ticket: Ticket) -> None:
        """Cancelled or timed out."""
        self._failed_at.pop(ticket, None)
        if ticket in self._fresh:
            del self._fresh[ticket]
        else:
            self._paused.remove(ticket)

    def note_capacity(self) -> None:
        """Something was really released or became releasable: everybody may be asked again."""
        self._event += 1

    def note_failure(self, ticket: Ticket) -> None:
        """The request did not fit under the present event."""
        self._failed_at[ticket] = self._event

    def ask_again(self, ticket: Ticket) -> None:
        """What this waiting request had chosen is gone: it may be asked at once (G7)."""
        self._failed_at.pop(ticket, None)

    def list_scanned(self) -> list[Ticket]:
        """Fresh tickets that a scan looks at: the head and up to C more, as far as they may be passed (J2)."""
        scanned: list[Ticket] = []
        for ticket, passes in islice(self._fresh.items(), self._most_passes + 1):
            scanned.append(ticket)
            if passes >= self._most_passes:
                break
        return scanned

    def find_fresh(self) -> Ticket | None:
        """The next of a scan over the head and up to C more: the oldest that was not tried under the present event.

        Nobody is looked at behind a request that has been passed C times.
        """
        return next((ticket for ticket in self.list_scanned() if self._may_try(ticket)), None)

    def count_passes(self, ticket: Ticket) -> int:
        """How many younger requests have started before this waiting fresh one."""
        return self._fresh[ticket]

    def find_paused(self) -> Ticket | None:
        """The oldest paused request, unless it failed under the present event."""
        head = self._paused[0] if self._paused else None
        return head if head is not None and self._may_try(head) else None

    def audit(self) -> None:
        """Nobody waits twice; paused tickets are in order; no memory of tickets that left."""
        assert self._paused == sorted(set(self._paused)), "paused tickets out of order"
        assert list(self._fresh) == sorted(self._fresh), "fresh tickets out of order"
        assert not set(self._fresh) & set(self._paused), "a ticket waits twice"
        assert all(0 <= passes <= self._most_passes for passes in self._fresh.values()), "V-10: passed too often"
        assert set(self._failed_at) <= set(self._fresh) | set(self._paused), "memory of a ticket that left"

    def _may_try(self, ticket: Ticket) -> bool:
        return self._failed_at.get(ticket, -1) < self._event
