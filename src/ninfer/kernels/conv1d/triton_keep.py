"""Triton: what a prefill keeps of its rows at its cuts and its end: raw columns of the convolution, hidden rows."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ninfer.kernels.span import SpanNumbers


def keep_columns(m: Tensor, columns: Tensor, span: SpanNumbers) -> None:
    """m [>= T, >= C] raw columns, newest last; `columns` [slots, K - 1, C] of one layer.

    Each cut's slot gets the K - 1 columns before it, those of the read slot where the chunk is shorter; the write slot,
    which may be the read slot, comes last.
    """
    _, kept, channels = columns.shape
    block = min(triton.next_power_of_2(channels), 512)
    _keep_columns[(triton.cdiv(channels, block),)](
        m, m.stride(0), columns, columns.stride(0), span.head, span.cuts, span.cuts.shape[0], channels,
        KEPT=kept, BLOCK=block, num_warps=4,
    )  # fmt: skip


def keep_rows(hidden: Tensor, tail: Tensor, span: SpanNumbers) -> None:
    """The row of `hidden` [>= T, H] before each cut goes to the cut's slot of `tail` [slots, H]."""
    width = hidden.shape[1]
    block = min(triton.next_power_of_2(width), 1024)
    _keep_rows[(span.cuts.shape[0], triton.cdiv(width, block))](
        hidden, hidden.stride(0), tail, tail.stride(0), span.cuts, width, BLOCK=block, num_warps=4
    )


@triton.jit(do_not_specialize=["cut_count"])
def _keep_columns(
    m, m_stride, columns, slot_stride, head, cuts, cut_count, channels, KEPT: tl.constexpr, BLOCK: tl.constexpr
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = at < channels
    read = tl.load(head + 2)
    before = columns + tl.maximum(read, 0).to(tl.int64) * slot_stride + at
    for cut in range(cut_count):
        offset, slot = tl.load(cuts + 2 * cut), tl.load(cuts + 2 * cut + 1)
        target = columns + tl.maximum(slot, 0).to(tl.int64) * slot_stride + at
        wanted = live & (slot >= 0)
        for column in tl.static_range(KEPT):  # rising: in the read slot itself, each is read before it is overwritten
            source = offset - KEPT + column
            new = tl.load(
                m + tl.maximum(source, 0).to(tl.int64) * m_stride + at, mask=wanted & (source >= 0), other=0.0
            )
            ahead = wanted & (source < 0) & (read >= 0)
            old = tl.load(before + (source + KEPT) * channels, mask=ahead, other=0.0)
            value = tl.where(source >= 0, new.to(columns.dtype.element_ty), old)
            tl.store(target + column * channels, value, mask=wanted)


@triton.jit
def _keep_rows(hidden, hidden_stride, tail, slot_stride, cuts, width, BLOCK: tl.constexpr):
    cut = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    offset, slot = tl.load(cuts + 2 * cut), tl.load(cuts + 2 * cut + 1)
    live = (at < width) & (slot >= 0)
    row = hidden + tl.maximum(offset - 1, 0).to(tl.int64) * hidden_stride + at
    value = tl.load(row, mask=live, other=0.0)
    tl.store(tail + tl.maximum(slot, 0).to(tl.int64) * slot_stride + at, value.to(tail.dtype.element_ty), mask=live)
