"""Decode steps and heads of exactly B rows, captured once as graphs and replayed: all inputs lie in fixed buffers.

Where there are no graphs (a CPU) the same code runs eagerly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ninfer.base.pools import Pool
from ninfer.kernels.linear.few_rows import multiply_few
from ninfer.models.fused import FusedModel, StepInputs
from ninfer.models.hybrid import HybridModel
from ninfer.ports.device import UnitRow

from .cuda_timeline import Mark, Timeline, pinned

_STAGES = 4
"""Pinned buffers of inputs: one may be filled while earlier ones still travel."""
_FIELDS = 7
"""Numbers of a row beside its pages: token, three positions, length, read slot, write slot."""


class Captured:
    """Work over fixed tensors: run once to warm up, captured, then replayed; its result lies in `result`."""

    def __init__(self, work: Callable[[], Tensor], line: Timeline, memory: Any = None) -> None:
        """`memory`: a pool shared with graphs whose results are not needed either once the next one runs."""
        self._work, self._graph = work, None
        if line.stream is None:
            return
        with line.use():
            for _ in range(2):
                self.result = work()
        line.stream.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=memory, stream=line.stream):
            self.result = work()

    def launch(self) -> Tensor:
        """On the current stream."""
        if self._graph is None:
            self.result = self._work()
        else:
            self._graph.replay()
        return self.result


@dataclass(slots=True)
class _Stage:
    """One pinned buffer, and when the device has read it."""

    numbers: Tensor
    free: Mark


class Ring:
    """Pinned buffers, taken in turn; each is free again once the device has read it."""

    def __init__(self, count: int, dtype: torch.dtype, line: Timeline) -> None:
        self._line = line
        self._stages = [_Stage(pinned(count, dtype, line.device), Mark()) for _ in range(_STAGES)]
        self._next = 0

    def take(self) -> Tensor:
        """The next buffer, free to be filled; `send` is called before another one is taken."""
        self._stages[self._next].free.wait()
        return self._stages[self._next].numbers

    def send(self, target: Tensor, count: int) -> None:
        """Start to copy the first numbers of the taken buffer on the current stream."""
        stage = self._stages[self._next]
        target[:count].copy_(stage.numbers[:count], non_blocking=True)
        stage.free = self._line.mark()
        self._next = (self._next + 1) % _STAGES


class StepGraphs:
    """One graph a batch size. A row's inputs are its numbers and the pages of its whole history."""

    def __init__(self, model: FusedModel, lanes: int, max_pages: int, line: Timeline) -> None:
        self._pages = max_pages
        width = lanes * (_FIELDS + max_pages)
        self._numbers = torch.zeros(width, dtype=torch.int32, device=line.device)
        self._ring = Ring(width, torch.int32, line)
        self._graphs: dict[int, Captured] = {}
        for batch in range(1, lanes + 1):
            inputs = self._view(batch)
            inputs.lengths.fill_(1)  # scratch page and scratch slot
            self._graphs[batch] = Captured(lambda inputs=inputs: model.step(inputs), line)  # type: ignore[misc]

    def launch(self, rows: Sequence[UnitRow], drawn: Tensor | None = None) -> None:
        """One token of each row; the current stream is the line's. `drawn`: tokens [B] that only the device knows."""
        batch = len(rows)
        used = batch * (_FIELDS + self._pages)
        numbers = self._ring.take().numpy()[:used]
        fields = numbers[: _FIELDS * batch].reshape(_FIELDS, batch)
        table = numbers[_FIELDS * batch :].reshape(batch, self._pages)
        for index, row in enumerate(rows):
            read = row.write_slot if row.read_slot is None else row.read_slot
            fields[:, index] = (row.token_ids[0], *row.positions, row.start + 1, read, row.write_slot)
            pages = np.frombuffer(row.pages[Pool.MAIN_KV], dtype=np.int32)
            table[index, : len(pages)] = pages
        self._ring.send(self._numbers, used)
        if drawn is not None:
            self._numbers[:batch].copy_(drawn)
        self._graphs[batch].launch()

    def _view(self, batch: int) -> StepInputs:
        fields = self._numbers[: _FIELDS * batch].view(_FIELDS, batch)
        table = self._numbers[_FIELDS * batch : batch * (_FIELDS + self._pages)].view(batch, self._pages)
        return StepInputs(fields[0], fields[1:4], fields[4], table, fields[5], fields[6])


class HeadGraphs:
    """Logits, the largest one and a check, for the tail rows kept in some slots."""

    def __init__(self, model: HybridModel, tail: Tensor, lanes: int, vocab_tokens: int, line: Timeline) -> None:
        self._model, self._tail, self._vocab, self._line = model, tail, vocab_tokens, line
        self._slots = torch.zeros(lanes, dtype=torch.int64, device=line.device)
        self._ring = Ring(lanes, torch.int64, line)
        self.logits: dict[int, Tensor] = {}
        self._graphs = {batch: self._capture(batch) for batch in range(1, lanes + 1)}

    def launch(self, slots: Sequence[int]) -> Tensor:
        """-> int64 [B + 1]: ids of the largest logits, and 1 if all logits are numbers. `logits[B]` has the logits.

        Logits and result are overwritten by the next launch of the same size.
        """
        batch = len(slots)
        self._ring.take().numpy()[:batch] = slots
        self._ring.send(self._slots, batch)
        return self._graphs[batch].launch()

    def _capture(self, batch: int) -> Captured:
        slots = self._slots[:batch]

        def work() -> Tensor:
            rows = self._tail.index_select(0, slots)
            logits = multiply_few(rows, self._model.head)[:, : self._vocab]
            wide = logits if logits.dtype == torch.float64 else logits.float()
            self.logits[batch] = wide
            return torch.cat([wide.argmax(-1), wide.sum().isfinite().long().view(1)])

        return Captured(work, self._line)
