"""The GPU route of `sampling`: all rows at once, nothing read back before the tokens themselves.

The filters are one question of values: how many of the largest stay. Then a value and, among its equals, the last id
that stays say for each token whether it may be drawn, and the draw walks the vocabulary in the order of ids. What a row
asks for beyond temperature and filters is applied row by row.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ninfer.ports.sampling import SamplingParams

from .cpu import DrawInput, adjust_, logprobs
from .triton_find import find_equal, find_head, find_mass

__all__ = ["adjust_", "draw_batch", "logprobs", "needs_adjusting"]

_MOST_CHOSEN = 1024
"""Up to so many largest values are selected, more are sorted."""


def needs_adjusting(wanted: DrawInput) -> bool:
    """Whether the row's logits change before the draw."""
    params = wanted.params
    return bool(params.logit_bias) or params.counts_output or wanted.mask is not None


def draw_batch(logits: Tensor, rows: Sequence[DrawInput]) -> Tensor:
    """Adjusted logits FP32 [B, V] -> token ids int64 [B], on the logits' device."""
    best = logits.argmax(-1)
    if all(wanted.params.is_greedy for wanted in rows):
        return best
    vocab = logits.shape[1]
    numbers = torch.tensor([_list_numbers(wanted, vocab) for wanted in rows], dtype=torch.float64)
    if logits.is_cuda:
        numbers = numbers.pin_memory().to(logits.device, non_blocking=True)
    temperature, top_k, top_p, min_p, uniform, greedy = numbers.unbind(1)
    scaled = logits - logits.amax(-1, keepdim=True)
    probabilities = scaled.div_(temperature.unsqueeze(-1).to(logits.dtype)).softmax(-1)
    floor, edge = probabilities.new_full((len(rows),), -1.0), top_k.long()  # everything stays
    filtered = [wanted.params for wanted in rows if _filters(wanted.params)]
    if filtered:
        most = max(params.top_k or vocab for params in filtered)
        floor, edge = _find_floor(probabilities, most, top_k.long(), top_p, min_p)
    drawn = find_mass(probabilities, floor, edge, uniform)
    return torch.where(greedy == 0, drawn, best)


def _filters(params: SamplingParams) -> bool:
    return not params.is_greedy and (params.top_k > 0 or params.top_p < 1 or params.min_p > 0)


def _list_numbers(wanted: DrawInput, vocab: int) -> tuple[float, ...]:
    """Temperature, top-k, top-p, min-p, uniform, whether greedy."""
    params = wanted.params
    return (
        1.0 if params.is_greedy else params.temperature,
        min(params.top_k or vocab, vocab),
        params.top_p if params.top_p < 1 else float("inf"),
        params.min_p,
        wanted.uniform,
        params.is_greedy,
    )


def _find_floor(probabilities: Tensor, most: int, top_k: Tensor, top_p: Tensor, min_p: Tensor) -> tuple[Tensor, Tensor]:
    """-> (value [B], id int64 [B]): what is larger stays, and what is equal up to that id. No filter reaches past the
    `most` largest; rows without filters keep everything."""
    if most <= min(_MOST_CHOSEN, probabilities.shape[1]):
        ordered = probabilities.topk(most, -1).values
    else:
        ordered = probabilities.sort(-1, descending=True).values
    counted = top_k.clamp(max=ordered.shape[1])
    kept = find_head(ordered, counted, top_p)
    by_share = (ordered >= (min_p * ordered[:, 0]).unsqueeze(-1)).sum(-1)
    kept = torch.minimum(kept, by_share).clamp_(min=1)
    floor = ordered.gather(1, (kept - 1).unsqueeze(1)).squeeze(1)
    equals = kept - (ordered > floor.unsqueeze(1)).sum(-1)
    edge = find_equal(probabilities, floor, equals)
    everything = (top_k >= probabilities.shape[1]) & (top_p >= 1) & (min_p <= 0)
    return torch.where(everything, -1.0, floor), edge
