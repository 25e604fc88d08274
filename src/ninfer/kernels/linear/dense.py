"""Weights of plain numbers, and the order in which the CPU reads them fastest.

FP32 and FP64 lie as [in, out]: with few rows of x that is one pass over memory, twice as fast as [out, in]. BF16 is
packed for oneDNN where the processor multiplies BF16 itself: half the memory traffic, and a batch of eight rows costs
little more than one. Small BF16 weights are kept widened to FP32: there the call costs more than the memory.
"""

from __future__ import annotations

import torch
from torch import Tensor

_TYPICAL_ROWS = 4
"""Rows the packed order is chosen for; other counts run, some slower."""

_SMALL_ELEMENTS = 1 << 16
"""BF16 weights up to here are held in FP32."""


def can_pack() -> bool:
    """Whether BF16 weights can be packed on this machine."""
    known = hasattr(torch.ops.mkldnn, "_reorder_linear_weight") and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return known and torch.backends.mkldnn.is_available() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


class DenseWeight:
    """A weight over [out, in]. A loader fills `rows`, then calls `pack` once; then it is read only."""

    __slots__ = ("_matrix", "_packed", "dtype", "in_features", "out_features")

    def __init__(self, out_features: int, in_features: int, dtype: torch.dtype) -> None:
        self.out_features, self.in_features = out_features, in_features
        if dtype == torch.bfloat16 and out_features * in_features <= _SMALL_ELEMENTS:
            dtype = torch.float32
        self.dtype = dtype
        if dtype == torch.bfloat16 and can_pack():
            self._matrix = torch.empty(out_features, in_features, dtype=dtype).t()
        else:
            self._matrix = torch.empty(in_features, out_features, dtype=dtype)
        self._packed: Tensor | None = None

    def rows(self, start: int, stop: int) -> Tensor:
        """View [stop - start, in] of output rows, in the order of a checkpoint file; before `pack` only."""
        assert self._packed is None
        return self._matrix[:, start:stop].t()

    def pack(self, *, keep_rows: bool = False) -> None:
        """Bring a filled weight into its fast order. `keep_rows`: somebody still reads the views `rows` gave."""
        if self.dtype == torch.bfloat16 and can_pack():
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self._matrix.t(), _TYPICAL_ROWS)
            if not keep_rows:
                self._matrix = torch.empty(0, 0, dtype=self.dtype)

    def multiply(self, x: Tensor) -> Tensor:
        """x [N, in] -> a fresh [N, out] in x's dtype."""
        return self.multiply_rounded(x).to(x.dtype)

    def multiply_rounded(self, x: Tensor) -> Tensor:
        """x [N, in] -> a fresh [N, out] in the weight's dtype."""
        rounded = x.to(self.dtype)
        if self._packed is None:
            return torch.mm(rounded, self._matrix)
        result: Tensor = torch.ops.mkldnn._linear_pointwise(rounded, self._packed, None, "none", [], "")
        return result

    def multiply_add_(self, target: Tensor, x: Tensor) -> Tensor:
        """target [N, out] += x W^T."""
        if target.dtype == self.dtype:
            return target.addmm_(x, self._matrix)
        return target.add_(self.multiply_rounded(x))
