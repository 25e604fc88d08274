"""Tokens of a trace: slices of endless pseudo-random streams, so that equal prefixes are visible in the file.

`stream(seed)[i]` = splitmix64 finaliser of (mix(seed * G + M2) + i * G) mod 150,000.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

VOCAB_TOKENS = 150_000

_GOLD = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_ALL_BITS = (1 << 64) - 1

Tokens = npt.NDArray[np.int32]


def stream_tokens(seed: int, start: int, count: int) -> Tokens:
    """int32 [count]: tokens [start, start + count) of the endless stream `seed`."""
    with np.errstate(over="ignore"):
        base = _mix(np.array([seed & _ALL_BITS], dtype=np.uint64) * _GOLD + _SECOND)
        index = np.arange(start, start + count, dtype=np.uint64)
        return (_mix(base + index * _GOLD) % np.uint64(VOCAB_TOKENS)).astype(np.int32)


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))
