"""Operator `rmsnorm`: root-mean-square norm with a multiplier, plain or gated.

Formula: y = x / sqrt(mean(x^2) + eps) * m over the last axis. A weight that is stored as an offset from one is
given as m = 1 + w (`offset_multiplier`), a plain one as m = w. Gated: y * silu(z).
Shapes: x [..., D], m [D] or broadcastable to x, z as x.
Dtypes: arithmetic in m's dtype (FP32, or FP64), one rounding to x's dtype at the end. `gated` takes x in m's dtype
and z in any, and rounds to z's dtype.
State written: none. Aliasing: inputs stay as they are.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import rms_norm, silu


def offset_multiplier(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """The multiplier of a weight that is stored as an offset from one."""
    return weight.to(dtype) + 1


def rmsnorm(x: Tensor, multiplier: Tensor, eps: float) -> Tensor:
    """Norm over the last axis; result in x's dtype."""
    if x.dtype == multiplier.dtype:
        return rms_norm(x, multiplier.shape, multiplier, eps)
    return rms_norm(x.to(multiplier.dtype), multiplier.shape, multiplier, eps).to(x.dtype)


def rmsnorm_gated(x: Tensor, z: Tensor, multiplier: Tensor, eps: float) -> Tensor:
    """Norm over the last axis times silu(z); result in z's dtype."""
    normed = rms_norm(x, multiplier.shape, multiplier, eps)
    if z.dtype == x.dtype:
        return normed.mul_(silu(z))
    return normed.mul_(silu(z.to(x.dtype))).to(z.dtype)


def rmsnorm_heads(x: Tensor, multipliers: Tensor, eps: float) -> Tensor:
    """Norm over the last axis of x [N, heads, D] with one multiplier row per head, [heads, D]; a fresh tensor."""
    if x.dtype == multipliers.dtype:
        return rms_norm(x, x.shape[-1:], None, eps).mul_(multipliers)
    return rms_norm(x.to(multipliers.dtype), x.shape[-1:], None, eps).mul_(multipliers).to(x.dtype)
