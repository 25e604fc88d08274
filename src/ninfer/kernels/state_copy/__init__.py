"""Operator `state_copy`: copy one StateImage to another slot.

Formula: images[target] = images[source]. Shapes: images uint8 [slots, state_bytes]. Bits are copied.
State written: the target slot. Aliasing: source and target are different slots.
"""

from __future__ import annotations

from torch import Tensor


def copy_state(images: Tensor, source: int, target: int) -> None:
    """Bit-exact copy of a whole image."""
    assert source != target
    images[target].copy_(images[source])
