"""Operator `linear`: y = x W^T for every weight format; model code sees none (settled decision 20).

Formula: y[n, o] = sum_i x[n, i] * W[o, i], accumulated in FP32 or wider.
Shapes: x [N, in] (rows may be strided), weight over [out, in], y [N, out].
Dtypes: x and y in the activations' format (FP32, FP64). A BF16 weight takes x rounded to BF16 and rounds y to BF16
once (`linear_rounded` leaves y in BF16 for a neighbour that rounds again anyway); weights in the activations' format
round nothing.
State written: none. Aliasing: `add_linear_` adds into `target` in place; `target` must not share memory with x.

A fused projection is one weight whose parts are consecutive output rows; the caller slices y.
"""

from __future__ import annotations

from torch import Tensor

from .dense import DenseWeight, can_pack

__all__ = ["DenseWeight", "add_linear_", "can_pack", "linear", "linear_rounded"]


def linear(x: Tensor, weight: DenseWeight) -> Tensor:
    """x [N, in] -> [N, out]."""
    return weight.multiply(x)


def linear_rounded(x: Tensor, weight: DenseWeight) -> Tensor:
    """x [N, in], in the activations' or the weight's format -> [N, out] in the weight's format."""
    return weight.multiply_rounded(x)


def add_linear_(target: Tensor, x: Tensor, weight: DenseWeight) -> Tensor:
    """target [N, out] += x W^T, in place; x in the activations' or the weight's format."""
    return weight.multiply_add_(target, x)
