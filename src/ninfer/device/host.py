"""The host arena: one allocation beside the device, and transfers between the two (C2, C4, decisions 2, 18).

Knows offsets and bytes. Which extent holds what is the stores' business; the arena has no directory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import assert_never

import torch
from torch import Tensor

from ninfer.base.errors import BadInput
from ninfer.base.pools import Pool
from ninfer.ports.device import HostCopy, PageFromHost, PageToHost, StateFromHost, StateToHost

from .layout import DeviceLayout, Region
from .parts import LayerGroups


class TransferLost(Exception):
    """A unit needs a transfer that failed."""


class Transfer:
    """One transfer on its way. Its thread lands groups in order; who needs one waits for that group alone."""

    def __init__(self, groups: int) -> None:
        self._landed = tuple(threading.Event() for _ in range(groups))
        self._failed = False

    def land(self, group: int) -> None:
        """The group's bytes are in place."""
        self._landed[group].set()

    def finish(self) -> None:
        """All of it is in place."""
        self.land(len(self._landed) - 1)

    def fail(self) -> None:
        """Nothing of it counts."""
        self._failed = True
        for event in self._landed:
            event.set()

    def wait(self, group: int) -> None:
        """Until the group has landed. Raises TransferLost after a failure."""
        self._landed[group].wait()
        if self._failed:
            raise TransferLost


class HostArena:
    """`host_bytes` of memory, taken once and touched only where something is kept. `bytes`: uint8 [host_bytes]."""

    def __init__(self, host_bytes: int, *, pinned: bool = False) -> None:
        """Raises BadInput when the system gives less than the plan took for free."""
        try:
            self.bytes: Tensor = torch.empty(host_bytes, dtype=torch.uint8, pin_memory=pinned)
        except RuntimeError as error:
            name = "context_cache.host_capacity_bytes"
            text = f"{name}: the system refuses {host_bytes} bytes{' of pinned memory' if pinned else ''}; lower it"
            raise BadInput(text, param=name) from error

    def read_bytes(self, offset: int, length: int) -> bytes:
        """A copy of what lies there; no transfer may be writing it."""
        return self.bytes[offset : offset + length].numpy().tobytes()

    def write_bytes(self, offset: int, content: bytes | memoryview) -> None:
        """Put a block there, as if a transfer had; nobody else may have the place."""
        self.bytes[offset : offset + len(content)].numpy()[:] = memoryview(content)


class HostLink:
    """Carries out transfers by plain memory copies, on the thread that calls."""

    def __init__(self, arena_bytes: Tensor, host: HostArena, groups: LayerGroups) -> None:
        self._device, self._host, self._groups = arena_bytes.numpy(), host.bytes.numpy(), groups

    def carry(self, copies: Sequence[HostCopy], transfer: Transfer) -> None:
        """Saves first, then what is restored, layer group by layer group. The last group is left to `finish`: the end
        of a transfer is told before units that need all of it can end."""
        device, host = self._device, self._host
        for move in self._groups.list_saves(copies):
            host[move.host_offset : move.host_offset + move.length] = device[
                move.arena_offset : move.arena_offset + move.length
            ]
        for group in range(self._groups.count):
            for move in self._groups.list_restores(copies, group):
                device[move.arena_offset : move.arena_offset + move.length] = host[
                    move.host_offset : move.host_offset + move.length
                ]
            if group + 1 < self._groups.count:
                transfer.land(group)


def layer_gate(transfers: Sequence[Transfer], groups: LayerGroups) -> Callable[[int], None] | None:
    """What a forward pass calls before each layer: it returns once the layer's bytes of all transfers are there."""
    if not transfers:
        return None

    def wait_for(layer: int) -> None:
        for transfer in transfers:
            transfer.wait(groups.group_of_layer[layer])

    return wait_for


def check_host_copies(copies: Sequence[HostCopy], layout: DeviceLayout, host_bytes: int) -> None:
    """A block outside pool or arena is a broken invariant, told where it was submitted (V-01)."""
    assert copies, "a transfer of nothing"
    for copy in copies:
        match copy:
            case PageToHost(pool, page, offset, _) | PageFromHost(pool, offset, page, _):
                _check_block(layout.pools[pool], pool, page, offset, host_bytes)
            case StateToHost(slot, offset) | StateFromHost(offset, slot):
                _check_block(layout.states, Pool.STATE, slot, offset, host_bytes)
            case _:
                assert_never(copy)


def _check_block(region: Region, pool: Pool, block: int, offset: int, host_bytes: int) -> None:
    assert 0 < block < region.blocks, f"V-01: {pool.value} has no block {block}"
    assert 0 <= offset <= host_bytes - region.block_bytes, f"V-01: the host arena ends before {offset} and a block"
