"""Products of a few rows on a GPU: the measured route for each form, by what the weight's memory allows."""

from __future__ import annotations

from torch import Tensor

from ninfer.kernels.swiglu.triton_swiglu import swiglu

from .dense import DenseWeight
from .triton_rows import multiply_parts, multiply_rows, multiply_rows_gated

_GATED_BYTES = 200_000_000
"""Of a gate|up weight: above, two kernels around cuBLAS's product are faster than one (NOTES.md)."""


def multiply_few(x: Tensor, weight: DenseWeight, out: Tensor | None = None) -> Tensor:
    """x [B, in] -> [B, out]."""
    rows = weight.find_rows()
    if rows is not None:
        return multiply_rows(x, rows, out)
    y = weight.multiply(x)
    return y if out is None else out.copy_(y)


def multiply_few_gated(x: Tensor, weight: DenseWeight) -> Tensor:
    """x [B, in], weight gate|up -> silu(gate) * up, [B, out / 2]."""
    rows = weight.find_rows()
    if rows is None or rows.numel() * rows.element_size() > _GATED_BYTES:
        return swiglu(weight.multiply(x))
    return multiply_rows_gated(x, rows)


def multiply_few_parts(x: Tensor, weight: DenseWeight) -> Tensor:
    """x [B, in] -> what `add_norm` adds to the residual: partial sums FP32 [parts, B, out], or the product."""
    rows = weight.find_rows()
    return weight.multiply(x) if rows is None else multiply_parts(x, rows)
