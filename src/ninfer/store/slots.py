"""Device slots for StateImages. Each holds the whole recurrent state of one position (A2).

Knows which slots are taken and how many owners each has. Which position a slot holds is the checkpoint's or the
sequence's knowledge.
"""

from __future__ import annotations

from ninfer.base.pools import Pool

from .cells import CellPool
from .epoch import Epoch


class SlotPool(CellPool):
    """The C basic slots and the extra ones, in one pool (C2)."""

    def __init__(self, capacity: int, epoch: Epoch) -> None:
        super().__init__(Pool.STATE, capacity, epoch)
