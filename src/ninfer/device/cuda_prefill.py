"""Prefill units of one sequence on a GPU: short ones as captured launches with room for a few more tokens.

Launching a prefill kernel by kernel takes the control thread 15 to 45 ms whatever its length (docs/log.md), more than a
short one works. So for a row of up to 2,048 tokens there are graphs, captured at start-up. How many of their rows are
tokens, where these lie and where the scan is cut are numbers that travel before the launch.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ninfer.base.ids import LaneId, SlotId
from ninfer.base.pools import Pool
from ninfer.kernels.span import Cuts, SpanNumbers, count_chunks, span_size, write_span
from ninfer.models.fused import FusedModel, PrefillInputs
from ninfer.models.hybrid import HybridModel
from ninfer.ports.device import UnitRow

from .cuda_steps import Captured, Ring
from .cuda_timeline import Timeline, pinned

GRAPH_TOKENS = (*range(64, 513, 64), *range(640, 1025, 128), *range(1280, 2049, 256))
GRAPH_CUTS = 7
"""Cuts inside a captured launch; a prompt has a marker or two, and four anchors at most (D1)."""
_LAUNCH_S = 0.02
"""What launching one by one costs at least."""
_FLOPS_PER_S = 6e14
"""Of a GPU that works without pause; both figures only choose between two ways to the same numbers."""

LayerGate = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class _Room:
    """The order of a launch's numbers: span, page table, token ids, positions; tables are aligned to four numbers."""

    tokens: int
    chunks: int
    cuts: int
    pages: int

    @property
    def size(self) -> int:
        return self._table + self.pages + 4 * self.tokens

    @property
    def _table(self) -> int:
        return span_size(self.chunks, self.cuts)

    def fill(self, numbers: np.ndarray, row: UnitRow, cuts: Cuts) -> None:
        """`numbers` int32 [size]."""
        count, table, ids = len(row.token_ids), self._table, self._table + self.pages
        pages = np.frombuffer(row.pages[Pool.MAIN_KV], dtype=np.int32)
        write_span(numbers[:table], self.chunks, count, row.start, row.read_slot, row.write_slot, cuts)
        numbers[table:] = 0
        numbers[table : table + len(pages)] = pages
        numbers[ids : ids + count] = np.frombuffer(row.token_ids, dtype=np.int32)
        positions = numbers[ids + self.tokens :].reshape(3, self.tokens)
        positions[:, :count] = np.frombuffer(row.positions, dtype=np.int32).reshape(3, count)

    def view(self, numbers: Tensor) -> tuple[Tensor, PrefillInputs]:
        """Token ids [tokens], and the rest."""
        table, ids = self._table, self._table + self.pages
        positions = ids + self.tokens
        inputs = PrefillInputs(
            positions=numbers[positions : self.size].view(3, self.tokens),
            table=numbers[table:ids].view(1, -1),
            span=SpanNumbers.of(numbers[:table], self.chunks, self.cuts),
        )
        return numbers[ids:positions], inputs


class Prefills:
    """Launches prefill rows; `most_tokens` bounds those of an engine, longer ones take memory of their own.

    `graph_tokens`: lengths of the graphs, rising; None: the usual ones on a GPU, none on a CPU.
    """

    def __init__(
        self,
        model: HybridModel,
        fused: FusedModel,
        max_pages: int,
        most_tokens: int,
        line: Timeline,
        graph_tokens: Sequence[int] | None = None,
    ) -> None:
        if graph_tokens is None:
            graph_tokens = GRAPH_TOKENS if line.stream is not None else ()
        self._model, self._fused, self._line = model, fused, line
        self._pages = -(-max_pages // 4) * 4
        self._token_flops = model.geometry.token_flops(0)
        self._graphs: dict[int, tuple[_Room, Captured]] = {}
        rooms = {tokens: self._graph_room(tokens) for tokens in graph_tokens if tokens <= most_tokens}
        self._most = max([self._exact_room(most_tokens, ()).size, *(room.size for room in rooms.values())])
        self._most += 4 * 64  # for cuts
        self._numbers = torch.zeros(self._most, dtype=torch.int32, device=line.device)
        self._ring = Ring(self._most, torch.int32, line)
        memory = torch.cuda.graph_pool_handle() if line.stream is not None else None
        for tokens, room in rooms.items():
            ids, inputs = room.view(self._numbers)
            with line.use():
                self._send(room, _scratch_row(tokens), ())

            def work(ids: Tensor = ids, inputs: PrefillInputs = inputs) -> Tensor:
                return fused.prefill(model.embed(ids), inputs)

            self._graphs[tokens] = room, Captured(work, line, memory)
        if line.stream is not None:
            with line.use():
                self.launch(_scratch_row(most_tokens), {}, lambda _layer: None)
            line.stream.synchronize()

    def launch(self, row: UnitRow, media: dict[int, Tensor], wait_for: LayerGate | None) -> None:
        """On the current stream, which is the line's."""
        cuts = tuple((cut.offset, cut.slot) for cut in row.cuts)
        graph = None if wait_for is not None or row.overrides else self._find_graph(len(row.token_ids), len(cuts))
        if graph is not None:
            room, captured = graph
            self._send(room, row, cuts)
            captured.launch()
            return
        room = self._exact_room(len(row.token_ids), cuts)
        ids, inputs = room.view(self._send(room, row, cuts))
        x = self._model.embed(ids)
        for override in row.overrides:
            rows = media[override.media][override.first : override.first + override.count]
            x[override.start : override.start + override.count] = rows.to(x.dtype)
        self._fused.prefill(x, inputs, wait_for)

    def _find_graph(self, tokens: int, cuts: int) -> tuple[_Room, Captured] | None:
        """The smallest that fits, unless its empty rows keep the GPU busy longer than launches one by one take."""
        room = next((count for count in self._graphs if count >= tokens), None)
        if room is None or cuts > GRAPH_CUTS:
            return None
        one_by_one = max(_LAUNCH_S, tokens * self._token_flops / _FLOPS_PER_S)
        return self._graphs[room] if room * self._token_flops / _FLOPS_PER_S <= one_by_one else None

    def _send(self, room: _Room, row: UnitRow, cuts: Cuts) -> Tensor:
        """The row's numbers on the device."""
        if room.size > self._most:
            own = pinned(room.size, torch.int32, self._line.device)
            room.fill(own.numpy(), row, cuts)
            return own.to(self._line.device, non_blocking=True)
        room.fill(self._ring.take().numpy()[: room.size], row, cuts)
        self._ring.send(self._numbers, room.size)
        return self._numbers

    def _graph_room(self, tokens: int) -> _Room:
        return _Room(tokens, tokens // 64 + GRAPH_CUTS, GRAPH_CUTS + 1, self._pages)

    def _exact_room(self, tokens: int, cuts: Cuts) -> _Room:
        return _Room(tokens, count_chunks(tokens, cuts), len(cuts) + 1, self._pages)


def _scratch_row(tokens: int) -> UnitRow:
    """A row over the scratch page and slot: to warm up and to capture."""
    zeros = memoryview(array("i", bytes(12 * tokens)))
    return UnitRow(
        lane=LaneId(0),
        token_ids=zeros[:tokens],
        start=0,
        positions=zeros,
        pages={Pool.MAIN_KV: zeros[:1]},
        read_slot=None,
        write_slot=SlotId(0),
    )
