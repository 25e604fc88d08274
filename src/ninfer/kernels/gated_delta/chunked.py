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
    now = states.new_zeros(states.shape[1:]) if read_slot is None else states[read_slot].clone()
    pieces = []
    start = 0
    for offset, slot in (*cuts, (tokens, write_slot)):
        if offset > start:
            rows = slice(start, offset)
            piece = tuple(x[rows] for x in (q, k, inputs.v, inputs.log_decay, inputs.beta))
            pieces.append(_scan_piece(piece, now))
            start = offset
        if slot is not None:
            states[slot].copy_(now)
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


def _scan_piece(piece: tuple[Tensor, ...], now: Tensor) -> Tensor:
    """q, k, v [T, Hv, D], log_decay, beta [T, Hv]; advances `now` [Hv, Dk, Dv] in place -> o [T, Hv, Dv]."""
    tokens = piece[0].shape[0]
    q, k, v, log_decay, beta = (_in_chunks(x, min(CHUNK_TOKENS, tokens)) for x in piece)
    chunks, heads, chunk, value_dim = v.shape
    total = log_decay.cumsum(-1)
    ratio = (total.unsqueeze(-1) - total.unsqueeze(-2)).tril_()
    ratio = ratio.exp_().tril_()  # exp only of differences that are <= 0: no overflow above the diagonal
    keys = k.transpose(-1, -2)
    weighted = k * beta.unsqueeze(-1)
    system = torch.matmul(weighted, keys).mul_(ratio)
    grown = total.exp().unsqueeze(-1)
    right = torch.cat([v * beta.unsqueeze(-1), weighted * grown], -1)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    fresh, carried = (x.contiguous() for x in solved.split([value_dim, k.shape[-1]], -1))
    inner = torch.matmul(q, keys).mul_(ratio)
    reading = q * grown
    writing = k * (total[..., -1:] - total).exp().unsqueeze(-1)
    fading = total[..., -1].exp().view(chunks, heads, 1, 1)
    out = v.new_empty(chunks, heads, chunk, value_dim)
    for i in range(chunks):
        errors = torch.baddbmm(fresh[i], carried[i], now, alpha=-1)
        torch.bmm(reading[i], now, out=out[i])
        out[i].baddbmm_(inner[i], errors)
        now.mul_(fading[i]).baddbmm_(writing[i].transpose(1, 2), errors)
    return out.transpose(1, 2).reshape(-1, heads, value_dim)[:tokens]


def _in_chunks(x: Tensor, chunk: int) -> Tensor:
    """[T, Hv, ...] -> [chunks, Hv, chunk, ...]; zeros fill the last chunk: decay 1 and beta 0 leave S alone."""
    missing = -x.shape[0] % chunk
    if missing:
        x = torch.cat([x, x.new_zeros(missing, *x.shape[1:])])
    return x.unflatten(0, (-1, chunk)).transpose(1, 2).contiguous()
