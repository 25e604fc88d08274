"""Shared entries: public starting points that many requests may fork (D11).

Where one lies on a private recovery point, both owners refer to one physical point; each keeps its own standing and
heat, and the point lives until the last of them lets go (M2). Knows a handle, a frontier and its history; no bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ninfer.base.ids import Handle

from .continuation import Continuation, History
from .demand import Demand


@dataclass(slots=True, eq=False)
class SharedEntry:
    """One public use of a point. It is never consumed and never moved: it ends by reclaim alone.

    `demand`: last public use, and this position; None: saved and not used by anybody yet (H1). `last_used`: order of
    its publication or last use.
    """

    serial: int
    history: History
    point: Handle
    frontier: int
    publication_order: int = 0
    last_used: int = 0
    demand: Demand | None = None
    users: int = 0
    """Requests that started from it."""
    is_replaced: bool = False
    """A conversation left it behind: its record has, or had, a newer point for what this one was."""
    left_by: Continuation | None = None
    """The record that left it behind, at the turn `left_turn` of it."""
    left_turn: int = 0

    def leave(self, record: Continuation) -> None:
        """The conversation of `record` has moved on."""
        self.is_replaced, self.left_by, self.left_turn = True, record, record.turns

    @property
    def is_superseded(self) -> bool:
        """Its known uses are covered by its successor: nobody but that conversation started from it (docs/adr/0006)."""
        return self.is_replaced and self.users <= 1

    def points(self) -> tuple[Handle, ...]:
        """The one point it stands for."""
        return (self.point,)

    def note_use(self, at: int) -> None:
        """A request started from this entry (H1)."""
        self.users += 1
        self.demand = Demand(at, self.frontier)
        self.last_used = at
