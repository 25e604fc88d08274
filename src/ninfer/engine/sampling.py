"""Sampling parameters from a library caller's keywords, checked one by one. The HTTP side has its own reader."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from ninfer.base.errors import BadInput
from ninfer.ports.sampling import MAX_LOGIT_BIAS, MIN_REPETITION_PENALTY, SamplingParams

_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 100.0),
    "top_k": (0, 2**31 - 1),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "presence_penalty": (-100.0, 100.0),
    "frequency_penalty": (-100.0, 100.0),
    "repetition_penalty": (MIN_REPETITION_PENALTY, 100.0),
}
_NAMES = frozenset(field.name for field in fields(SamplingParams)) - {"seed"}


def make_sampling(
    defaults: SamplingParams, given: Mapping[str, object], seed: int, vocab_tokens: int = 2**31
) -> SamplingParams:
    """`defaults` with what the caller gave. Raises BadInput for an unknown name, a wrong type, a value out of range."""
    chosen: dict[str, Any] = {}
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise BadInput("seed must be a whole number", param="seed", code="invalid_type")
    for name, value in given.items():
        if name not in _NAMES:
            raise BadInput(f"{name} is not a parameter of a request", param=name, code="unknown_parameter")
        if value is not None:
            chosen[name] = _read_bias(value, vocab_tokens) if name == "logit_bias" else _read_number(name, value)
    return replace(defaults, seed=seed, **chosen)


def _read_number(name: str, value: object) -> float | int:
    low, high = _RANGES[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInput(f"{name} must be a number", param=name, code="invalid_type")
    if not math.isfinite(value) or not low <= value <= high:
        raise BadInput(f"{name} must lie in [{low:g}, {high:g}]", param=name)
    if name == "top_k":
        return int(value)
    return float(value)


def _read_bias(value: object, vocab_tokens: int) -> Mapping[int, float]:
    if not isinstance(value, Mapping):
        raise BadInput("logit_bias must map token ids to numbers", param="logit_bias", code="invalid_type")
    for token_id, bias in value.items():
        if isinstance(token_id, bool) or not isinstance(token_id, int) or not 0 <= token_id < vocab_tokens:
            raise BadInput(f"logit_bias: {token_id!r} is not a token id in [0, {vocab_tokens})", param="logit_bias")
        if isinstance(bias, bool) or not isinstance(bias, int | float) or not abs(bias) <= MAX_LOGIT_BIAS:
            raise BadInput(f"logit_bias: values lie in [-{MAX_LOGIT_BIAS:g}, {MAX_LOGIT_BIAS:g}]", param="logit_bias")
    return dict(value)
