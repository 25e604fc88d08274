"""How far two histories agree: exact to the token, in a few comparisons (settled decision 14, V-06)."""

from __future__ import annotations

import random

import pytest

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import PrefixDigests
from ninfer.resource.continuation import History


def history(tokens: list[int], digested: int, identity: bytes = b"x") -> History:
    buffer = IntBuffer(tokens)
    digests = PrefixDigests(identity)
    digests.extend_to(buffer, digested)
    return History(buffer, digests)


@pytest.mark.parametrize("seed", range(60))
def test_the_match_is_the_longest_common_prefix(seed: int) -> None:
    rng = random.Random(seed)
    shared = [rng.randrange(50) for _ in range(rng.randrange(400))]
    mine = shared + [rng.randrange(50) for _ in range(rng.randrange(200))]
    theirs = shared + [rng.randrange(50) for _ in range(rng.randrange(200))]
    expected = next(
        (index for index, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs))
    )
    left = history(mine, rng.randint(0, len(mine)))
    right = history(theirs, rng.randint(0, len(theirs)))
    assert left.match(right.tokens, right.digests) == expected
    assert right.match(left.tokens, left.digests) == expected


def test_histories_of_different_models_never_match() -> None:
    """[D10]"""
    left, right = history([1, 2, 3], 3), history([1, 2, 3], 3, b"other")
    assert left.match(right.tokens, right.digests) == 0
