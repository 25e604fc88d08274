"""Weights of plain numbers, and the order in which the CPU reads them fastest.

FP32 and FP64 lie as [in, out]: with few rows of x that is one pass over memory, twice as fast as [out, in].

BF16 is packed for FBGEMM's product of FP32 rows with 16-bit weights where torch has it (x86): half the memory of FP32,
no rounding of x or y, and each row's result is the same bits in a batch of any size. FBGEMM stores FP16, which holds
every BF16 number from 2^-14 to 65504 exactly; smaller ones to within 2^-25, larger ones are never packed.
"""

from __future__ import annotations

import torch
from torch import Tensor

_LARGEST_FP16 = 65504.0
_ALIGNED_FEATURES = 8
"""On a GPU the result's rows are aligned to 16 bytes: with an odd count (a router's) a product takes several times
as long."""
_BLOCK_ELEMENTS = 1 << 24
"""Packing passes through FP32: larger weights are packed in blocks of output rows, so that little of it exists."""


def can_pack() -> bool:
    """Whether BF16 weights can be packed here."""
    return "fbgemm" in torch.backends.quantized.supported_engines and hasattr(
        torch.ops.quantized, "linear_dynamic_fp16"
    )


class DenseWeight:
    """A weight over [out, in]. A loader fills `rows`, then calls `pack` once; then it is read only."""

    __slots__ = ("_matrix", "_packed", "dtype", "in_features", "out_features")

    def __init__(self, out_features: int, in_features: int, dtype: torch.dtype) -> None:
        self.out_features, self.in_features, self.dtype = out_features, in_features, dtype
        if dtype == torch.bfloat16:
            aligned = out_features
            if torch.get_default_device().type == "cuda":
                aligned = -(-out_features // _ALIGNED_FEATURES) * _ALIGNED_FEATURES
            self._matrix = torch.empty(aligned, in_features, dtype=dtype).t()
            self._matrix[:, out_features:].zero_()
        else:
            self._matrix = torch.empty(in_features, out_features, dtype=dtype)
        self._packed: tuple[torch.ScriptObject, ...] = ()

    def rows(self, start: int, stop: int) -> Tensor:
        """View [stop - start, in] of output rows, in the order of a checkpoint file; before `pack` only."""
        return self._matrix[:, start:stop].t()

    def pack(self, *, keep_rows: bool = False) -> None:
        """Bring a filled weight into its fast order. `keep_rows`: somebody still reads the views `rows` gave."""
        if self.dtype != torch.bfloat16 or self._matrix.is_cuda or not can_pack() or not self._fits_fp16():
            return
        blocks = self._matrix.t().split(max(_BLOCK_ELEMENTS // self.in_features, 1))
        self._packed = tuple(torch.ops.quantized.linear_prepack_fp16(block.float(), None) for block in blocks)
        if not keep_rows:
            self._matrix = torch.empty(0, 0, dtype=self.dtype)

    def _fits_fp16(self) -> bool:
        low, high = self._matrix.aminmax()
        return float(low) >= -_LARGEST_FP16 and float(high) <= _LARGEST_FP16

    def multiply(self, x: Tensor) -> Tensor:
        """x [N, in] -> a fresh [N, out] in x's dtype."""
        if len(self._packed) == 1:
            result: Tensor = torch.ops.quantized.linear_dynamic_fp16(x, self._packed[0])
            return result
        if self._packed:
            return torch.cat([torch.ops.quantized.linear_dynamic_fp16(x, block) for block in self._packed], -1)
        if x.dtype == self.dtype:
            return self._cut(torch.mm(x, self._matrix))
        return self._cut(torch.mm(x.to(self.dtype), self._matrix)).to(x.dtype)

    def find_rows(self) -> Tensor | None:
        """[out, in] where the inputs of one output lie together in memory, not packed; else None."""
        if self._packed or self.dtype != torch.bfloat16:
            return None
        return self.rows(0, self.out_features)

    def _cut(self, y: Tensor) -> Tensor:
        """Without the outputs that only fill up."""
        return y if y.shape[1] == self.out_features else y[:, : self.out_features]

    def multiply_add_(self, target: Tensor, x: Tensor) -> Tensor:
        """target [N, out] += x W^T."""
        if not self._packed and target.dtype == self.dtype and self._matrix.shape[1] == self.out_features:
            return target.addmm_(x, self._matrix)
        return target.add_(self.multiply(x))
