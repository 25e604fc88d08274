"""Sampling fields, stop strings, budgets: from a request's values to the engine's parameters, with their limits.

Every limit names its field. Counts are bounded before anything is allocated for them (SAMP-06).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ninfer.ports.sampling import MAX_LOGIT_BIAS, MAX_LOGPROBS, MIN_REPETITION_PENALTY, SamplingParams
from ninfer.server.errors import invalid, unsupported
from ninfer.server.schema import SamplingFields

MAX_STOP_STRINGS = 16
MAX_STOP_BYTES = 1024
MAX_STOP_TOKENS = 1024
MAX_BIAS_ENTRIES = 1024
MAX_TEMPERATURE = 2.0
MAX_PENALTY = 2.0
MAX_REPETITION_PENALTY = 10.0
_SEED_BITS = 64


def read_sampling(fields: SamplingFields, defaults: SamplingParams, vocab_tokens: int) -> SamplingParams:
    """The draw of one request. A field that is absent takes the model's default; no seed draws a fresh one."""
    top_p = _in_range(fields.top_p, defaults.top_p, "top_p", 0.0, 1.0)
    top_k = _read_top_k(fields.top_k, defaults.top_k)
    if top_p == 0.0:  # the smallest set that is not empty: the best token alone
        top_p, top_k = 1.0, 1
    return SamplingParams(
        temperature=_in_range(fields.temperature, defaults.temperature, "temperature", 0.0, MAX_TEMPERATURE),
        top_k=top_k,
        top_p=top_p,
        min_p=_in_range(fields.min_p, defaults.min_p, "min_p", 0.0, 1.0),
        presence_penalty=_in_range(
            fields.presence_penalty, defaults.presence_penalty, "presence_penalty", -MAX_PENALTY, MAX_PENALTY
        ),
        frequency_penalty=_in_range(
            fields.frequency_penalty, defaults.frequency_penalty, "frequency_penalty", -MAX_PENALTY, MAX_PENALTY
        ),
        repetition_penalty=_read_repetition(fields.repetition_penalty, defaults.repetition_penalty),
        logit_bias=_read_bias(fields.logit_bias, vocab_tokens),
        seed=_read_seed(fields.seed),
    )


def _in_range(value: float | None, default: float, name: str, low: float, high: float) -> float:
    if value is None:
        return default
    if not (math.isfinite(value) and low <= value <= high):
        raise invalid(f"{name} must be between {low:g} and {high:g}.", param=name)
    return float(value)


def _read_top_k(value: int | None, default: int) -> int:
    if value is None:
        return default
    if value < -1 or value > 2**31 - 1:
        raise invalid("top_k must be -1 or 0 (off) or a positive whole number.", param="top_k")
    return max(value, 0)


def _read_repetition(value: float | None, default: float) -> float:
    return _in_range(value, default, "repetition_penalty", MIN_REPETITION_PENALTY, MAX_REPETITION_PENALTY)


def _read_seed(value: int | None) -> int:
    if value is None:
        return secrets.randbits(_SEED_BITS - 1)
    if not -(2**63) <= value < 2**64:
        raise invalid("seed must fit in 64 bits.", param="seed")
    return value % (1 << _SEED_BITS)


def _read_bias(bias: Mapping[str, float] | None, vocab_tokens: int) -> Mapping[int, float]:
    if not bias:
        return MappingProxyType({})
    if len(bias) > MAX_BIAS_ENTRIES:
        raise invalid(f"logit_bias may name at most {MAX_BIAS_ENTRIES} tokens.", param="logit_bias")
    read: dict[int, float] = {}
    for name, value in bias.items():
        if not name.isascii() or not name.isdigit() or len(name) > 9 or int(name) >= vocab_tokens:
            raise invalid(f"logit_bias: token ids are 0 to {vocab_tokens - 1}.", param="logit_bias")
        if not -MAX_LOGIT_BIAS <= value <= MAX_LOGIT_BIAS:
            raise invalid(f"logit_bias: values are -{MAX_LOGIT_BIAS:g} to {MAX_LOGIT_BIAS:g}.", param="logit_bias")
        read[int(name)] = value
    return MappingProxyType(read)


def read_stops(stop: str | list[str] | None) -> tuple[str, ...]:
    """Stop strings, bounded in count and length."""
    if stop is None:
        return ()
    stops = [stop] if isinstance(stop, str) else stop
    if len(stops) > MAX_STOP_STRINGS:
        raise invalid(f"stop may hold at most {MAX_STOP_STRINGS} strings.", param="stop")
    for index, text in enumerate(stops):
        name = "stop" if isinstance(stop, str) else f"stop[{index}]"
        if not text:
            raise invalid(f"{name} must not be empty.", param=name)
        if len(text.encode()) > MAX_STOP_BYTES:
            raise invalid(f"{name} is longer than {MAX_STOP_BYTES} bytes.", param=name)
    return tuple(stops)


def check_stop_tokens(token_ids: Sequence[int], vocab_tokens: int) -> None:
    """Stop tokens, bounded in count, each one of the vocabulary (SAMP-06)."""
    if len(token_ids) > MAX_STOP_TOKENS:
        raise invalid(f"stop_token_ids may hold at most {MAX_STOP_TOKENS} tokens.", param="stop_token_ids")
    for index, token_id in enumerate(token_ids):
        if not 0 <= token_id < vocab_tokens:
            name = f"stop_token_ids[{index}]"
            raise invalid(f"{name}: token ids are 0 to {vocab_tokens - 1}.", param=name)


def read_thinking_budget(token_budget: int | None, budget: int | None) -> int | None:
    """Tokens that a thought may take, the first spelling before the second; None: as many as it likes."""
    for name, value in (("thinking_token_budget", token_budget), ("thinking_budget", budget)):
        if value is not None and value < 0:
            raise invalid(f"{name} must be at least 0.", param=name)
    return budget if token_budget is None else token_budget


def check_floor(min_tokens: int, budget: int | None) -> None:
    """Nothing stops before `min_tokens`, so a budget below it contradicts it; the context's own limit does not."""
    if min_tokens < 0:
        raise invalid("min_tokens must be at least 0.", param="min_tokens")
    if budget is not None and min_tokens > budget:
        raise invalid("min_tokens must not be larger than the output budget.", param="min_tokens")


def check_budget(asked: int | None, name: str) -> None:
    """An output budget is at least one token; how large does not matter, since it is clamped."""
    if asked is not None and asked < 1:
        raise invalid(f"{name} must be at least 1.", param=name)


def clamp_budget(asked: int | None, prompt_tokens: int, max_context: int) -> int:
    """Output tokens this request may have: what was asked, or all the room that the context leaves."""
    room = max_context - prompt_tokens
    return room if asked is None else min(asked, room)


def check_context(prompt_tokens: int, max_context: int, param: str) -> None:
    """400 with both numbers, in the words that clients look for, when not even one token fits (LIMIT-01)."""
    if prompt_tokens < max_context:
        return
    source = "messages" if param == "messages" else "prompt"
    message = (
        f"This model's maximum context length is {max_context} tokens. "
        f"However, your {source} resulted in {prompt_tokens} tokens."
    )
    raise invalid(message, param=param, code="context_length_exceeded")


def wants_usage(fields: SamplingFields) -> bool:
    """Whether a stream ends with a usage chunk (USE-01)."""
    options = fields.stream_options
    if options is None:
        return False
    if options.include_obfuscation:
        path = "stream_options.include_obfuscation"
        raise unsupported(path, f"{path} is not supported by this server.")
    return options.include_usage


def read_logprobs(wanted: bool, top: int | None) -> int | None:
    """How many alternatives to report for each token; None: no log-probabilities (SAMP-09)."""
    if top is not None and not 0 <= top <= MAX_LOGPROBS:
        raise invalid(f"top_logprobs must be between 0 and {MAX_LOGPROBS}.", param="top_logprobs")
    if not wanted:
        if top:
            raise invalid("top_logprobs needs logprobs to be true.", param="top_logprobs")
        return None
    return top or 0
