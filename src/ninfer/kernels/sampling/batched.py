"""The GPU route of `sampling`: all rows at once, nothing read back before the tokens themselves.

Filters work on the whole sorted vocabulary. What a row asks for beyond temperature and filters is applied row by row.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from .cpu import DrawInput, adjust_, logprobs

__all__ = ["adjust_", "draw_batch", "logprobs", "needs_adjusting", "running_sums"]

_SUM_BLOCK = 512


def needs_adjusting(wanted: DrawInput) -> bool:
    """Whether the row's logits change before the draw."""
    params = wanted.params
    return bool(params.logit_bias) or params.counts_output or wanted.mask is not None


def draw_batch(logits: Tensor, rows: Sequence[DrawInput]) -> Tensor:
    """Adjusted logits FP32 [B, V] -> token ids int64 [B], on the logits' device."""
    best = logits.argmax(-1)
    if all(wanted.params.is_greedy for wanted in rows):
        return best
    numbers = torch.tensor(
        [
            (
                1.0 if wanted.params.is_greedy else wanted.params.temperature,
                wanted.params.top_k or logits.shape[1],
                wanted.params.top_p if wanted.params.top_p < 1 else float("inf"),
                wanted.params.min_p,
                wanted.uniform,
                wanted.params.is_greedy,
            )
            for wanted in rows
        ],
        dtype=torch.float64,
    )
    if logits.is_cuda:
        numbers = numbers.pin_memory().to(logits.device, non_blocking=True)
    temperature, top_k, top_p, min_p, uniform, greedy = numbers.unsqueeze(-1).unbind(1)
    scaled = logits - logits.amax(-1, keepdim=True)
    kept = scaled.div_(temperature.to(logits.dtype)).softmax(-1)
    if any(wanted.params.top_k or wanted.params.top_p < 1 or wanted.params.min_p > 0 for wanted in rows):
        kept = _filter(kept, top_k, top_p, min_p)
    summed = running_sums(kept)
    total = summed[:, -1:]
    # uniform < 1, but the product may round up to the total, which no sum exceeds.
    target = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    drawn = torch.searchsorted(summed, target, right=True).squeeze(1).clamp_(max=logits.shape[1] - 1)
    # A rounding in the sums must not draw what has no probability.
    possible = kept.gather(1, drawn.unsqueeze(1)).squeeze(1) > 0
    return torch.where(possible & (greedy.squeeze(1) == 0), drawn, best)


def running_sums(values: Tensor) -> Tensor:
    """[B, V] -> FP64 prefix sums [B, V], in blocks: a GPU gives one long row to one block of threads.

    Where blocks join, a sum may fall or rise by a rounding.
    """
    rows, count = values.shape
    padded = pad(values, (0, -count % _SUM_BLOCK)).view(rows, -1, _SUM_BLOCK)
    inner = padded.double().cumsum(-1)
    before = pad(inner[:, :-1, -1].cumsum(-1), (1, 0))
    return (inner + before.unsqueeze(-1)).view(rows, -1)[:, :count]


def _filter(probabilities: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor) -> Tensor:
    """Zero what top-k, top-p and min-p drop. Equals keep the order of ids; top-p is a share of what top-k left."""
    ordered, ids = probabilities.sort(dim=-1, descending=True, stable=True)
    keep = torch.arange(ordered.shape[1], device=ordered.device) < top_k
    sums = running_sums(ordered * keep)
    keep[:, 1:] &= sums[:, :-1] < top_p * sums[:, -1:]
    keep &= ordered >= min_p * ordered[:, :1]
    keep[:, 0] = True
    return torch.zeros_like(probabilities).scatter_(1, ids, ordered * keep)
