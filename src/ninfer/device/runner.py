"""Runs units and draws tokens: forward pass, tail hidden rows, the head for the rows that sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ninfer.base.errors import DeviceFailure
from ninfer.base.pools import Pool
from ninfer.kernels.sampling import DrawInput, draw
from ninfer.kernels.slots import write_rows
from ninfer.models.hybrid import HybridModel
from ninfer.ports.device import RunResult, SampleRow, UnitBatch, UnitKind, UnitRow

from .arena import Arena
from .batch import DecodeInputs, PrefillInputs, build_inputs

LayerGate = Callable[[int], None]
OnLayer = Callable[[int, Tensor], None]


class Runner:
    """A model over an arena. No logits are computed but those a sampling row asks for."""

    def __init__(self, model: HybridModel, arena: Arena, vocab_tokens: int) -> None:
        self._model, self._arena, self._vocab_tokens = model, arena, vocab_tokens
        self._memory = arena.memory(Pool.MAIN_KV)

    def run_unit(self, batch: UnitBatch, media: dict[int, Tensor], wait_for: LayerGate | None = None) -> None:
        """Forward pass; state, KV and tail hidden rows are written. `media`: prepared rows by handle.

        `wait_for(layer)` returns once the pages and states of that layer may be read. Rows of a VERIFY are computed one
        after the other: each has the numbers it would have alone.
        """
        if batch.kind is UnitKind.VERIFY:
            for row in batch.rows:
                self.run_unit(UnitBatch(UnitKind.PREFILL, (row,)), media, wait_for)
            return
        inputs = build_inputs(batch, self._model, self._memory.kv)
        on_layer = None if wait_for is None else self._gate_layers(wait_for)
        match inputs:
            case PrefillInputs():
                self._run_prefill(inputs, batch.rows[0], media, on_layer)
            case DecodeInputs():
                self._run_decode(inputs, on_layer)

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

    def clear_targets(self, batch: UnitBatch) -> None:
        """The empty state in every slot that the unit would have written: it cannot be computed, nobody will use it."""
        for row in batch.rows:
            for slot in (row.write_slot, *(cut.slot for cut in row.cuts if cut.slot is not None)):
                self._arena.clear_state(slot)

    def _gate_layers(self, wait_for: LayerGate) -> OnLayer:
        """The first layer is waited for here, each other one when the layer before it is done."""
        wait_for(0)
        last = len(self._model.layers) - 1

        def on_layer(layer: int, _: Tensor) -> None:
            if layer < last:
                wait_for(layer + 1)

        return on_layer

    def _run_prefill(
        self, inputs: PrefillInputs, row: UnitRow, media: dict[int, Tensor], on_layer: OnLayer | None
    ) -> None:
        x = self._model.embed(inputs.token_ids)
        for override in row.overrides:
            rows = media[override.media][override.first : override.first + override.count]
            x[override.start : override.start + override.count] = rows.to(x.dtype)
        hidden = self._model.forward(x, inputs.run, self._memory, on_layer)
        tail = self._memory.states.tail
        for offset, slot in inputs.run.cuts:
            if slot is not None:
                tail[slot] = hidden[offset - 1]
        tail[inputs.run.write_slot] = hidden[-1]

    def _run_decode(self, inputs: DecodeInputs, on_layer: OnLayer | None) -> None:
        for slot in inputs.fresh_slots:
            self._arena.clear_state(slot)
        hidden = self._model.forward(self._model.embed(inputs.token_ids), inputs.run, self._memory, on_layer)
        write_rows(self._memory.states.tail, inputs.run.slots, hidden)
