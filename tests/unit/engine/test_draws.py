"""Uniform numbers: a pure function of seed, position and purpose (settled decision 7, K4)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer.engine.draws import fresh_seed, uniform
from ninfer.ports.sampling import DrawPurpose


@settings(derandomize=True, database=None, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_the_same_key_gives_the_same_number_in_the_unit_interval(seed: int, position: int) -> None:
    first = uniform(seed, position)
    assert 0.0 <= first < 1.0
    assert first == uniform(seed, position)
    assert (first * 2**53).is_integer()


def test_known_values_do_not_move() -> None:
    """A replay on another version of the engine must draw what was drawn before [K4]."""
    assert uniform(0, 0) == 0.1715401303266132
    assert uniform(1, 1000) == 0.8822874068119061
    assert uniform(1, 1000, DrawPurpose.DRAFT_ACCEPT) == 0.5649961910121111


def test_seed_position_and_purpose_all_count() -> None:
    numbers = {
        uniform(seed, position, purpose) for seed in range(20) for position in range(20) for purpose in DrawPurpose
    }
    assert len(numbers) == 20 * 20 * len(DrawPurpose)


def test_seeds_count_modulo_64_bits() -> None:
    assert uniform(-1, 5) == uniform(2**64 - 1, 5)


def test_the_numbers_are_spread_evenly() -> None:
    numbers = [uniform(7, position) for position in range(20_000)]
    assert abs(sum(numbers) / len(numbers) - 0.5) < 0.01
    tenths = [sum(1 for number in numbers if int(number * 10) == tenth) for tenth in range(10)]
    assert all(abs(count - 2000) < 200 for count in tenths)


def test_fresh_seeds_differ() -> None:
    assert len({fresh_seed() for _ in range(100)}) == 100
