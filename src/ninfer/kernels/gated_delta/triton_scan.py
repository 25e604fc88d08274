"""Triton route of the scan: chunks of 64 tokens, prepared all at once by two kernels, then a short chain over chunks.

With G the running sum of log_decay inside a chunk, the errors u solve (I + A) u = beta v - beta exp(G) k S0,
A[i, j] = beta_i (k_i . k_j) exp(G_i - G_j) for j < i. The first kernel inverts I + A (not by powers of A, which may be
huge where its inverse is not) and leaves the masked products of queries and keys as well. The second, which must not
see how the inverse came about (docs/log.md), leaves U = (I + A)^-1 beta v and W = (I + A)^-1 beta exp(G) k. The third
carries S [Dk, part of Dv] in FP32 registers from chunk to chunk:
u = U - W S; o = exp(G) q S + inner u; S = exp(G_end) S + (exp(G_end - G) k)^T u.
Matrix products take operands in the format of q, k, v and add in FP32. A cut ends a chunk; where it has a slot, the
state leaves the registers on its way.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from ninfer.kernels.span import CHUNK_TOKENS, SpanNumbers

from .inputs import DeltaInputs
from .triton_invert import choose_inversion, invert_unit_lower


@dataclass(frozen=True, slots=True)
class ScanTiles:
    """How the chain over chunks is cut: columns of S a program carries, chunks in flight, warps."""

    part: int = 32
    stages: int = 3
    warps: int = 4

    @staticmethod
    def choose(heads: int, width: int) -> ScanTiles:
        """As narrow as lets all programs run at once (H200: 132); measured in bench/results."""
        return ScanTiles() if heads * width <= 132 * 32 else ScanTiles(64, 2, 4)


def scan_chunks(
    inputs: DeltaInputs, states: Tensor, span: SpanNumbers, rows: int, tiles: ScanTiles | None = None
) -> Tensor:
    """As `delta_scan`, with inputs of `scan_inputs` -> o [rows, Hv, Dv] in v's format; rows that are no tokens are not
    written. `states` FP32, a view of one layer.
    """
    q, k, v = inputs.q, inputs.k, inputs.v
    value_heads, width = v.shape[1:]
    chosen, chunks = tiles or ScanTiles.choose(value_heads, width), span.chunks.shape[0]
    out = torch.empty(rows, value_heads, width, dtype=v.dtype, device=v.device)
    solved, carried = torch.empty_like(v), torch.empty_like(v)
    inner = torch.empty(chunks, value_heads, CHUNK_TOKENS, CHUNK_TOKENS, dtype=v.dtype, device=v.device)
    total = torch.empty(chunks, value_heads, CHUNK_TOKENS, dtype=torch.float32, device=v.device)
    shape = {
        "KEY_HEADS": k.shape[1],
        "VALUE_HEADS": value_heads,
        "WIDTH": width,
        "CHUNK": CHUNK_TOKENS,
        "PRECISION": "ieee" if v.dtype == torch.float32 else "tf32",
    }
    inverses = torch.empty(chunks, value_heads, CHUNK_TOKENS, CHUNK_TOKENS, dtype=v.dtype, device=v.device)
    _invert_chunk[(chunks, value_heads)](
        q, k, inputs.log_decay, inputs.beta, inverses, inner, total, span.chunks,
        WAY=choose_inversion(k.dtype), **shape, num_warps=4,
    )  # fmt: skip
    _solve_chunk[(chunks, value_heads)](
        k, v, inputs.beta, inverses, total, solved, carried, span.chunks, **shape, num_warps=4
    )
    part = min(chosen.part, width)
    _chain_chunks[(value_heads, width // part)](
        q, k, solved, carried, inner, total, out, states, states.stride(0), span.head, span.chunks,
        PART=part, **shape, num_warps=chosen.warps, num_stages=chosen.stages,
    )  # fmt: skip
    return out


@triton.jit
def _invert_chunk(
    q,
    k,
    log_decay,
    beta,
    inverses,
    inner,
    total,
    chunks,
    WAY: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    chunk, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    key_head = head // (VALUE_HEADS // KEY_HEADS)
    inside, at = tl.arange(0, CHUNK), tl.arange(0, WIDTH)
    count = tl.load(chunks + 4 * chunk + 1)
    if count == 0:
        return  # nobody walks there
    token = chunk * CHUNK + inside
    live = inside < count
    key_place = (token[:, None] * KEY_HEADS + key_head) * WIDTH + at[None, :]
    keys = tl.load(k + key_place, mask=live[:, None], other=0.0)
    strength = tl.load(beta + token * VALUE_HEADS + head, mask=live, other=0.0)
    decay = tl.cumsum(tl.load(log_decay + token * VALUE_HEADS + head, mask=live, other=0.0), 0)
    tl.store(total + (chunk * VALUE_HEADS + head) * CHUNK + inside, decay)
    below = inside[:, None] > inside[None, :]
    same = inside[:, None] == inside[None, :]
    # exp only of differences that are <= 0: above the diagonal they are positive and may overflow
    ratio = tl.exp(tl.where(below, decay[:, None] - decay[None, :], 0.0))
    system = tl.dot(keys, tl.trans(keys), input_precision=PRECISION) * ratio * strength[:, None]
    queries = tl.load(q + key_place, mask=live[:, None], other=0.0)
    seen = tl.where(below | same, tl.dot(queries, tl.trans(keys), input_precision=PRECISION) * ratio, 0.0)
    block = (chunk * VALUE_HEADS + head) * CHUNK * CHUNK + inside[:, None] * CHUNK + inside[None, :]
    tl.store(inner + block, seen.to(inner.dtype.element_ty))
    inverse = invert_unit_lower(tl.where(below, system, 0.0), CHUNK, WAY)
    tl.store(inverses + block, inverse.to(inverses.dtype.element_ty))


@triton.jit
def _solve_chunk(
    k,
    v,
    beta,
    inverses,
    total,
    solved,
    carried,
    chunks,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    chunk, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    key_head = head // (VALUE_HEADS // KEY_HEADS)
    inside, at = tl.arange(0, CHUNK), tl.arange(0, WIDTH)
    count = tl.load(chunks + 4 * chunk + 1)
    if count == 0:
        return
    token = chunk * CHUNK + inside
    live = inside < count
    place = (token[:, None] * VALUE_HEADS + head) * WIDTH + at[None, :]
    strength = tl.load(beta + token * VALUE_HEADS + head, mask=live, other=0.0)
    decay = tl.load(total + (chunk * VALUE_HEADS + head) * CHUNK + inside)
    block = (chunk * VALUE_HEADS + head) * CHUNK * CHUNK + inside[:, None] * CHUNK + inside[None, :]
    inverse = tl.load(inverses + block)
    values = tl.load(v + place, mask=live[:, None], other=0.0).to(tl.float32) * strength[:, None]
    u = tl.dot(inverse, values.to(inverse.dtype), input_precision=PRECISION)
    tl.store(solved + place, u.to(solved.dtype.element_ty))
    key_place = (token[:, None] * KEY_HEADS + key_head) * WIDTH + at[None, :]
    keys = tl.load(k + key_place, mask=live[:, None], other=0.0)
    grown = keys.to(tl.float32) * (strength * tl.exp(decay))[:, None]
    w = tl.dot(inverse, grown.to(keys.dtype), input_precision=PRECISION)
    tl.store(carried + place, w.to(carried.dtype.element_ty))


@triton.jit
def _chain_chunks(
    q,
    k,
    solved,
    carried,
    inner,
    total,
    out,
    states,
    state_stride,
    span,
    chunks,
    PART: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    head = tl.program_id(0)
    key_head = head // (VALUE_HEADS // KEY_HEADS)
    inside, at = tl.arange(0, CHUNK), tl.arange(0, WIDTH)
    column = tl.program_id(1) * PART + tl.arange(0, PART)
    matrix = head * WIDTH * WIDTH + at[:, None] * WIDTH + column[None, :]
    read = tl.load(span + 2)
    source = states + tl.maximum(read, 0).to(tl.int64) * state_stride + matrix
    state = tl.load(source, mask=(read >= 0) & (matrix >= 0), other=0.0)
    for chunk in range(tl.load(span + 4)):
        row = (chunk * CHUNK + inside).to(tl.int64)
        key_place = (row[:, None] * KEY_HEADS + key_head) * WIDTH + at[None, :]
        wide_place = (row[:, None] * VALUE_HEADS + head) * WIDTH + at[None, :]
        place = (row[:, None] * VALUE_HEADS + head) * WIDTH + column[None, :]
        decay = tl.load(total + (chunk * VALUE_HEADS + head) * CHUNK + inside)
        end = tl.min(decay, 0)  # log_decay <= 0: the last one is the least
        block = inner + (chunk * VALUE_HEADS + head).to(tl.int64) * CHUNK * CHUNK
        w = tl.load(carried + wide_place)
        rounded = state.to(w.dtype)
        error = tl.load(solved + place).to(tl.float32)
        error -= tl.dot(w, rounded, input_precision=PRECISION)
        queries = tl.load(q + key_place)
        o = tl.dot(queries, rounded, input_precision=PRECISION) * tl.exp(decay)[:, None]
        seen = tl.load(block + inside[:, None] * CHUNK + inside[None, :])
        o += tl.dot(seen, error.to(w.dtype), input_precision=PRECISION)
        token = tl.load(chunks + 4 * chunk) + inside.to(tl.int64)
        live = inside < tl.load(chunks + 4 * chunk + 1)
        target = (token[:, None] * VALUE_HEADS + head) * WIDTH + column[None, :]
        tl.store(out + target, o.to(out.dtype.element_ty), mask=live[:, None])
        keys = tl.load(k + key_place)
        faded = error * tl.exp(end - decay)[:, None]
        state = state * tl.exp(end)
        state += tl.dot(tl.trans(keys), faded.to(w.dtype), input_precision=PRECISION)
        slot = tl.load(chunks + 4 * chunk + 2)
        if slot >= 0:
            tl.store(states + slot.to(tl.int64) * state_stride + matrix, state)
    tl.store(states + tl.load(span + 3).to(tl.int64) * state_stride + matrix, state)
