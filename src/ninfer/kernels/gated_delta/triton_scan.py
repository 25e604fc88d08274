"""Triton route of the scan: chunks of 64 tokens, prepared all at once, then a short chain over chunks.

With G the running sum of log_decay inside a chunk, the errors u solve (I + A) u = beta v - beta exp(G) k S0,
A[i, j] = beta_i (k_i . k_j) exp(G_i - G_j) for j < i. The first kernel inverts I + A by forward substitution (powers
of A may be huge where its inverse is not) and leaves U = (I + A)^-1 beta v, W = (I + A)^-1 beta exp(G) k and the
masked products of queries and keys. The second carries S [Dk, part of Dv] in FP32 registers from chunk to chunk:
u = U - W S; o = exp(G) q S + inner u; S = exp(G_end) S + (exp(G_end - G) k)^T u.
Matrix products take operands in the format of q, k, v and add in FP32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from .inputs import DeltaInputs

CHUNK_TOKENS = 64


@dataclass(frozen=True, slots=True)
class ScanTiles:
    """How the chain over chunks is cut: columns of S a program carries, chunks in flight, warps."""

    part: int = 32
    stages: int = 2
    warps: int = 4


def scan_chunks(
    inputs: DeltaInputs,
    states: Tensor,
    read_slot: int | None,
    write_slot: int,
    cuts: Sequence[tuple[int, int | None]] = (),
    tiles: ScanTiles | None = None,
) -> Tensor:
    """As `delta_scan`, but q is scaled already -> o [T, Hv, Dv] in v's format; states FP32, a view of one layer."""
    tokens = inputs.v.shape[0]
    out = torch.empty_like(inputs.v)
    source = read_slot
    start = 0
    for offset, slot in (*cuts, (tokens, write_slot)):
        # A cut without a slot keeps its state in the write slot: what the next piece reads.
        target = write_slot if slot is None else slot
        if offset > start:
            _scan_piece(inputs, out, states, start, offset, source, target, tiles or ScanTiles())
            start = offset
        elif target != source:
            states[target].copy_(states[source] if source is not None else torch.zeros_like(states[target]))
        source = target
    return out


def _scan_piece(
    inputs: DeltaInputs,
    out: Tensor,
    states: Tensor,
    start: int,
    stop: int,
    read_slot: int | None,
    write_slot: int,
    tiles: ScanTiles,
) -> None:
    q, k, v = (x[start:stop] for x in (inputs.q, inputs.k, inputs.v))
    tokens, value_heads, width = v.shape
    key_heads = k.shape[1]
    chunks = triton.cdiv(tokens, CHUNK_TOKENS)
    solved, carried = torch.empty_like(v), torch.empty_like(v)
    inner = torch.empty(chunks, value_heads, CHUNK_TOKENS, CHUNK_TOKENS, dtype=v.dtype, device=v.device)
    total = torch.empty(chunks, value_heads, CHUNK_TOKENS, dtype=torch.float32, device=v.device)
    shape = {
        "KEY_HEADS": key_heads,
        "VALUE_HEADS": value_heads,
        "WIDTH": width,
        "CHUNK": CHUNK_TOKENS,
        "PRECISION": "ieee" if v.dtype == torch.float32 else "tf32",
    }
    _solve_chunk[(chunks, value_heads)](
        q, k, v, inputs.log_decay[start:stop], inputs.beta[start:stop], solved, carried, inner, total, tokens,
        **shape, num_warps=4,
    )  # fmt: skip
    part = min(tiles.part, width)
    _chain_chunks[(value_heads, width // part)](
        q, k, solved, carried, inner, total, out[start:stop], states,
        states.stride(0), 0 if read_slot is None else read_slot, write_slot, tokens,
        HAS_STATE=read_slot is not None, PART=part, **shape, num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip


@triton.jit(do_not_specialize=["tokens"])
def _solve_chunk(
    q,
    k,
    v,
    log_decay,
    beta,
    solved,
    carried,
    inner,
    total,
    tokens,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    chunk, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    key_head = head // (VALUE_HEADS // KEY_HEADS)
    inside, at = tl.arange(0, CHUNK), tl.arange(0, WIDTH)
    token = chunk * CHUNK + inside
    live = token < tokens
    key_place = (token[:, None] * KEY_HEADS + key_head) * WIDTH + at[None, :]
    place = (token[:, None] * VALUE_HEADS + head) * WIDTH + at[None, :]
    keys = tl.load(k + key_place, mask=live[:, None], other=0.0)
    strength = tl.load(beta + token * VALUE_HEADS + head, mask=live, other=0.0)
    decay = tl.cumsum(tl.load(log_decay + token * VALUE_HEADS + head, mask=live, other=0.0), 0)
    tl.store(total + (chunk * VALUE_HEADS + head) * CHUNK + inside, decay)
    below = inside[:, None] > inside[None, :]
    same = inside[:, None] == inside[None, :]
    # exp only of differences that are <= 0: above the diagonal they are positive and may overflow
    ratio = tl.exp(tl.where(below, decay[:, None] - decay[None, :], 0.0))
    system = tl.dot(keys, tl.trans(keys), input_precision=PRECISION) * ratio * strength[:, None]
    inverse = tl.where(below, -system, 0.0)
    for i in range(1, CHUNK):
        row = tl.sum(tl.where((inside == i)[:, None], inverse, 0.0), 0)
        row = row + tl.sum(row[:, None] * inverse, 0)
        inverse = tl.where((inside == i)[:, None], row[None, :], inverse)
    inverse = (inverse + tl.where(same, 1.0, 0.0)).to(keys.dtype)
    values = tl.load(v + place, mask=live[:, None], other=0.0).to(tl.float32) * strength[:, None]
    u = tl.dot(inverse, values.to(keys.dtype), input_precision=PRECISION)
    tl.store(solved + place, u.to(solved.dtype.element_ty), mask=live[:, None])
    grown = keys.to(tl.float32) * (strength * tl.exp(decay))[:, None]
    w = tl.dot(inverse, grown.to(keys.dtype), input_precision=PRECISION)
    tl.store(carried + place, w.to(carried.dtype.element_ty), mask=live[:, None])
    queries = tl.load(q + key_place, mask=live[:, None], other=0.0)
    seen = tl.where(below | same, tl.dot(queries, tl.trans(keys), input_precision=PRECISION) * ratio, 0.0)
    block = inner + (chunk * VALUE_HEADS + head) * CHUNK * CHUNK
    tl.store(block + inside[:, None] * CHUNK + inside[None, :], seen.to(inner.dtype.element_ty))


@triton.jit(do_not_specialize=["read_slot", "write_slot", "tokens"])
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
    read_slot,
    write_slot,
    tokens,
    HAS_STATE: tl.constexpr,
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
    if HAS_STATE:
        state = tl.load(states + tl.cast(read_slot, tl.int64) * state_stride + matrix)
    else:
        state = tl.zeros([WIDTH, PART], tl.float32)
    for chunk in range(tl.cdiv(tokens, CHUNK)):
        token = (chunk * CHUNK + inside).to(tl.int64)
        live = (token < tokens)[:, None]
        key_place = (token[:, None] * KEY_HEADS + key_head) * WIDTH + at[None, :]
        wide_place = (token[:, None] * VALUE_HEADS + head) * WIDTH + at[None, :]
        place = (token[:, None] * VALUE_HEADS + head) * WIDTH + column[None, :]
        decay = tl.load(total + (chunk * VALUE_HEADS + head) * CHUNK + inside)
        end = tl.min(decay, 0)  # log_decay <= 0: the last one is the least
        block = inner + (chunk * VALUE_HEADS + head).to(tl.int64) * CHUNK * CHUNK
        w = tl.load(carried + wide_place, mask=live, other=0.0)
        rounded = state.to(w.dtype)
        error = tl.load(solved + place, mask=live, other=0.0).to(tl.float32)
        error -= tl.dot(w, rounded, input_precision=PRECISION)
        queries = tl.load(q + key_place, mask=live, other=0.0)
        o = tl.dot(queries, rounded, input_precision=PRECISION) * tl.exp(decay)[:, None]
        seen = tl.load(block + inside[:, None] * CHUNK + inside[None, :])
        o += tl.dot(seen, error.to(w.dtype), input_precision=PRECISION)
        tl.store(out + place, o.to(out.dtype.element_ty), mask=live)
        keys = tl.load(k + key_place, mask=live, other=0.0)
        faded = error * tl.exp(end - decay)[:, None]
        state = state * tl.exp(end)
        state += tl.dot(tl.trans(keys), faded.to(w.dtype), input_precision=PRECISION)
    tl.store(states + tl.cast(write_slot, tl.int64) * state_stride + matrix, state)
