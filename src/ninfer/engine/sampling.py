"""Sampling parameters from a library caller's keywords, checked one by one. The HTTP side has its own reader."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from ninfer.base.errors import BadInput
from ninfer.ports.sampling import SamplingParams

_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 100.0),
    "top_k": (0, 2**31 - 1),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "presence_penalty": (-100.0, 100.0),
    "frequency_penalty": (-100.0, 100.0),
    "repetition_penalty": (1e-6, 100.0),
}
_NAMES = frozenset(field.name for field in fields(SamplingParams)) - {"seed"}


def make_sampling(defaults: SamplingParams, given: Mapping[str, object], seed: int) -> SamplingParams:
    """`defaults` with what the caller gave. Raises BadInput for an unknown name, a wrong type, a value out of range."""
    chosen: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _NAMES:
            raise BadInput(f"{name} is not a parameter of a request", param=name, code="unknown_parameter")
        if value is not None:
            chosen[name] = _read_bias(value) if name == "logit_bias" else _read_number(name, value)
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


def _read_bias(value: object) -> Mapping[int, float]:
    if not isinstance(value, Mapping):
        raise BadInput("logit_bias must map token ids to numbers", param="logit_bias", code="invalid_type")
    for token_id, bias in value.items():
        if not isinstance(token_id, int) or not isinstance(bias, int | float) or not math.isfinite(bias):
            raise BadInput("logit_bias must map token ids to finite numbers", param="logit_bias")
    return dict(value)
