"""Reading and writing rows of state by slot, for operators that advance one token of B sequences.

Knows slots as numbers and state as a tensor whose first axis is the slot. One row that stays in its slot is advanced
where it lies; everything else is gathered and written back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class StepSlots:
    """Read and write slots of B rows; equal for a row in place. Write slots differ from each other."""

    read: Tensor
    write: Tensor
    in_place: int | None
    """The slot of a single row in place."""

    @staticmethod
    def of(read: Sequence[int], write: Sequence[int]) -> StepSlots:
        """From plain numbers."""
        assert len(set(write)) == len(write), "two rows write one slot"
        single = read[0] if len(read) == 1 and read[0] == write[0] else None
        return StepSlots(torch.tensor(read), torch.tensor(write), single)

    def load(self, states: Tensor) -> Tensor:
        """[slots, ...] -> [B, ...]: a view for a single row in place, else a copy."""
        if self.in_place is not None:
            return states[self.in_place : self.in_place + 1]
        return states.index_select(0, self.read)

    def store(self, states: Tensor, rows: Tensor) -> None:
        """Write rows [B, ...] that `load` gave, advanced in place, to their write slots."""
        if self.in_place is None:
            states.index_copy_(0, self.write, rows)
