"""Operator `conv1d`: causal depthwise convolution over a sequence that arrives in parts, then silu.

Formula: y[t, c] = silu(sum_{i < K} w[i, c] * m[t - (K - 1) + i, c]); m before the first token of the call are the
columns kept in the read slot, zeros for the empty state.
Shapes: m [T, C] (scan, one sequence) or [B, C] (step, one token of B sequences); weight [K, C], tap K - 1 is the
current token; columns [slots, K - 1, C], oldest first (a view of the StateImages of one layer).
Dtypes: m, weight and y in the activations' format (FP32, FP64), columns in the model's format. m is rounded to the
columns' format before anything else, so that where the parts meet changes nothing.
State written: the write slot gets the last K - 1 raw columns; a cut at offset n with a slot gets those after n tokens.
Aliasing: read and write slot may be equal; else the read slot is left as it is. Slots of different rows of a step
are different.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import silu

from ninfer.kernels.slots import StepSlots, load_rows, store_rows


def conv_scan(
    m: Tensor,
    weight: Tensor,
    columns: Tensor,
    read_slot: int | None,
    write_slot: int,
    cuts: Sequence[tuple[int, int | None]] = (),
) -> Tensor:
    """One sequence, T tokens -> [T, C]. `cuts`: (offset, slot)."""
    taps, tokens = weight.shape[0], m.shape[0]
    before = columns.new_zeros(columns.shape[1:]) if read_slot is None else columns[read_slot]
    window = torch.cat([before, m.to(columns.dtype)]).to(weight.dtype)
    for offset, slot in cuts:
        if slot is not None:
            columns[slot].copy_(window[offset : offset + taps - 1])
    columns[write_slot].copy_(window[tokens:])
    out = window[:tokens] * weight[0]
    for tap in range(1, taps):
        out.addcmul_(window[tap : tap + tokens], weight[tap])
    return silu(out, inplace=True)


def conv_step(m: Tensor, weight: Tensor, columns: Tensor, slots: StepSlots) -> Tensor:
    """One token of B sequences -> [B, C]."""
    kept = load_rows(columns, slots)
    window = torch.cat([kept, m.to(kept.dtype).unsqueeze(1)], 1)
    kept.copy_(window[:, 1:])
    store_rows(columns, slots, kept)
    return silu((window * weight).sum(1), inplace=True)
