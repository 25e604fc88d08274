"""The CPU route of `sampling`: adjustments row by row where a row asks for them, the draw for all rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ninfer.ports.sampling import SamplingParams, TokenLogprobs

_FORBIDDEN = float("-inf")
_HEAD_TOKENS = 128
"""Filters rarely keep more tokens than this; finding so many is several times cheaper than sorting all."""

_MASS_MARGIN = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class DrawInput:
    """One row's parameters. `output_ids`: int32, the tokens generated so far; `logprobs`: alternatives wanted."""

    params: SamplingParams
    uniform: float
    output_ids: memoryview | None = None
    mask: bytes | None = None
    logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class Drawn:
    """The token of one row."""

    token_id: int
    logprobs: TokenLogprobs | None


def draw(logits: Tensor, rows: Sequence[DrawInput], vocab_tokens: int) -> list[Drawn]:
    """One token per row of logits [B, V]."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    wide = wide[:, :vocab_tokens]
    for row, wanted in enumerate(rows):
        adjust_(wide[row], wanted)
    tokens = wide.argmax(-1).tolist()
    random = [row for row, wanted in enumerate(rows) if not wanted.params.is_greedy]
    if random:
        drawn = _draw_random(wide if len(random) == len(rows) else wide[random], [rows[row] for row in random])
        for row, token in zip(random, drawn, strict=True):
            tokens[row] = token
    return [
        Drawn(token, None if wanted.logprobs is None else logprobs(wide[row], token, wanted.logprobs))
        for row, (token, wanted) in enumerate(zip(tokens, rows, strict=True))
    ]


def adjust_(logits: Tensor, wanted: DrawInput) -> None:
    """Bias, penalties and mask on one row [V], in place."""
    params = wanted.params
    if params.logit_bias:
        ids = [token for token in params.logit_bias if 0 <= token < len(logits)]
        biases = torch.tensor([params.logit_bias[token] for token in ids], dtype=logits.dtype)
        logits[ids] += biases.to(logits.device)
    if params.counts_output and wanted.output_ids is not None and len(wanted.output_ids):
        unique, counts = np.unique(np.frombuffer(wanted.output_ids, dtype=np.int32), return_counts=True)
        ids_seen = torch.from_numpy(unique.astype(np.int64)).to(logits.device)
        seen = torch.from_numpy(counts).to(logits.device, logits.dtype)
        values = logits[ids_seen]
        repetition = params.repetition_penalty
        values = torch.where(values > 0, values / repetition, values * repetition)
        logits[ids_seen] = values - params.presence_penalty - params.frequency_penalty * seen
    if wanted.mask is not None:
        assert any(wanted.mask), "a mask allows no token"
        bits = np.unpackbits(np.frombuffer(wanted.mask, dtype=np.uint8), bitorder="little")[: len(logits)]
        logits[len(bits) :] = _FORBIDDEN
        logits[: len(bits)].masked_fill_(torch.from_numpy(bits == 0).to(logits.device), _FORBIDDEN)


def _draw_random(logits: Tensor, rows: Sequence[DrawInput]) -> list[int]:
    """Temperature, filters, inverse CDF for [B, V], all rows that are not greedy."""

    # The largest becomes 0 first, so that a small temperature makes no positive infinity.
    scaled = logits - logits.amax(-1, keepdim=True)
    scaled /= _column([wanted.params.temperature for wanted in rows]).to(logits.dtype)
    kept = scaled.softmax(-1)
    if any(wanted.params.top_k or wanted.params.top_p < 1 or wanted.params.min_p > 0 for wanted in rows):
        kept = _filter(kept, rows)
    summed = kept.double().cumsum(-1)
    total = summed[:, -1:]
    # uniform < 1, but the product may round up to the total, which no sum exceeds.
    target = torch.minimum(_column([wanted.uniform for wanted in rows]) * total, torch.nextafter(total, total * 0))
    tokens: list[int] = torch.searchsorted(summed, target, right=True).squeeze(1).tolist()
    assert max(tokens) < logits.shape[1], "probabilities are not numbers"
    return tokens


def _column(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).unsqueeze(1)


def _filter(probabilities: Tensor, rows: Sequence[DrawInput]) -> Tensor:
    """Zero what top-k, top-p and min-p drop, for [B, V]."""
    ordered, ids = _find_head(probabilities, rows) or probabilities.sort(dim=-1, descending=True, stable=True)
    vocab, ranks = probabilities.shape[1], torch.arange(ordered.shape[1])
    keep = ranks < _column([wanted.params.top_k or vocab for wanted in rows])
    sums = (ordered.double() * keep).cumsum(-1)
    # Top-p is a share of what top-k left: of the head's first part, or of everything.
    ended = torch.tensor([[0 < wanted.params.top_k <= ordered.shape[1]] for wanted in rows])
    total = torch.where(ended, sums[:, -1:], probabilities.double().sum(-1, keepdim=True))
    # 1 is off, not a mass: a sum that has rounded up to the total must not cut the tail.
    wanted_mass = _column([wanted.params.top_p if wanted.params.top_p < 1 else float("inf") for wanted in rows])
    keep[:, 1:] &= sums[:, :-1] < (wanted_mass * total)
    keep &= ordered >= _column([wanted.params.min_p for wanted in rows]) * ordered[:, :1]
    keep[:, 0] = True
    return torch.zeros_like(probabilities).scatter_(1, ids, ordered * keep)


def _find_head(probabilities: Tensor, rows: Sequence[DrawInput]) -> tuple[Tensor, Tensor] | None:
    """The largest probabilities in order, with their ids, if no row's filters can reach past them.

    None: the whole vocabulary has to be sorted.
    """
    size = max(_HEAD_TOKENS, *(wanted.params.top_k for wanted in rows))
    if size >= probabilities.shape[1]:
        return None
    values, ids = probabilities.topk(size, -1)
    last = values[:, -1:]
    if int((probabilities >= last).sum()) != values.numel():
        return None  # equal ones on both sides of the edge: which belong to the head is a question of ids
    mass, best = values.double().sum(-1).tolist(), values[:, 0].tolist()
    whole = probabilities.double().sum(-1).tolist()
    for row, wanted in enumerate(rows):
        params = wanted.params
        by_mass = params.top_p < 1 and mass[row] >= params.top_p * whole[row] * _MASS_MARGIN
        by_floor = float(last[row]) < params.min_p * best[row]
        if not (params.top_k or by_mass or by_floor):
            return None
    ids, _ = ids.sort(-1)
    values, order = probabilities.gather(1, ids).sort(dim=-1, descending=True, stable=True)
    return values, ids.gather(1, order)


def logprobs(logits: Tensor, token: int, alternatives: int) -> TokenLogprobs:
    """Of the chosen token and of the largest ones; among equals the lower id comes first."""
    values = logits.log_softmax(-1)
    if not alternatives:
        return TokenLogprobs(float(values[token]))
    least = values.topk(min(alternatives, len(values))).values[-1]
    ids = (values >= least).nonzero().squeeze(1)
    best, order = values[ids].sort(descending=True, stable=True)
    ids = ids[order]
    top = tuple(zip(ids[:alternatives].tolist(), best[:alternatives].tolist(), strict=True))
    return TokenLogprobs(float(values[token]), top)
