"""T tokens of one sequence: the rule in chunks, so that almost all work is matrix products.

Inside a chunk, with G the running sum of log_decay, the errors u solve a unit lower triangular system
(I + A) u = beta v - beta exp(G) k S0, A[i, j] = beta_i (k_i . k_j) exp(G_i - G_j) for j < i. All systems of a piece
are solved at once for the part that does not need S0; only the short chain over chunks is sequential.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .inputs import DeltaInputs

CHUNK_TOKENS = 64


def delta_scan(
    inputs: DeltaInputs,
    states: Tensor,
    read_slot: int | None,
    write_slot: int,
    cuts: Sequence[tuple[int, int | None]] = (),
) -> Tensor:
    """-> o [T, Hv, Dv]. `cuts`: (offset, slot) in rising order of offset."""
    tokens, heads, _ = inputs.v.shape
    group = heads // inputs.k.shape[1]
    q, k = inputs.q * inputs.q.shape[-1] ** -0.5, inputs.k
    if group > 1:
        q, k = q.repeat_interleave(group, 1), k.repeat_interleave(group, 1)
    by_head = tuple(x.transpose(0, 1) for x in (q, k, inputs.v, inputs.log_decay, inputs.beta))
    now = states.new_zeros(states.shape[1:]) if read_slot is None else states[read_slot].clone()
    out = torch.empty_like(inputs.v)
    start = 0
    for offset, slot in (*cuts, (tokens, write_slot)):
        if offset > start:
            out[start:offset] = _scan_piece(tuple(x[:, start:offset] for x in by_head), now).transpose(0, 1)
            start = offset
        if slot is not None:
            states[slot].copy_(now)
    return out


def _scan_piece(piece: tuple[Tensor, ...], now: Tensor) -> Tensor:
    """q, k, v, log_decay, beta, head-major [Hv, T, ...]; advances `now` [Hv, Dk, Dv] in place -> o [Hv, T, Dv]."""
    tokens = piece[0].shape[1]
    q, k, v, log_decay, beta = (_in_chunks(x, min(CHUNK_TOKENS, tokens)) for x in piece)
    total = log_decay.cumsum(-1)
    ratio = (total.unsqueeze(-1) - total.unsqueeze(-2)).tril_()
    ratio = ratio.exp_().tril_()  # exp only of differences that are <= 0: no overflow above the diagonal
    keys = k.transpose(-1, -2)
    weighted = k * beta.unsqueeze(-1)
    system = torch.matmul(weighted, keys).mul_(ratio)
    grown = total.exp().unsqueeze(-1)
    right = torch.cat([v * beta.unsqueeze(-1), weighted * grown], -1)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    fresh, carried = solved.split([v.shape[-1], k.shape[-1]], -1)
    inner = torch.matmul(q, keys).mul_(ratio)
    reading = q * grown
    writing = (keys * (total[..., -1:] - total).exp().unsqueeze(-2)).contiguous()
    fading = total[..., -1].exp().unsqueeze(-1).unsqueeze(-1)
    out = torch.empty_like(v)
    for i in range(v.shape[1]):
        errors = torch.baddbmm(fresh[:, i], carried[:, i], now, alpha=-1)
        torch.baddbmm(torch.bmm(reading[:, i], now), inner[:, i], errors, out=out[:, i])
        now.mul_(fading[:, i]).baddbmm_(writing[:, i], errors)
    return out.flatten(1, 2)[:, :tokens]


def _in_chunks(x: Tensor, chunk: int) -> Tensor:
    """[Hv, T, ...] -> [Hv, chunks, chunk, ...]; zeros fill the last chunk: decay 1 and beta 0 leave S alone."""
    heads, tokens, *rest = x.shape
    missing = -tokens % chunk
    if missing:
        x = torch.cat([x, x.new_zeros(heads, missing, *rest)], 1)
    return x.reshape(heads, -1, chunk, *rest)
