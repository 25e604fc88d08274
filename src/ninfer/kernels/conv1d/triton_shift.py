"""Triton: the kept columns of all layers move on by one token, once a decode step."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


def shift_columns(newest: Tensor, columns: Tensor, read: Tensor, write: Tensor) -> None:
    """newest [layers, B, >= C]: the raw columns of this step come first in a row; columns [slots, layers, K - 1, C].

    The write slots (int32 [B]) get the last K - 2 columns of the read slots and the newest. A row's slots may be equal.
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
    BLOCK: tl.constexpr,
):
    layer, row = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    live = at < channels
    source = columns + tl.load(read_slots + row).to(tl.int64) * slot_stride + layer * layer_stride + at
    target = columns + tl.load(write_slots + row).to(tl.int64) * slot_stride + layer * layer_stride + at
    for column in tl.static_range(KEPT - 1):
        tl.store(target + column * channels, tl.load(source + (column + 1) * channels, mask=live), mask=live)
    fresh = tl.load(newest + layer * newest_layer_stride + row * newest_row_stride + at, mask=live)
    tl.store(target + (KEPT - 1) * channels, fresh.to(columns.dtype.element_ty), mask=live)
