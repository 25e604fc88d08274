"""Launches forward passes and draws on the current stream; reads nothing back until a draw is asked for its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ninfer.base.errors import DeviceFailure
from ninfer.base.ids import LaneId
from ninfer.base.pools import Pool
from ninfer.kernels.sampling import DrawInput
from ninfer.kernels.sampling.batched import adjust_, draw_batch, logprobs, needs_adjusting
from ninfer.models.fused import FusedModel
from ninfer.models.hybrid import HybridModel
from ninfer.ports.device import RunResult, SampleRow, UnitBatch, UnitKind, UnitRow

from .arena import Arena
from .cuda_prefill import Prefills
from .cuda_steps import HeadGraphs, StepGraphs
from .cuda_timeline import Timeline, pinned
from .runner import Runner

LayerGate = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Draw:
    """A draw on its way. `numbers`: pinned int64 [B + 1], tokens and a check; `logits` where they were adjusted."""

    rows: tuple[SampleRow, ...]
    numbers: Tensor
    logits: Tensor | None

    def read(self) -> tuple[RunResult, ...]:
        """The tokens, once the work is done."""
        *tokens, finite = self.numbers.tolist()
        if not finite:
            raise DeviceFailure("logits are not finite: damaged weights, or a state that holds no numbers")
        return tuple(self._read_row(index, row, tokens[index]) for index, row in enumerate(self.rows))

    def _read_row(self, index: int, row: SampleRow, token: int) -> RunResult:
        if row.logprobs is None:
            return RunResult(row.lane, (token,))
        assert self.logits is not None
        return RunResult(row.lane, (token,), (logprobs(self.logits[index], token, row.logprobs),))


class CudaRunner:
    """A model over an arena on one stream. `fused`: fused kernels and captured steps, else the plain routes."""

    def __init__(
        self,
        model: HybridModel,
        arena: Arena,
        vocab_tokens: int,
        lanes: int,
        max_pages: int,
        chunk_tokens: int,
        line: Timeline,
        *,
        fused: bool,
    ) -> None:
        """`chunk_tokens`: of the longest prefill unit; longer ones are slower at first."""
        self._model, self._arena, self._line = model, arena, line
        self._memory = arena.memory(Pool.MAIN_KV)
        self._plain = Runner(model, arena, vocab_tokens)
        self._fused = FusedModel(model, self._memory) if fused else None
        self._prefills = Prefills(model, self._fused, max_pages, chunk_tokens, line) if self._fused else None
        self._steps = StepGraphs(self._fused, lanes, max_pages, line) if self._fused else None
        self._heads = HeadGraphs(model, self._memory.states.tail, lanes, vocab_tokens, line)
        self._drawn: dict[LaneId, Tensor] = {}
        """Of the last draw, int64 [1] each on the device; overwritten by the next one."""

    def run_unit(self, batch: UnitBatch, media: dict[int, Tensor], wait_for: LayerGate | None) -> None:
        """Forward pass; state, KV and tail hidden rows are written. `wait_for(layer)` before each layer."""
        if self._prefills is None or self._steps is None:
            self._plain.run_unit(batch, media, wait_for)
        elif batch.kind is UnitKind.DECODE:
            if wait_for is not None:
                for layer in range(len(self._model.layers)):
                    wait_for(layer)
            for row in batch.rows:
                assert len(row.token_ids) == 1 and not row.cuts and not row.overrides
                if row.read_slot is None:
                    self._arena.clear_state(row.write_slot)
            self._steps.launch(batch.rows, None if batch.drawn_by is None else self._pick_drawn(batch.rows))
        else:
            for row in batch.rows:  # one, but for a VERIFY, whose rows are chunks of their own
                self._prefills.launch(row, media, wait_for)

    def submit_draw(self, rows: Sequence[SampleRow]) -> Draw:
        """One token per row from the tail hidden rows kept in their slots."""
        numbers = self._heads.launch([row.slot for row in rows])
        wanted = [DrawInput(row.params, row.uniform, row.output_ids, row.mask, row.logprobs) for row in rows]
        logits: Tensor | None = None
        plain = all(one.params.is_greedy and not needs_adjusting(one) and one.logprobs is None for one in wanted)
        if not plain:
            logits = self._heads.logits[len(rows)].clone()
            for index, one in enumerate(wanted):
                adjust_(logits[index], one)
            numbers = torch.cat([draw_batch(logits, wanted), numbers[-1:]])
        self._drawn = {row.lane: numbers[index : index + 1] for index, row in enumerate(rows)}
        read = pinned(len(rows) + 1, torch.int64, self._line.device)
        read.copy_(numbers, non_blocking=True)
        return Draw(tuple(rows), read, logits)

    def _pick_drawn(self, rows: Sequence[UnitRow]) -> Tensor:
        """Tokens int64 [B] of the last draw on the device, in the order of the rows."""
        return torch.cat([self._drawn[row.lane] for row in rows])
