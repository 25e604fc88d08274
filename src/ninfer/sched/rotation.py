"""Whose prefill turn it is: residents that prefill take turns by chunk (J7, SCHED-05, SCHED-06)."""

from __future__ import annotations

from collections.abc import Sequence

from ninfer.base.ids import Ticket


class PrefillRotation:
    """Round robin by ticket. Remembers only who had the last turn."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = Ticket(-1)

    def list_turns(self, ready: Sequence[Ticket], first: Ticket | None = None) -> list[Ticket]:
        """All of `ready` in the order in which they should be asked; `first`, a full-permit holder, leads (J6)."""
        return sorted(ready, key=lambda ticket: (ticket != first, ticket <= self._last, ticket))

    def note_turn(self, ticket: Ticket) -> None:
        """This one really ran a chunk."""
        self._last = ticket
