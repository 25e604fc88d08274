"""Typed ids. A handle carries a generation, so that a stale one is an error and never a silent hit (V-13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

Ticket = NewType("Ticket", int)
"""Order of arrival of a request; lower is older."""

LaneId = NewType("LaneId", int)
"""One of the C execution lanes, 0 <= lane < C."""

PageId = NewType("PageId", int)
"""A page of one KV pool on the device. Page 0 of every pool is scratch and never allocated."""

SlotId = NewType("SlotId", int)
"""A StateImage slot on the device. Slot 0 is scratch and never allocated."""

TransferId = NewType("TransferId", int)
UnitId = NewType("UnitId", int)


@dataclass(frozen=True, slots=True, order=True)
class Handle:
    """Names one object of a table: `index` may be used again, then with another `generation`."""

    index: int
    generation: int

    def __str__(self) -> str:
        return f"{self.index}.{self.generation}"
