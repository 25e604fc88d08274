"""Operator `rmsnorm`: root-mean-square norm with a multiplier, plain or gated.

Formula: y = x / sqrt(mean(x^2) + eps) * m over the last axis. A weight that is stored as an offset from one is
given as m = 1 + w, a plain one as m = w. Gated: y * silu(z).
Shapes: x [..., D], m [D], or [heads, D] for x [N, heads, D]; z as x.
Dtypes: everything in the activations' format (FP32, FP64).
State written: none. Aliasing: inputs stay as they are.

Computed as x / hypot(|x|, sqrt(D eps)) * (sqrt(D) m): four calls instead of six.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import silu


@dataclass(frozen=True, slots=True)
class RmsNorm:
    """One norm's constants. `scaled` is sqrt(D) * m; `floor`, one number, is sqrt(D * eps)."""

    scaled: Tensor
    floor: Tensor

    @staticmethod
    def empty(shape: tuple[int, ...], eps: float, dtype: torch.dtype) -> RmsNorm:
        """With an unwritten multiplier over the last axis of `shape`."""
        floor = torch.tensor(math.sqrt(shape[-1] * eps), dtype=dtype)
        return RmsNorm(torch.empty(shape, dtype=dtype), floor)

    def fill(self, weight: Tensor, *, offset: float, heads: slice = slice(None)) -> None:
        """Set m = weight + offset, for all heads or some."""
        self.scaled[heads].copy_(weight).add_(offset).mul_(math.sqrt(self.scaled.shape[-1]))


def rmsnorm(x: Tensor, norm: RmsNorm) -> Tensor:
    """A fresh tensor of x's shape."""
    return torch.div(x, torch.hypot(torch.linalg.vector_norm(x, 2, -1, True), norm.floor)).mul_(norm.scaled)


def rmsnorm_gated(x: Tensor, z: Tensor, norm: RmsNorm) -> Tensor:
    """The norm times silu(z)."""
    return rmsnorm(x, norm).mul_(silu(z))
