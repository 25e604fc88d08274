"""Numeric formats of a device: torch's names for them, and which one a processor does best.

The choice follows from the processor alone, never from a stopwatch: the format changes the numbers, and a greedy
request must give the same answer after a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch

from ninfer.config.geometry import NumericFormat
from ninfer.kernels.linear import can_pack

TORCH_DTYPES: dict[NumericFormat, torch.dtype] = {
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}


def choose_format(wanted: NumericFormat | Literal["auto"]) -> NumericFormat:
    """'auto': BF16 where the processor multiplies it in hardware and weights can be packed for that, else FP32."""
    if wanted != "auto":
        return wanted
    return "bfloat16" if can_pack() and _multiplies_bfloat16() else "float32"


def _multiplies_bfloat16() -> bool:
    """AVX512-BF16 or AMX. Elsewhere BF16 is emulated, and FP32 is faster."""
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    found: list[Callable[[], bool]] = [getattr(torch.cpu, name) for name in probes if hasattr(torch.cpu, name)]
    return any(probe() for probe in found)
