"""Waiting requests: fresh ones first in, first out; paused ones by their original ticket.

Knows tickets and capacity events. A request that failed under an event is not asked again until a new one (J2, J9).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from ninfer.base.ids import Ticket


class WaitingQueue:
    """Tickets that wait for a lane or for room. Tickets are handed out in order of arrival."""

    __slots__ = ("_event", "_failed_at", "_fresh", "_paused")

    def __init__(self) -> None:
        self._fresh: OrderedDict[Ticket, None] = OrderedDict()
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
        self._fresh[ticket] = None

    def pause(self, ticket: Ticket) -> None:
        """A resident lost its lane. Its own release is no reason to try it again (J9)."""
        assert ticket not in self._paused
        self._paused.append(ticket)
        self._paused.sort()
        self._event += 1
        self._failed_at[ticket] = self._event

    def leave(self, ticket: Ticket) -> None:
        """Started, resumed, cancelled or timed out."""
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

    def find_fresh(self) -> Ticket | None:
        """The head of the fresh queue, unless it failed under the present event."""
        head = next(iter(self._fresh), None)
        return head if head is not None and self._may_try(head) else None

    def find_paused(self) -> Ticket | None:
        """The oldest paused request, unless it failed under the present event."""
        head = self._paused[0] if self._paused else None
        return head if head is not None and self._may_try(head) else None

    def audit(self) -> None:
        """Nobody waits twice; paused tickets are in order; no memory of tickets that left."""
        assert self._paused == sorted(set(self._paused)), "paused tickets out of order"
        assert list(self._fresh) == sorted(self._fresh), "fresh tickets out of order"
        assert not set(self._fresh) & set(self._paused), "a ticket waits twice"
        assert set(self._failed_at) <= set(self._fresh) | set(self._paused), "memory of a ticket that left"

    def _may_try(self, ticket: Ticket) -> bool:
        return self._failed_at.get(ticket, -1) < self._event
