"""Amounts over the typed pools, page arithmetic, clocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ninfer.base.clock import ManualClock
from ninfer.base.frontier import page_of, pages_for, tail_tokens
from ninfer.base.outcome import Shortfall, find_shortfall
from ninfer.base.pools import PAGE_TOKENS, ZERO, Amounts, Pool

AMOUNTS = st.builds(Amounts, *(st.integers(0, 50) for _ in Pool))


@given(AMOUNTS, AMOUNTS)
def test_amounts_are_a_vector(left: Amounts, right: Amounts) -> None:
    total = left + right
    assert all(total[pool] == left[pool] + right[pool] for pool in Pool)
    assert total - right == left
    assert Amounts.of(dict(left.items())) == left
    assert left + ZERO == left


@given(AMOUNTS, AMOUNTS)
def test_a_shortfall_names_the_first_short_device_pool(need: Amounts, free: Amounts) -> None:
    gap = find_shortfall(need, free)
    device = (Pool.STATE, Pool.MAIN_KV, Pool.MTP_KV, Pool.DFLASH_KV)
    short = [pool for pool in device if need[pool] > free[pool]]
    assert gap == (Shortfall(short[0], need[short[0]], free[short[0]]) if short else None)
    assert gap is None or gap.gap == gap.need - gap.free > 0


@given(st.integers(0, 10**6))
def test_pages(tokens: int) -> None:
    assert pages_for(tokens) == sum(1 for _ in range(0, tokens, PAGE_TOKENS))
    assert page_of(tokens) * PAGE_TOKENS + tail_tokens(tokens) == tokens


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(5.0)
    assert clock.now() == clock.now() == 5.0
    clock.advance(1.5)
    assert clock.now() == 6.5
