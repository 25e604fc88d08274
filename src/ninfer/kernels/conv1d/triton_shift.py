"""Triton: the kept columns of all layers move on by the tokens of a step, once for all layers."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


def shift_columns(newest: Tensor, columns: Tensor, read: Tensor, write: Tensor) -> None:
    """newest [layers, N, >= C]: the raw columns of this step come first in a row; columns [slots, layers, K - 1, C].

    Read slots int32 [B], write slots int32 [N]: each gets the last K - 1 columns up to its token; negative: none. With
    one token a row (N = B) both may be equal, with more no write slot is a read slot.
    """
    layers, batch, _ = newest.shape
    _, _, kept, channels = columns.shape
    block = min(triton.next_power_of_2(channels), 1024)
    _shift[(layers, batch, triton.cdiv(channels, block))](
        newest,
        newest.stride(0),
        newest.stride(1),
        columns,
        columns.stride(0),
        columns.stride(1),
        read,
        write,
        channels,
        KEPT=kept,
        TOKENS=batch // read.shape[0],
        BLOCK=block,
        num_warps=4,
    )


@triton.jit
def _shift(
    newest,
    newest_layer_stride,
    newest_row_stride,
    columns,
    slot_stride,
    layer_stride,
    read_slots,
    write_slots,
    channels,
    KEPT: tl.constexpr,
    TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    layer, row = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    live = at < channels
    write = tl.load(write_slots + row).to(tl.int64)
    if TOKENS > 1:
        live = live & (write >= 0)
    source = columns + tl.load(read_slots + row // TOKENS).to(tl.int64) * slot_stride + layer * layer_stride + at
    target = columns + write * slot_stride + layer * layer_stride + at
    fresh = newest + layer * newest_layer_stride + row * newest_row_stride + at
    for column in tl.static_range(KEPT):
        if TOKENS == 1:
            if column < KEPT - 1:
                moved = tl.load(source + (column + 1) * channels, mask=live)
            else:
                moved = tl.load(fresh, mask=live).to(columns.dtype.element_ty)
        else:  # of a token KEPT - 1 - column before the row's own: kept from earlier, or of this step
            before = row % TOKENS < KEPT - 1 - column
            old = tl.load(source + (column + 1 + row % TOKENS) * channels, mask=live & before, other=0.0)
            new = tl.load(fresh - (KEPT - 1 - column) * newest_row_stride, mask=live & (before == 0), other=0.0)
            moved = tl.where(before, old, new.to(columns.dtype.element_ty))
        tl.store(target + column * channels, moved, mask=live)
