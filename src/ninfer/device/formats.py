"""Numeric formats of a device: torch's names for them, and which one a processor does best.

The choice follows from the machine alone, never from a stopwatch: the format changes the numbers, and a greedy
request must give the same answer after a restart.
"""

from __future__ import annotations

from typing import Literal

import torch

from ninfer.config.geometry import KvFormat, NumericFormat
from ninfer.kernels.linear import can_pack

TORCH_DTYPES: dict[NumericFormat, torch.dtype] = {
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}
KV_DTYPES: dict[KvFormat, torch.dtype] = {"fp8": torch.float8_e4m3fn, "int8": torch.int8}
"""Formats of KV pages whose numbers have scales."""


def choose_format(wanted: NumericFormat | Literal["auto"]) -> NumericFormat:
    """'auto': BF16 where its weights can be packed, since reading weights is most of a decode step; else FP32."""
    if wanted != "auto":
        return wanted
    return "bfloat16" if can_pack() else "float32"
