"""In which order residents ask for their next unit, and who has to give way when one cannot get it.

Pure choices over tickets (C7, J3-J5).
"""

from __future__ import annotations

from collections.abc import Iterable

from ninfer.base.ids import Ticket


def order_of_asking(residents: Iterable[Ticket], recovering: Ticket | None) -> list[Ticket]:
    """The holder of a full restore permit first, then by original ticket (C7)."""
    return sorted(residents, key=lambda ticket: (ticket != recovering, ticket))


def find_victim(blocked: Ticket, residents: Iterable[Ticket], protected: frozenset[Ticket]) -> Ticket | None:
    """The youngest resident that is younger than `blocked` and may be paused (J4); None: there is none."""
    younger = [ticket for ticket in residents if ticket > blocked and ticket not in protected]
    return max(younger, default=None)


def may_preempt(waiting: Ticket, residents: Iterable[Ticket]) -> bool:
    """A paused request takes from younger residents only when no older one is resident (J5)."""
    return all(ticket > waiting for ticket in residents)
