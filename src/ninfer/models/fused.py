"""The text model with fused kernels, for a GPU: the layers of `hybrid` in fewer and larger steps.

Matrices and what goes into them are BF16, the residual and everything inside a kernel is FP32. Two forwards: `step`
takes all its inputs as tensors, allocates nothing of changing shape and reads nothing back, so that it can be
captured; `prefill`, of T tokens of one sequence, likewise, for the most rows that may be tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from ninfer.kernels.conv1d.triton_keep import keep_columns, keep_rows
from ninfer.kernels.conv1d.triton_shift import shift_columns
from ninfer.kernels.gated_delta.triton_inputs import scan_inputs
from ninfer.kernels.gated_delta.triton_scan import scan_chunks
from ninfer.kernels.gated_delta.triton_step import mix_step
from ninfer.kernels.linear import linear
from ninfer.kernels.linear.few_rows import (
    multiply_few,
    multiply_few_gated,
    multiply_few_parts,
)
from ninfer.kernels.moe.grouped import run_grouped
from ninfer.kernels.moe.triton_sparse import run_sparse
from ninfer.kernels.paged_attention.triton_decode import attend_pages
from ninfer.kernels.paged_attention.triton_heads import place_heads
from ninfer.kernels.paged_attention.triton_prefill import attend_chunk_pages
from ninfer.kernels.rmsnorm.triton_norm import add_norm, norm_gated
from ninfer.kernels.rope import RotaryTables
from ninfer.kernels.span import SpanNumbers
from ninfer.kernels.swiglu.triton_swiglu import swiglu

from .attention import Attention
from .gated_delta import GatedDelta
from .hybrid import HybridModel
from .mlp import DenseMlp
from .moe import SparseMlp
from .passes import Memory


@dataclass(frozen=True, slots=True)
class StepInputs:
    """One token of each of B sequences, all int32 on the device.

    `lengths` include the new token; `table` [B, pages]; `read`, `write`: state slots, equal for a row in place.
    """

    token_ids: Tensor
    positions: Tensor
    """[3, B]."""
    lengths: Tensor
    table: Tensor
    read: Tensor
    write: Tensor


@dataclass(frozen=True, slots=True)
class PrefillInputs:
    """Tokens of one sequence in N rows, int32 on the device: `positions` [3, N], `table` [1, pages]; which rows they
    are, and what is kept of them, says the span."""

    positions: Tensor
    table: Tensor
    span: SpanNumbers


class FusedModel:
    """A loaded model over its memory."""

    def __init__(self, model: HybridModel, memory: Memory) -> None:
        self._model, self._memory = model, memory
        self._format = model.embedding.dtype

    def step(self, inputs: StepInputs) -> Tensor:
        """-> final-normed rows [B, H]; states, pages and tail rows are written."""
        model, states = self._model, self._memory.states
        rotary = model.rotary_tables(inputs.positions)
        x = model.embed(inputs.token_ids)
        shape, batch = model.geometry, x.shape[0]
        width = shape.gdn.conv_channels + shape.gdn.value_width + 2 * shape.gdn.value_heads
        mixed = x.new_empty(shape.linear_layers, batch, width, dtype=self._format)
        delta: Tensor | None = None
        for layer in model.layers:
            h = add_norm(x, delta, layer.mixer_norm, self._format)
            if isinstance(layer.mixer, GatedDelta):
                delta = self._step_delta(layer.mixer, h, inputs, mixed[layer.mixer.layer])
            else:
                delta = self._step_attention(layer.mixer, h, inputs, rotary)
            h = add_norm(x, delta, layer.mlp_norm, self._format)
            delta = _step_dense(layer.mlp, h) if isinstance(layer.mlp, DenseMlp) else _step_sparse(layer.mlp, h)
        hidden = add_norm(x, delta, model.final_norm, self._format)
        shift_columns(mixed, states.conv, inputs.read, inputs.write)
        states.tail.index_copy_(0, inputs.write.long(), hidden)
        return hidden

    def prefill(self, x: Tensor, inputs: PrefillInputs, wait_for: Callable[[int], None] | None = None) -> Tensor:
        """Residual x FP32 [N, H], consumed -> final-normed rows [N, H]; states, pages and tail rows are written.

        `wait_for(layer)` is called before the layer's pages and states are read.
        """
        rotary = self._model.rotary_tables(inputs.positions)
        delta: Tensor | None = None
        for index, layer in enumerate(self._model.layers):
            if wait_for is not None:
                wait_for(index)
            h = add_norm(x, delta, layer.mixer_norm, self._format)
            if isinstance(layer.mixer, GatedDelta):
                delta = self._scan_delta(layer.mixer, h, inputs.span)
            else:
                delta = self._chunk_attention(layer.mixer, h, inputs, rotary)
            h = add_norm(x, delta, layer.mlp_norm, self._format)
            delta = _dense(layer.mlp, h) if isinstance(layer.mlp, DenseMlp) else _sparse(layer.mlp, h)
        hidden = add_norm(x, delta, self._model.final_norm, self._format)
        keep_rows(hidden, self._memory.states.tail, inputs.span)
        return hidden

    # ---- mixers ---------------------------------------------------------------------------------------------------

    def _step_delta(self, mixer: GatedDelta, h: Tensor, inputs: StepInputs, y: Tensor) -> Tensor:
        states = self._memory.states
        multiply_few(h, mixer.in_proj, y)
        out = mix_step(
            y,
            mixer.conv,
            states.layer_conv[mixer.layer],
            states.layer_recurrent[mixer.layer],
            mixer.decay_rate,
            mixer.dt_bias,
            mixer.norm,
            mixer.geometry.key_heads,
            inputs.read,
            inputs.write,
        )
        return multiply_few_parts(out, mixer.out_proj)

    def _step_attention(self, mixer: Attention, h: Tensor, inputs: StepInputs, rotary: RotaryTables) -> Tensor:
        shape, kv = mixer.geometry, self._memory.kv
        y = multiply_few(h, mixer.in_proj)
        q, _ = place_heads(y, shape.heads, mixer.qk_norm, rotary, kv, mixer.layer, inputs.table, inputs.lengths)
        gates = y[:, (shape.heads + 2 * shape.kv_heads) * shape.head_dim :]
        return multiply_few_parts(attend_pages(q, gates, kv, mixer.layer, inputs.table, inputs.lengths), mixer.out_proj)

    def _scan_delta(self, mixer: GatedDelta, h: Tensor, span: SpanNumbers) -> Tensor:
        shape, states = mixer.geometry, self._memory.states
        columns = states.layer_conv[mixer.layer]
        y = linear(h, mixer.in_proj)
        inputs = scan_inputs(
            y, mixer.conv, columns, span, mixer.decay_rate, mixer.dt_bias, shape.key_heads, shape.key_dim
        )
        keep_columns(y, columns, span)
        out = scan_chunks(inputs, states.layer_recurrent[mixer.layer], span, h.shape[0])
        z = y[:, shape.conv_channels : shape.conv_channels + shape.value_width]
        return linear(norm_gated(out, z, mixer.norm, self._format, span), mixer.out_proj)

    def _chunk_attention(self, mixer: Attention, h: Tensor, inputs: PrefillInputs, rotary: RotaryTables) -> Tensor:
        shape, kv = mixer.geometry, self._memory.kv
        y = linear(h, mixer.in_proj)
        q, _ = place_heads(y, shape.heads, mixer.qk_norm, rotary, kv, mixer.layer, inputs.table, inputs.span)
        gates = y[:, (shape.heads + 2 * shape.kv_heads) * shape.head_dim :]
        return linear(attend_chunk_pages(q, gates, kv, mixer.layer, inputs.table, inputs.span), mixer.out_proj)


def _dense(mlp: DenseMlp, h: Tensor) -> Tensor:
    return linear(swiglu(linear(h, mlp.gate_up)), mlp.down)


def _step_dense(mlp: DenseMlp, h: Tensor) -> Tensor:
    return multiply_few_parts(multiply_few_gated(h, mlp.gate_up), mlp.down)


def _step_sparse(mlp: SparseMlp, h: Tensor) -> Tensor:
    up, down = mlp.shared_gate_up, mlp.shared_down
    shared = up.rows(0, up.out_features), down.rows(0, down.out_features)
    return run_sparse(h, mlp.router, mlp.top_k, mlp.gate_up, mlp.down, *shared)


def _sparse(mlp: SparseMlp, h: Tensor) -> Tensor:
    logits, experts = linear(h, mlp.router), mlp.gate_up.shape[0]
    return run_grouped(h, logits, mlp.top_k, mlp.gate_up, mlp.down, _shared(mlp, h), logits[:, experts:])


def _shared(mlp: SparseMlp, h: Tensor) -> Tensor:
    return linear(swiglu(linear(h, mlp.shared_gate_up)), mlp.shared_down)
