"""The gated delta rule in chunk form, in plain torch: what a training step needs and its exact gradients.

Inside a chunk everything is matrix products. Between chunks the state obeys S' = M S + N with small matrices M and N,
so the only sequential work is one product a chunk.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK = 64
_BLOCK = 16


def _exact_products(enabled: bool) -> bool:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = enabled
    return before


def _unit_lower_inverse(a: Tensor) -> Tensor:
    """(I + a)^-1 for strictly lower a [m, 64, 64]: series on 16-blocks, then two block merges."""
    m, n = a.shape[0], a.shape[-1]
    parts = n // _BLOCK
    blocks = a.view(m, parts, _BLOCK, parts, _BLOCK)
    diagonal = torch.stack([blocks[:, i, :, i] for i in range(parts)], dim=1).reshape(m * parts, _BLOCK, _BLOCK)
    power = -diagonal
    inverse = torch.eye(_BLOCK, device=a.device, dtype=a.dtype) + power
    for _ in range(3):
        power = power @ power
        inverse = torch.baddbmm(inverse, inverse, power)
    size = _BLOCK
    while size < n:
        pairs = n // (2 * size)
        inverse = inverse.view(m, pairs, 2, size, size)
        first, second = inverse[:, :, 0].reshape(-1, size, size), inverse[:, :, 1].reshape(-1, size, size)
        grid = a.view(m, pairs, 2, size, pairs, 2, size)
        corner = torch.stack([grid[:, i, 1, :, i, 0] for i in range(pairs)], dim=1).reshape(-1, size, size)
        low = -(second @ (corner @ first))
        top = torch.cat([first, torch.zeros_like(first)], dim=-1)
        inverse = torch.cat([top, torch.cat([low, second], dim=-1)], dim=-2)
        size *= 2
    return inverse.view(m, n, n)


class UnitLowerInverse(torch.autograd.Function):
    """(I + a)^-1 with the gradient -X^T g X^T."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        before = _exact_products(False)
        x = _unit_lower_inverse(a)
        _exact_products(before)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return -(x.mT @ g @ x.mT).tril(-1)


class ScanStates(torch.autograd.Function):
    """States before every chunk from S' = M S + N, S_0 = 0. m, n: [rows, chunks, heads, k, k or v]."""

    @staticmethod
    def forward(ctx: Any, m: Tensor, n: Tensor) -> Tensor:
        before = _exact_products(False)
        rows, chunks, heads, k, v = n.shape
        mt = m.transpose(0, 1).reshape(chunks, rows * heads, k, k)
        nt = n.transpose(0, 1).reshape(chunks, rows * heads, k, v)
        states = torch.zeros_like(nt)
        for c in range(1, chunks):
            torch.baddbmm(nt[c - 1], mt[c - 1], states[c - 1], out=states[c])
        _exact_products(before)
        ctx.save_for_backward(mt, states)
        ctx.shape = n.shape
        return states.view(chunks, rows, heads, k, v).transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        mt, states = ctx.saved_tensors
        rows, chunks, heads, k, v = ctx.shape
        before = _exact_products(False)
        gt = g.transpose(0, 1).reshape(chunks, rows * heads, k, v)
        after = torch.zeros_like(states)  # gradient of the state behind chunk c
        for c in range(chunks - 2, -1, -1):
            torch.baddbmm(gt[c + 1], mt[c + 1].mT, after[c + 1], out=after[c])
        _exact_products(before)
        gm = torch.matmul(after, states.mT)
        return (
            gm.view(chunks, rows, heads, k, k).transpose(0, 1),
            after.view(chunks, rows, heads, k, v).transpose(0, 1),
        )


def chunk_products(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> tuple[Tensor, ...]:
    """Per chunk: strictly lower matrix, right sides and decays. q, k, v [m, 64, d]; g (log decay), beta [m, 64]."""
    total = g.cumsum(-1)
    lower = torch.ones(CHUNK, CHUNK, device=q.device, dtype=torch.bool).tril()
    gap = (total[:, :, None] - total[:, None, :]).masked_fill(~lower, 0.0)
    decay = gap.exp() * lower
    a = ((k * beta[..., None]) @ k.mT * decay).tril(-1)
    scores = (q @ k.mT) * decay
    right = torch.cat([v * beta[..., None], k * (beta * total.exp())[..., None]], dim=-1)
    late = k * (total[:, -1:] - total).exp()[..., None]
    return a, scores, right, late, total


def chunk_updates(x: Tensor, right: Tensor, late: Tensor, total: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """U, W and the state step (M, N) of every chunk; x is the inverse."""
    solved = x @ right
    k = late.shape[-1]
    u, w = solved[..., :-k], solved[..., -k:]
    eye = torch.eye(k, device=x.device, dtype=x.dtype)
    step = total[:, -1].exp()[:, None, None] * eye - late.mT @ w
    return u, w, step, late.mT @ u


def chunk_outputs(q: Tensor, total: Tensor, scores: Tensor, u: Tensor, w: Tensor, s: Tensor) -> Tensor:
    """Outputs of every chunk from the state before it."""
    fresh = u - w @ s
    return (q * total.exp()[..., None]) @ s + scores @ fresh


def gated_delta(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, rows: int, stages: Any) -> Tensor:
    """All together on chunk-major tensors [rows * chunks * heads, 64, d]; `stages` holds the (compiled) pieces."""
    heads = stages.heads
    a, scores, right, late, total = stages.chunk_products(q, k, v, g, beta)
    x = UnitLowerInverse.apply(a)
    u, w, step, add = stages.chunk_updates(x, right, late, total)
    kd, vd = k.shape[-1], v.shape[-1]
    states = ScanStates.apply(step.view(rows, -1, heads, kd, kd), add.view(rows, -1, heads, kd, vd))
    return stages.chunk_outputs(q, total, scores, u, w, states.reshape(-1, kd, vd))
