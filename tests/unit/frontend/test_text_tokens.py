"""Tokens by segment equal tokens of the whole; frontiers are exact; digests of a warm turn equal cold ones."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_world import BUNDLED_DIR, FIXTURE_DIR, IDENTITY, appending, chat, frontend_of, stripping, user
from tokenizers import Tokenizer

from ninfer.base.buffers import IntBuffer
from ninfer.base.errors import BadInput
from ninfer.base.identity import PrefixDigests
from ninfer.frontend.digests import RecentDigests
from ninfer.frontend.files import read_text_files
from ninfer.frontend.frontend import Frontend
from ninfer.frontend.tokens import SegmentTokenizer

DIRS = [FIXTURE_DIR, BUNDLED_DIR]
CONTROL = [token.text for token in read_text_files(FIXTURE_DIR).added]
pieces = st.lists(
    st.sampled_from([*CONTROL, "<|im_", "<think", "</", "<", ">", "\n", "\n\n", "  ", "\t", "the order", "it's", "12"])
    | st.text(alphabet="ab eé\u0301\u0338日한🙂\r\n 0<|>", max_size=6),
    max_size=12,
)


def segment_tokenizer(model_dir: Path, remembered_chars: int = 10_000) -> SegmentTokenizer:
    files = read_text_files(model_dir)
    return SegmentTokenizer(files.plain, files.added, remembered_chars=remembered_chars)


@pytest.mark.parametrize("model_dir", DIRS, ids=lambda path: path.name)
def test_tokens_by_segment_equal_tokens_of_the_whole(model_dir: Path) -> None:
    """[decision 21] for any text, control tokens included, first seen and remembered."""
    tokens, whole = segment_tokenizer(model_dir), Tokenizer.from_file(str(model_dir / "tokenizer.json"))

    @settings(max_examples=300, deadline=None, derandomize=True)
    @given(pieces)
    def compare(parts: list[str]) -> None:
        text = "".join(parts)
        expected = whole.encode(text, add_special_tokens=False).ids
        for _ in range(2):
            encoded = tokens.encode(text)
            assert list(encoded.tokens) == expected
            assert encoded.char_ends[-1] == len(text)
            assert encoded.token_ends[-1] == len(expected)
        assert list(tokens.encode_raw(text)) == expected

    compare()


@pytest.mark.parametrize("model_dir", DIRS, ids=lambda path: path.name)
def test_a_frontier_is_exact_or_there_is_none(model_dir: Path) -> None:
    """[D4] [D13] tokens before and behind a frontier are the tokens of the text before and behind it."""
    tokens = segment_tokenizer(model_dir)

    @settings(max_examples=150, deadline=None, derandomize=True)
    @given(pieces, st.randoms(use_true_random=False))
    def check(parts: list[str], rng: random.Random) -> None:
        text = "".join(parts)
        encoded = tokens.encode(text)
        for position in {0, len(text), *(rng.randint(0, len(text)) for _ in range(4))}:
            frontier = tokens.frontier_at(encoded, position)
            before, behind = list(tokens.encode(text[:position]).tokens), list(tokens.encode(text[position:]).tokens)
            if frontier is not None:
                assert before == list(encoded.tokens)[:frontier]
                assert behind == list(encoded.tokens)[frontier:]
            elif not any(control in text for control in CONTROL):
                assert before + behind != list(encoded.tokens)
            assert tokens.floor_frontier(encoded, position) <= encoded.token_ends[-1]

    check()


def test_a_frontier_inside_a_merge_does_not_exist() -> None:
    """[D13] a position inside one BPE token, or inside a control token, is no frontier."""
    tokens = segment_tokenizer(FIXTURE_DIR)
    encoded = tokens.encode("the<|im_end|>the")
    assert len(encoded.tokens) < len("the") + 1 + len("the")
    assert tokens.frontier_at(encoded, 1) == 1
    assert tokens.frontier_at(encoded, 2) is None
    assert tokens.frontier_at(encoded, 5) is None
    assert tokens.frontier_at(encoded, 3) == encoded.token_ends[0]
    assert tokens.floor_frontier(encoded, 5) == encoded.token_ends[0]


def test_remembered_text_stays_within_its_bound() -> None:
    """[C5] old segments are forgotten; the tokens stay right."""
    tokens = segment_tokenizer(FIXTURE_DIR, remembered_chars=400)
    expected = {}
    for number in range(200):
        text = f"segment number {number} of many"
        expected[text] = list(tokens.encode(text).tokens)
        held = sum(map(len, tokens._young)) + sum(map(len, tokens._old))
        assert held <= 400
    for text, ids in expected.items():
        assert list(tokens.encode(text).tokens) == ids


def test_threads_share_one_frontend() -> None:
    """Several requests are prepared at once; each gets the tokens it would get alone."""
    frontend = Frontend.from_dir(BUNDLED_DIR, IDENTITY, 64)
    chats = [chat(*(user(f"word {n % (k + 2)} and {k}") for n in range(40))) for k in range(8)]
    alone = [list(appending().plan_chat(one).tokens) for one in chats]
    wrong: list[int] = []

    def prepare(number: int) -> None:
        for _ in range(5):
            if list(frontend.plan_chat(chats[number]).tokens) != alone[number]:
                wrong.append(number)

    threads = [threading.Thread(target=prepare, args=(number,)) for number in range(len(chats))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def fresh_chain(tokens: IntBuffer) -> PrefixDigests:
    digests = PrefixDigests(IDENTITY)
    digests.extend_to(tokens, len(tokens))
    return digests


def all_digests(digests: PrefixDigests) -> list[bytes]:
    return [digests.at_page(page) for page in range(digests.pages + 1)]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 700), st.integers(0, 300), st.integers(0, 2)), min_size=2, max_size=10))
def test_digests_of_a_warm_turn_equal_cold_ones(turns: list[tuple[int, int, int]]) -> None:
    """[D10] whatever was seen before: appended, cut, branched."""
    recent = RecentDigests(IDENTITY, remembered_prompts=3)
    ledger: list[int] = []
    for keep, more, salt in turns:
        ledger = [*ledger[:keep], *(salt * 1000 + n for n in range(more))]
        tokens = IntBuffer(ledger)
        assert all_digests(recent.chain_of(tokens)) == all_digests(fresh_chain(tokens))


def test_a_plan_owns_its_digests_and_tokens() -> None:
    """The engine appends to both; later plans must not see it."""
    frontend = Frontend.from_dir(FIXTURE_DIR, IDENTITY, 4096)
    first = frontend.plan_text("hello there " * 30)
    prompt = len(first.tokens)
    first.tokens.extend([7] * 100)
    first.digests.extend_to(first.tokens, len(first.tokens))
    second = frontend.plan_text("hello there " * 30)
    assert len(second.tokens) == prompt
    assert all_digests(second.digests) == all_digests(fresh_chain(second.tokens))


@pytest.mark.parametrize("tokens", [[-1], [0, 317], [2**40], [0, -(2**70)]])
def test_token_ids_that_do_not_exist_are_refused(tokens: list[int]) -> None:
    """SAMP-06 out-of-vocabulary ids name the field and the place."""
    with pytest.raises(BadInput, match=f"position {len(tokens) - 1}") as caught:
        stripping().plan_tokens(tokens)
    assert caught.value.param == "prompt"


def test_raw_input_is_kept_at_its_end() -> None:
    """[D3] text and tokens without a typed rewrite: P is the recovery position; control tokens may be spelled."""
    frontend = stripping()
    by_text = frontend.plan_text("<|im_start|>user\nHi<|im_end|>")
    by_ids = frontend.plan_tokens(list(by_text.tokens))
    for plan in (by_text, by_ids):
        assert plan.recovery_frontier == len(plan.tokens)
        assert plan.rewrite is None
        assert plan.rewrite_point is None
        assert plan.execution_frontiers == ()
        assert plan.stop_token_ids == {284, 286}
    assert by_ids.tokens == by_text.tokens
    assert by_text.tokens[0] == 285
    assert len(frontend.plan_tokens([]).tokens) == 0
    assert len(frontend_of(FIXTURE_DIR).plan_text("").tokens) == 0
