"""What a KV pool is: numbers in the model's format, or one-byte numbers with a scale for each head of each token.

Knows how rows are rounded, written and read back. Which rows and blocks those are is the business of `blocks`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

PAGE_TOKENS = 64
SCALE_BYTES = 4
LARGEST: dict[torch.dtype, float] = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}
"""What the largest number of a row becomes."""


@dataclass(frozen=True, slots=True)
class ScaledPool:
    """Two views of one memory; a row's numbers are its values times its scale, FP32.

    Rounding: scale = max |x| / LARGEST (0 for a row of zeros); values = x / scale, to the nearest integer (halves
    upwards) or to the nearest FP8 number (halves to even). A row with NaN or infinity reads back as NaN.
    """

    values: Tensor
    """int8 or float8_e4m3fn [pages, layers, 2, Hk, 64, D]: blocks [64, D], each followed by its 64 scales."""
    scales: Tensor
    """float32 [pages, layers, 2, Hk, 64]."""
    compute: torch.dtype
    """The model's format, in which rows are read."""

    @property
    def shape(self) -> torch.Size:
        """Of the values."""
        return self.values.shape

    @property
    def device(self) -> torch.device:
        return self.values.device


KvPool = Tensor | ScaledPool
"""A tensor [pages, layers, 2, Hk, 64, D] in the model's format (2: keys, values), or its one-byte form."""


def split_blocks(raw: Tensor, width: int, values: torch.dtype, compute: torch.dtype) -> ScaledPool:
    """Contiguous uint8 [pages, layers, 2, Hk, 64 * (width + 4)] -> views of the same memory."""
    assert raw.is_contiguous() and raw.shape[-1] == PAGE_TOKENS * (width + SCALE_BYTES)
    split = PAGE_TOKENS * width
    numbers = raw[..., :split].view(values).unflatten(-1, (PAGE_TOKENS, width))
    return ScaledPool(numbers, raw[..., split:].view(torch.float32), compute)


def compute_dtype(pool: KvPool) -> torch.dtype:
    """The format of keys and values as attention sees them."""
    return pool.compute if isinstance(pool, ScaledPool) else pool.dtype


def round_rows(x: Tensor, values: torch.dtype) -> tuple[Tensor, Tensor]:
    """[..., D] -> one-byte numbers [..., D] and FP32 scales [...], by the rule of `ScaledPool`."""
    x = x.float()
    largest, limit = x.abs().amax(-1), LARGEST[values]
    grown = x * torch.where(largest > 0, limit / largest, 0.0).unsqueeze(-1)
    if values == torch.int8:
        grown = (grown + 0.5).floor_()
    return grown.clamp_(-limit, limit).to(values), largest / limit


def put_rows(pool: KvPool, rows: Tensor, x: Tensor) -> None:
    """Write x [n, D] at rows int64 [n] of the pool seen as [blocks * 64, D]."""
    if isinstance(pool, Tensor):
        pool.view(-1, pool.shape[-1]).index_copy_(0, rows, x.to(pool.dtype))
        return
    values, scales = round_rows(x, pool.values.dtype)
    block, inside = rows // PAGE_TOKENS, rows % PAGE_TOKENS
    numbers, beside = _as_blocks(pool)
    numbers[block, inside] = values.view(torch.uint8)
    beside[block, inside] = scales


def take_blocks(pool: KvPool, blocks: Tensor) -> Tensor:
    """A copy of blocks int64 [n] -> [n, 64, D] in the format of computing."""
    if isinstance(pool, Tensor):
        return pool.view(-1, pool.shape[-2], pool.shape[-1]).index_select(0, blocks)
    numbers, beside = _as_blocks(pool)
    values = numbers.index_select(0, blocks).view(pool.values.dtype)
    scales = beside.index_select(0, blocks)
    fine = torch.promote_types(pool.compute, torch.float32)
    return values.to(fine).mul_(scales.unsqueeze(-1)).to(pool.compute)


def _as_blocks(pool: ScaledPool) -> tuple[Tensor, Tensor]:
    """Values as uint8 [blocks, 64, D] and scales [blocks, 64]: the pool's own memory."""
    values = pool.values.view(torch.uint8)
    return values.view(-1, *values.shape[-2:]), pool.scales.view(-1, PAGE_TOKENS)


@dataclass(frozen=True, slots=True)
class PoolParts:
    """A pool as a kernel takes it; strides count values, and four values are one scale wide."""

    values: Tensor
    scales: Tensor
    """Of a plain pool: the values again, never read."""
    page_stride: int
    block_stride: int
    rounding: str
    """"none", "int8" or "fp8"."""


def pool_parts(pool: KvPool) -> PoolParts:
    """Strides from the layout: those of a tensor mean nothing where a dimension is one."""
    _, layers, sides, kv_heads, tokens, width = pool.shape
    blocks = layers * sides * kv_heads
    if isinstance(pool, Tensor):
        return PoolParts(pool, pool, blocks * tokens * width, tokens * width, "none")
    rounding = "int8" if pool.values.dtype == torch.int8 else "fp8"
    block = tokens * (width + SCALE_BYTES)
    return PoolParts(pool.values, pool.scales, blocks * block, block, rounding)
