"""Uniform numbers for sampling: a pure function of seed, position and purpose (settled decision 7).

Knows no request and no device. A pause, a replay or another batch changes nothing here, so nothing has to be saved.
"""

from __future__ import annotations

import hashlib
import os
import struct

from ninfer.ports.sampling import DrawPurpose

_KEY = struct.Struct("<QQB")
_SEED_MASK = (1 << 64) - 1
_UNIT = 2.0**-53


def uniform(seed: int, position: int, purpose: DrawPurpose = DrawPurpose.TOKEN) -> float:
    """A number in [0, 1) with 53 random bits. Seeds count modulo 2**64; `position` is the logical token position."""
    digest = hashlib.blake2b(_KEY.pack(seed & _SEED_MASK, position, purpose.value), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * _UNIT


def fresh_seed() -> int:
    """A seed for a request that named none. Called once at submission, on the caller's thread."""
    return int.from_bytes(os.urandom(8), "little")
