"""The judge of `sampling`: one row, plain lists, in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ninfer.ports.sampling import SamplingParams


def adjusted(
    logits: Sequence[float], params: SamplingParams, output_ids: Sequence[int], mask: bytes | None, vocab_tokens: int
) -> list[float]:
    """Logits after vocabulary limit, bias, penalties and mask."""
    out = list(logits[:vocab_tokens])
    for token, bias in params.logit_bias.items():
        if 0 <= token < len(out):
            out[token] += bias
    for token in set(output_ids):
        value = out[token]
        value = value / params.repetition_penalty if value > 0 else value * params.repetition_penalty
        out[token] = value - params.presence_penalty - params.frequency_penalty * list(output_ids).count(token)
    if mask is not None:
        for token in range(len(out)):
            if token // 8 >= len(mask) or not mask[token // 8] >> (token % 8) & 1:
                out[token] = -math.inf
    return out


def choose(logits: Sequence[float], params: SamplingParams, uniform: float) -> int:
    """The token for adjusted logits."""
    order = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    if params.is_greedy:
        return order[0]
    best = logits[order[0]]
    weights = {token: math.exp((logits[token] - best) / params.temperature) for token in order}
    if params.top_k:
        order = order[: params.top_k]
    total, summed = sum(weights[token] for token in order), 0.0
    head: list[int] = []
    for token in order:
        if params.top_p < 1 and summed >= params.top_p * total and head:
            break
        head.append(token)
        summed += weights[token]
    head = [token for token in head if weights[token] >= params.min_p]
    total, summed = sum(weights[token] for token in head), 0.0
    for token in sorted(head):
        summed += weights[token]
        if summed > uniform * total:
            return token
    return max(head)


def logprob(logits: Sequence[float], token: int) -> float:
    """Log-probability of one token for adjusted logits."""
    best = max(logits)
    return logits[token] - best - math.log(sum(math.exp(value - best) for value in logits))
