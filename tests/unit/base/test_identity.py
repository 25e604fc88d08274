"""A digest narrows, tokens and media decide [D10]."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import MediaSpan, PrefixDigests, PrefixIdentity
from ninfer.base.pools import PAGE_TOKENS

TOKENS = st.lists(st.integers(0, 3), min_size=0, max_size=5 * PAGE_TOKENS)


@given(TOKENS, st.lists(st.integers(0, 5 * PAGE_TOKENS), max_size=4))
def test_digests_do_not_depend_on_the_steps_that_made_them(values: list[int], steps: list[int]) -> None:
    tokens = IntBuffer(values)
    whole, stepwise = PrefixDigests(b"m"), PrefixDigests(b"m")
    whole.extend_to(tokens, len(tokens))
    for step in sorted(min(step, len(tokens)) for step in steps):
        stepwise.extend_to(tokens, step)
    stepwise.extend_to(tokens, len(tokens))
    pages = len(tokens) // PAGE_TOKENS
    assert whole.pages == stepwise.pages == pages
    assert [whole.at_page(n) for n in range(pages + 1)] == [stepwise.at_page(n) for n in range(pages + 1)]


def test_one_token_changes_every_later_digest_and_no_earlier_one() -> None:
    values = list(range(4 * PAGE_TOKENS))
    changed = list(values)
    changed[PAGE_TOKENS + 3] += 1
    chains = []
    for each in (values, changed):
        chain = PrefixDigests(b"m")
        chain.extend_to(IntBuffer(each), len(each))
        chains.append([chain.at_page(n) for n in range(5)])
    assert chains[0][:2] == chains[1][:2]
    assert all(a != b for a, b in zip(chains[0][2:], chains[1][2:], strict=True))


def test_execution_identity_and_media_part_equal_tokens() -> None:
    tokens = IntBuffer([7] * 130)
    span = MediaSpan(3, 9, b"red", (1, 4, 6))
    plain, other, media = PrefixDigests(b"m"), PrefixDigests(b"n"), PrefixDigests(b"m", (span,))
    for chain in (plain, other, media):
        chain.extend_to(tokens, 130)
    assert len({chain.at_page(2) for chain in (plain, other, media)}) == 3

    point = PrefixIdentity(b"m", tokens, 100, (span,))
    assert point.is_prefix_of(tokens, b"m", (span,))
    assert not point.is_prefix_of(tokens, b"n", (span,))
    assert not point.is_prefix_of(tokens, b"m", (MediaSpan(3, 9, b"blue", (1, 4, 6)),))
    assert not point.is_prefix_of(tokens, b"m", (MediaSpan(3, 9, b"red", (1, 6, 4)),))
    assert not point.is_prefix_of(tokens, b"m")
    assert not PrefixIdentity(b"m", tokens, 5, (span,)).is_prefix_of(tokens, b"m", (span,)), "cut inside a picture"


@given(TOKENS, TOKENS, st.integers(0, 5 * PAGE_TOKENS))
def test_a_point_fits_exactly_the_prompts_that_begin_with_it(mine: list[int], theirs: list[int], cut: int) -> None:
    frontier = min(cut, len(mine))
    point = PrefixIdentity(b"m", IntBuffer(mine), frontier)
    assert point.is_prefix_of(IntBuffer(theirs), b"m") is (theirs[:frontier] == mine[:frontier])
    assert point.is_prefix_of(IntBuffer(mine[:frontier] + theirs), b"m")


def test_a_fork_of_a_chain_goes_its_own_way() -> None:
    tokens = IntBuffer(range(300))
    parent = PrefixDigests(b"m")
    parent.extend_to(tokens, 300)
    child = parent.fork(2)
    child.extend_to(IntBuffer([*range(128), *([9] * 100)]), 228)
    assert child.at_page(2) == parent.at_page(2)
    assert child.at_page(3) != parent.at_page(3)
