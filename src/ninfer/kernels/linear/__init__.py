"""Operator `linear`: y = x W^T for every weight format; model code sees none (settled decision 20).

Formula: y[n, o] = sum_i x[n, i] * W[o, i], accumulated in FP32 or wider.
Shapes: x [N, in] (rows may be strided), weight over [out, in], y [N, out].
Dtypes: x, weight and y share one of bfloat16, float32, float64 in the dense format.
State written: none. Aliasing: `add_linear_` adds into `target` in place; `target` must not share memory with x.

A fused projection is one weight whose parts are consecutive output rows; the caller slices y.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class DenseWeight:
    """A weight of plain numbers. `matrix` is [in, out], the order in which a CPU reads few rows fastest."""

    matrix: Tensor

    @staticmethod
    def empty(out_features: int, in_features: int, dtype: torch.dtype) -> DenseWeight:
        """Unwritten storage; the loader fills `rows`."""
        return DenseWeight(torch.empty(in_features, out_features, dtype=dtype))

    def rows(self, start: int, stop: int) -> Tensor:
        """View [stop - start, in] of output rows, in the order of a checkpoint file."""
        return self.matrix[:, start:stop].t()

    @property
    def out_features(self) -> int:
        return self.matrix.shape[1]


def linear(x: Tensor, weight: DenseWeight) -> Tensor:
    """x [N, in] -> [N, out]."""
    return torch.mm(x, weight.matrix)


def add_linear_(target: Tensor, x: Tensor, weight: DenseWeight) -> Tensor:
    """target [N, out] += x W^T, in place."""
    return target.addmm_(x, weight.matrix)
