"""Runs units and draws tokens: forward pass, tail hidden rows, the head for the rows that sample."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ninfer.base.errors import DeviceFailure
from ninfer.base.pools import Pool
from ninfer.kernels.sampling import DrawInput, draw
from ninfer.kernels.slots import write_rows
from ninfer.models.hybrid import HybridModel
from ninfer.ports.device import RunResult, SampleRow, UnitBatch, UnitRow

from .arena import Arena
from .batch import DecodeInputs, PrefillInputs, build_inputs


class Runner:
    """A model over an arena. No logits are computed but those a sampling row asks for."""

    def __init__(self, model: HybridModel, arena: Arena, vocab_tokens: int) -> None:
        self._model, self._arena, self._vocab_tokens = model, arena, vocab_tokens
        self._memory = arena.memory(Pool.MAIN_KV)

    def run_unit(self, batch: UnitBatch, media: dict[int, Tensor]) -> None:
        """Forward pass; state, KV and tail hidden rows are written. `media`: prepared rows by handle."""
        match build_inputs(batch, self._model, self._memory.kv):
            case PrefillInputs() as inputs:
                self._run_prefill(inputs, batch.rows[0], media)
            case DecodeInputs() as inputs:
                self._run_decode(inputs)

    def draw_tokens(self, rows: Sequence[SampleRow]) -> tuple[RunResult, ...]:
        """One token per row, from the tail hidden rows kept in their slots: one product with the head for all (D9)."""
        slots = torch.tensor([row.slot for row in rows], device=self._memory.kv.device)
        tails = self._memory.states.tail.index_select(0, slots)
        logits = self._model.logits(tails.to(self._model.activations))
        if not bool(logits.sum().isfinite()):
            raise DeviceFailure("logits are not finite: damaged weights, or a state that holds no numbers")
        wanted = [DrawInput(row.params, row.uniform, row.output_ids, row.mask, row.logprobs) for row in rows]
        return tuple(
            RunResult(row.lane, (drawn.token_id,), None if drawn.logprobs is None else (drawn.logprobs,))
            for row, drawn in zip(rows, draw(logits, wanted, self._vocab_tokens), strict=True)
        )

    def _run_prefill(self, inputs: PrefillInputs, row: UnitRow, media: dict[int, Tensor]) -> None:
        x = self._model.embed(inputs.token_ids)
        for override in row.overrides:
            rows = media[override.media][override.first : override.first + override.count]
            x[override.start : override.start + override.count] = rows.to(x.dtype)
        hidden = self._model.forward(x, inputs.run, self._memory)
        tail = self._memory.states.tail
        for offset, slot in inputs.run.cuts:
            if slot is not None:
                tail[slot] = hidden[offset - 1]
        tail[inputs.run.write_slot] = hidden[-1]

    def _run_decode(self, inputs: DecodeInputs) -> None:
        for slot in inputs.fresh_slots:
            self._arena.clear_state(slot)
        hidden = self._model.forward(self._model.embed(inputs.token_ids), inputs.run, self._memory)
        write_rows(self._memory.states.tail, inputs.run.slots, hidden)
