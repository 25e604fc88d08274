"""Sampling parameters: plain data that crosses every layer from the protocol to the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

GREEDY_BELOW = 1e-4
"""Smaller temperatures are greedy: divided by them, the logits' differences leave FP32."""

MIN_REPETITION_PENALTY = 0.01
MAX_LOGPROBS = 20
MAX_LOGIT_BIAS = 100.0


class DrawPurpose(Enum):
    """Part of the hash behind each uniform number (settled decision 7), so that draws never share one."""

    TOKEN = 0
    DRAFT_ACCEPT = 1
    DRAFT_RESAMPLE = 2


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one request draws its tokens. Penalties count output tokens only.

    temperature 0 (and anything below GREEDY_BELOW) is greedy. top_k 0, top_p 1, min_p 0 switch the filter
    off. Order: bias and penalties on logits, temperature, top-k, top-p, min-p, inverse CDF with one uniform.
    Log-probabilities are taken from the logits after bias and penalties and before temperature and filters.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    seed: int = 0

    @property
    def is_greedy(self) -> bool:
        """Whether the largest logit is taken, without a random number."""
        return self.temperature < GREEDY_BELOW

    @property
    def counts_output(self) -> bool:
        """Whether the draw needs the tokens generated so far."""
        return self.presence_penalty != 0 or self.frequency_penalty != 0 or self.repetition_penalty != 1


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log-probability of the chosen token and of the best alternatives, highest first."""

    chosen: float
    top: tuple[tuple[int, float], ...] = ()
