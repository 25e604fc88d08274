"""Operator `rmsnorm`: root-mean-square norm with a multiplier, plain or gated.

Formula: y = x / sqrt(mean(x^2) + eps) * m over the last axis. A weight that is stored as an offset from one is
given as m = 1 + w (`offset_multiplier`), a plain one as m = w. Gated: y * silu(z).
Shapes: x [..., D], m [D] or [heads, D], z as x.
Dtypes: everything in the activations' format (FP32, FP64).
State written: none. Aliasing: inputs stay as they are.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import silu


def offset_multiplier(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """The multiplier of a weight that is stored as an offset from one."""
    return weight.to(dtype) + 1


def rmsnorm(x: Tensor, multiplier: Tensor, eps: float) -> Tensor:
    """Norm over the last axis of x, times a multiplier of shape [D], or [heads, D] for x [N, heads, D]."""
    squares = torch.linalg.vector_norm(x, 2, -1, True).square_()
    scale = torch.rsub(squares, eps, alpha=-1 / x.shape[-1]).rsqrt_()  # eps + mean, in one call
    return (x * scale).mul_(multiplier)


def rmsnorm_gated(x: Tensor, z: Tensor, multiplier: Tensor, eps: float) -> Tensor:
    """Norm over the last axis times silu(z)."""
    return rmsnorm(x, multiplier, eps).mul_(silu(z))
