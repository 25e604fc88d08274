"""Transfers between the arena of a GPU and pinned host memory, on streams beside the computing one.

Restores land by layer group, each with its own mark, so that a prefill may start on the layers that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from torch import Tensor

from ninfer.base.pools import Pool
from ninfer.kernels.page_copy.triton_move import list_blocks, move_blocks
from ninfer.ports.device import HostCopy, PageFromHost, PageToHost, StateFromHost, StateToHost

from .cuda_timeline import Mark, Timeline
from .host import HostArena
from .layout import DeviceLayout, Region
from .parts import LayerGroups


@dataclass(frozen=True, slots=True)
class Journey:
    """A transfer on its way: when each layer group may be read, and when all of it is done."""

    groups: tuple[Mark, ...]
    saved: Mark
    kept: tuple[Tensor, ...]
    """Tables the kernels read: alive until the journey is over."""

    def is_done(self) -> bool:
        """Never blocks."""
        return self.saved.is_done() and self.groups[-1].is_done()


class CudaLink:
    """Carries out transfers. Each starts after what was submitted to the computing stream before it."""

    def __init__(
        self, arena_bytes: Tensor, host: HostArena, layout: DeviceLayout, groups: LayerGroups, compute: Timeline
    ) -> None:
        self._device, self._host, self._groups, self._compute = arena_bytes, host.bytes, groups, compute
        self._layout = layout
        self._out, self._in = Timeline(arena_bytes.device), Timeline(arena_bytes.device)

    def carry(self, copies: Sequence[HostCopy]) -> Journey:
        """Submit; returns at once."""
        kept: list[Tensor] = []
        before = self._compute.mark()
        before.hold(self._out)
        before.hold(self._in)
        saves = [(block, offset, host) for block, offset, host, to_host in map(self._place, copies) if to_host]
        if saves:
            whole = np.asarray([(offset, host, block.block_bytes) for block, offset, host in saves], dtype=np.int64)
            with self._out.use():
                self._move(whole, kept, to_host=True)
        saved = self._out.mark()
        restores: dict[Pool | None, list[tuple[int, int]]] = {}
        for copy in copies:
            if isinstance(copy, PageFromHost | StateFromHost):
                _, offset, host, _ = self._place(copy)
                restores.setdefault(copy.pool if isinstance(copy, PageFromHost) else None, []).append((host, offset))
        starts = {pool: np.asarray(pairs, dtype=np.int64) for pool, pairs in restores.items()}
        marks = []
        with self._in.use():
            for group in range(self._groups.count):
                moves = [
                    np.column_stack([pairs + part.start, np.full(len(pairs), part.stop - part.start)])
                    for pool, pairs in starts.items()
                    for part in self._groups.parts_of(pool, group)
                ]
                if moves:
                    self._move(np.concatenate(moves), kept, to_host=False)
                marks.append(self._in.mark())
        return Journey(tuple(marks), saved, tuple(kept))

    def _place(self, copy: HostCopy) -> tuple[Region, int, int, bool]:
        """Region, byte in the arena, byte on the host, whether it goes to the host."""
        match copy:
            case PageToHost(pool, page, host, _):
                region, block, to_host = self._layout.pools[pool], int(page), True
            case PageFromHost(pool, host, page, _):
                region, block, to_host = self._layout.pools[pool], int(page), False
            case StateToHost(slot, host):
                region, block, to_host = self._layout.states, int(slot), True
            case StateFromHost(host, slot):
                region, block, to_host = self._layout.states, int(slot), False
            case _:
                assert_never(copy)
        return region, region.block_offset(block), host, to_host

    def _move(self, moves: np.ndarray, kept: list[Tensor], *, to_host: bool) -> None:
        """Rows of (source byte, target byte, length)."""
        table = list_blocks(moves)
        if self._device.is_cuda:
            table = table.pin_memory()
        sent = table.to(self._device.device, non_blocking=True)
        kept += (table, sent)
        source, target = (self._device, self._host) if to_host else (self._host, self._device)
        move_blocks(source, target, sent)
