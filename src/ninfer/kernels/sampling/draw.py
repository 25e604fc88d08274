"""The CPU route of `sampling`: adjustments row by row where a row asks for them, the draw for all rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ninfer.ports.sampling import SamplingParams, TokenLogprobs

_FORBIDDEN = float("-inf")


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
        _adjust_(wide[row], wanted)
    tokens = wide.argmax(-1).tolist()
    random = [row for row, wanted in enumerate(rows) if wanted.params.temperature > 0]
    if random:
        drawn = _draw_random(wide if len(random) == len(rows) else wide[random], [rows[row] for row in random])
        for row, token in zip(random, drawn, strict=True):
            tokens[row] = token
    return [
        Drawn(token, None if wanted.logprobs is None else _logprobs(wide[row], token, wanted.logprobs))
        for row, (token, wanted) in enumerate(zip(tokens, rows, strict=True))
    ]


def _adjust_(logits: Tensor, wanted: DrawInput) -> None:
    """Bias, penalties and mask on one row [V], in place."""
    params = wanted.params
    if params.logit_bias:
        ids = [token for token in params.logit_bias if token < len(logits)]
        logits[ids] += torch.tensor([params.logit_bias[token] for token in ids], dtype=logits.dtype)
    if params.counts_output and wanted.output_ids is not None and len(wanted.output_ids):
        unique, counts = np.unique(np.frombuffer(wanted.output_ids, dtype=np.int32), return_counts=True)
        ids_seen, seen = torch.from_numpy(unique.astype(np.int64)), torch.from_numpy(counts).to(logits.dtype)
        values = logits[ids_seen]
        repetition = params.repetition_penalty
        values = torch.where(values > 0, values / repetition, values * repetition)
        logits[ids_seen] = values - params.presence_penalty - params.frequency_penalty * seen
    if wanted.mask is not None:
        bits = np.unpackbits(np.frombuffer(wanted.mask, dtype=np.uint8), bitorder="little")[: len(logits)]
        logits[len(bits) :] = _FORBIDDEN
        logits[: len(bits)].masked_fill_(torch.from_numpy(bits == 0), _FORBIDDEN)


def _draw_random(logits: Tensor, rows: Sequence[DrawInput]) -> list[int]:
    """Temperature, filters, inverse CDF for [B, V], all rows with temperature > 0."""

    # The largest becomes 0 first, so that no temperature, however small, makes an infinity.
    scaled = logits - logits.amax(-1, keepdim=True)
    scaled /= _column([wanted.params.temperature for wanted in rows]).to(logits.dtype)
    kept = scaled.softmax(-1).double()
    if any(wanted.params.top_k or wanted.params.top_p < 1 or wanted.params.min_p > 0 for wanted in rows):
        kept = _filter(kept, rows)
    summed = kept.cumsum(-1)
    total = summed[:, -1:]
    # uniform < 1, but the product may round up to the total, which no sum exceeds.
    target = torch.minimum(_column([wanted.uniform for wanted in rows]) * total, torch.nextafter(total, total * 0))
    tokens: list[int] = torch.searchsorted(summed, target, right=True).squeeze(1).tolist()
    return tokens


def _column(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).unsqueeze(1)


def _filter(probabilities: Tensor, rows: Sequence[DrawInput]) -> Tensor:
    """Zero what top-k, top-p and min-p drop, for [B, V] in FP64."""
    vocab = probabilities.shape[1]
    ordered, ids = probabilities.sort(dim=-1, descending=True, stable=True)
    ranks = torch.arange(vocab)
    keep = ranks < _column([wanted.params.top_k or vocab for wanted in rows])
    masses = ordered * keep
    before = masses.cumsum(-1) - masses
    # 1 is off, not a mass: a sum that has rounded up to the total must not cut the tail.
    masses_wanted = _column([wanted.params.top_p if wanted.params.top_p < 1 else float("inf") for wanted in rows])
    keep &= before < masses_wanted * masses.sum(-1, keepdim=True)
    keep &= ordered >= _column([wanted.params.min_p for wanted in rows]) * ordered[:, :1]
    keep[:, 0] = True
    return torch.zeros_like(probabilities).scatter_(1, ids, ordered * keep)


def _logprobs(logits: Tensor, token: int, alternatives: int) -> TokenLogprobs:
    values = logits.log_softmax(-1)
    best, ids = values.sort(descending=True, stable=True)
    top = tuple(zip(ids[:alternatives].tolist(), best[:alternatives].tolist(), strict=True))
    return TokenLogprobs(float(values[token]), top)
