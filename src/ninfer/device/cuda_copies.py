"""Transfers between the arena of a GPU and pinned host memory, on streams beside the computing one.

Restores land by layer group, each with its own mark, so that a prefill may start on the layers that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ninfer.kernels.page_copy.triton_move import list_blocks, move_blocks
from ninfer.ports.device import HostCopy

from .cuda_timeline import Mark, Timeline
from .host import HostArena
from .parts import LayerGroups, Move


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

    def __init__(self, arena_bytes: Tensor, host: HostArena, groups: LayerGroups, compute: Timeline) -> None:
        self._device, self._host, self._groups, self._compute = arena_bytes, host.bytes, groups, compute
        self._out, self._in = Timeline(arena_bytes.device), Timeline(arena_bytes.device)

    def carry(self, copies: Sequence[HostCopy]) -> Journey:
        """Submit; returns at once."""
        kept: list[Tensor] = []
        before = self._compute.mark()
        before.hold(self._out)
        before.hold(self._in)
        saves = list(self._groups.list_saves(copies))
        if saves:
            with self._out.use():
                self._move(saves, kept, to_host=True)
        saved = self._out.mark()
        marks = []
        with self._in.use():
            for group in range(self._groups.count):
                moves = list(self._groups.list_restores(copies, group))
                if moves:
                    self._move(moves, kept, to_host=False)
                marks.append(self._in.mark())
        return Journey(tuple(marks), saved, tuple(kept))

    def _move(self, moves: Sequence[Move], kept: list[Tensor], *, to_host: bool) -> None:
        if to_host:
            table = list_blocks([(move.arena_offset, move.host_offset, move.length) for move in moves])
        else:
            table = list_blocks([(move.host_offset, move.arena_offset, move.length) for move in moves])
        if self._device.is_cuda:
            table = table.pin_memory()
        sent = table.to(self._device.device, non_blocking=True)
        kept += (table, sent)
        source, target = (self._device, self._host) if to_host else (self._host, self._device)
        move_blocks(source, target, sent, max(move.length for move in moves))
