"""What one forward pass reads and writes besides weights: rotary tables, pages, state slots.

Knows slots and pages as numbers, and where one StateImage keeps what. Knows no sequence and no request.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ninfer.kernels.paged_attention import DecodePages, KvPool, PrefillPages
from ninfer.kernels.rope import RotaryTables
from ninfer.kernels.slots import StepSlots


@dataclass(frozen=True, slots=True)
class StateViews:
    """Views of all StateImages. `recurrent` [slots, linear layers, Hv, Dk, Dv] in the activations' format, `conv`
    [slots, linear layers, taps - 1, channels] and `tail` [slots, H] in the model's. The tuples: the same, by layer."""

    recurrent: Tensor
    conv: Tensor
    tail: Tensor
    layer_recurrent: tuple[Tensor, ...]
    layer_conv: tuple[Tensor, ...]

    @staticmethod
    def of(recurrent: Tensor, conv: Tensor, tail: Tensor) -> StateViews:
        """With the views by layer taken once."""
        return StateViews(recurrent, conv, tail, recurrent.unbind(1), conv.unbind(1))


@dataclass(frozen=True, slots=True)
class Memory:
    """Everything a pass may write. `kv`: [pages, layers, 2, Hk, 64, D] of the pool the pass runs on, or its one-byte
    form."""

    kv: KvPool
    states: StateViews


@dataclass(frozen=True, slots=True)
class PrefillPass:
    """T tokens of one sequence. `cuts`: (offset, slot), rising; `read_slot` None: the empty state."""

    rotary: RotaryTables
    pages: PrefillPages
    read_slot: int | None
    write_slot: int
    cuts: tuple[tuple[int, int | None], ...] = ()


@dataclass(frozen=True, slots=True)
class DecodePass:
    """One token of each of B sequences."""

    rotary: RotaryTables
    pages: DecodePages
    slots: StepSlots


Pass = PrefillPass | DecodePass
