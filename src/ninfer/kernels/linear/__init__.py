"""Operator `linear`: y = x W^T for every weight format; model code sees none (settled decision 20).

Formula: y[n, o] = sum_i x[n, i] * W[o, i], accumulated in FP32 or wider.
Shapes: x [N, in] (rows may be strided), weight over [out, in], y [N, out].
Dtypes: x and y in the activations' format (FP32, FP64), the weight in its own (BF16, FP32, FP64). A BF16 weight that is
not packed rounds x and y to BF16 once.
State written: none. Aliasing: `add_linear_` adds into `target` in place; `target` must not share memory with x.

A fused projection is one weight whose parts are consecutive output rows; the caller slices y.
"""

from __future__ import annotations

from torch import Tensor

from .dense import DenseWeight, can_pack

__all__ = ["DenseWeight", "add_linear_", "can_pack", "linear"]


def linear(x: Tensor, weight: DenseWeight) -> Tensor:
    """x [N, in] -> [N, out]."""
    return weight.multiply(x)


def add_linear_(target: Tensor, x: Tensor, weight: DenseWeight) -> Tensor:
    """target [N, out] += x W^T, in place."""
    return weight.multiply_add_(target, x)
