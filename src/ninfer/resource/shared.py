"""Shared entries: public starting points that many requests may fork (D11).

Where one lies on a private recovery point, both owners refer to one physical point; each keeps its own standing and
heat, and the point lives until the last of them lets go (M2). Knows a handle, a frontier and its history; no bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ninfer.base.ids import Handle

from .continuation import History
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

    def points(self) -> tuple[Handle, ...]:
        """The one point it stands for."""
        return (self.point,)

    def note_use(self, at: int) -> None:
        """A request started from this entry (H1)."""
        self.demand = Demand(at, self.frontier)
        self.last_used = at

    def protects(self, points: frozenset[Handle], reused: bool) -> bool:
        """A hot public owner protects every action that touches it (I3)."""
        return reused and self.point in points
