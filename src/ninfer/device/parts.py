"""Which bytes of a page and of a StateImage belong to which layers, so that a restore can land layer by layer.

Arithmetic over the byte layout (docs/design/byte-layout.md); moves nothing. A group of layers ends with a layer of full
attention; the parts of all groups together are the whole block, the bytes between sections included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import assert_never

from ninfer.base.pools import Pool
from ninfer.config.geometry import LayerKind, ModelGeometry
from ninfer.ports.device import HostCopy, PageFromHost, PageToHost, StateFromHost, StateToHost

from .layout import DeviceLayout, Region

_MOST_GROUPS = 8
"""Events of one restore; deeper models put several attention layers into a group."""


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes [start, stop) of a block."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Move:
    """`length` bytes that are the same in the arena and on the host once the move is done."""

    arena_offset: int
    host_offset: int
    length: int


class LayerGroups:
    """How a model's layers, and with them its blocks, are divided.

    `group_of_layer`: by index in the stack. What belongs to no layer of it (tail row, other KV pools) lands last.
    """

    def __init__(self, geometry: ModelGeometry, layout: DeviceLayout) -> None:
        layers = geometry.layers
        stops = _choose_stops(layers)
        self.count = len(stops)
        self.group_of_layer = tuple(sum(layer >= stop for stop in stops) for layer in range(len(layers)))
        self._layout = layout
        bounds = [0, *stops]
        full = [sum(kind is LayerKind.FULL for kind in layers[:bound]) for bound in bounds]
        linear = [bound - before for bound, before in zip(bounds, full, strict=True)]
        self._state_parts = _state_parts(geometry, layout, linear)
        self._page_parts = {pool: self._divide_page(pool, region, full) for pool, region in layout.pools.items()}

    def list_saves(self, copies: Sequence[HostCopy]) -> Iterator[Move]:
        """Blocks that go to the host, each in one piece."""
        for copy in copies:
            match copy:
                case PageToHost(pool, page, target, _):
                    region = self._layout.pools[pool]
                    yield Move(region.block_offset(page), target, region.block_bytes)
                case StateToHost(slot, target):
                    states = self._layout.states
                    yield Move(states.block_offset(slot), target, states.block_bytes)
                case PageFromHost() | StateFromHost():
                    pass
                case _:
                    assert_never(copy)

    def list_restores(self, copies: Sequence[HostCopy], group: int) -> Iterator[Move]:
        """The parts of one group of blocks that come from the host."""
        for copy in copies:
            match copy:
                case PageFromHost(pool, source, page, _):
                    yield from _moves(
                        self._layout.pools[pool].block_offset(page), source, self._page_parts[pool][group]
                    )
                case StateFromHost(source, slot):
                    yield from _moves(self._layout.states.block_offset(slot), source, self._state_parts[group])
                case PageToHost() | StateToHost():
                    pass
                case _:
                    assert_never(copy)

    def parts_of(self, pool: Pool | None, group: int) -> tuple[Part, ...]:
        """What one group has of a page of that pool, or of a StateImage (None)."""
        return self._state_parts[group] if pool is None else self._page_parts[pool][group]

    def _divide_page(self, pool: Pool, region: Region, full: Sequence[int]) -> tuple[tuple[Part, ...], ...]:
        if pool is not Pool.MAIN_KV:
            return (*((),) * (self.count - 1), (Part(0, region.block_bytes),))
        width = region.block_bytes // full[-1]
        return tuple((Part(low * width, high * width),) if low < high else () for low, high in pairwise(full))


def _choose_stops(layers: Sequence[LayerKind]) -> list[int]:
    """Where each group ends: after an attention layer, the last one at the end of the stack."""
    stops = [index + 1 for index, kind in enumerate(layers) if kind is LayerKind.FULL]
    step = -(-len(stops) // _MOST_GROUPS) or 1
    stops = stops[step - 1 :: step]
    return stops if stops and stops[-1] == len(layers) else [*stops, len(layers)]


def _state_parts(geometry: ModelGeometry, layout: DeviceLayout, linear: Sequence[int]) -> tuple[tuple[Part, ...], ...]:
    """Recurrent matrices and conv columns of a group's linear layers; the rest of each section is in the last."""
    _, conv, _, size = geometry.state_sections(layout.numeric_format)
    count = geometry.linear_layers
    if count == 0:
        return (*((),) * (len(linear) - 2), (Part(0, size),))
    matrix = geometry.recurrent_bytes(layout.numeric_format) // count
    columns = geometry.conv_bytes(layout.numeric_format) // count
    parts = [
        (Part(low * matrix, high * matrix), Part(conv + low * columns, conv + high * columns))
        for low, high in pairwise(linear)
    ]
    matrices, rest = parts[-1]
    parts[-1] = (Part(matrices.start, conv), Part(rest.start, size))
    return tuple(parts)


def _moves(arena_offset: int, host_offset: int, parts: Sequence[Part]) -> Iterator[Move]:
    for part in parts:
        yield Move(arena_offset + part.start, host_offset + part.start, part.stop - part.start)
