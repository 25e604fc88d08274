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
class RowInPlace:
    """A single row that stays in its slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class RowsApart:
    """Read and write slots of B rows, int64 [B]; equal for a row in place."""

    read: Tensor
    write: Tensor


StepSlots = RowInPlace | RowsApart


def step_slots(read: Sequence[int], write: Sequence[int], device: torch.device | None = None) -> StepSlots:
    """From plain numbers, for states on `device`. Write slots differ from each other."""
    assert len(set(write)) == len(write), "two rows write one slot"
    if len(read) == 1 and read[0] == write[0]:
        return RowInPlace(read[0])
    return RowsApart(torch.tensor(read, device=device), torch.tensor(write, device=device))


def load_rows(states: Tensor, slots: StepSlots) -> Tensor:
    """[slots, ...] -> [B, ...]: a view for a single row in place, else a copy."""
    if isinstance(slots, RowInPlace):
        return states[slots.slot : slots.slot + 1]
    return states.index_select(0, slots.read)


def store_rows(states: Tensor, slots: StepSlots, rows: Tensor) -> None:
    """Write rows [B, ...] that `load_rows` gave, advanced in place, to their write slots."""
    if isinstance(slots, RowsApart):
        states.index_copy_(0, slots.write, rows)


def write_rows(states: Tensor, slots: StepSlots, rows: Tensor) -> None:
    """Write fresh rows [B, ...] to their write slots, rounded to the states' format."""
    if isinstance(slots, RowInPlace):
        states[slots.slot : slots.slot + 1].copy_(rows)
    else:
        states.index_copy_(0, slots.write, rows.to(states.dtype))
