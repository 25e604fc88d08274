"""Tokens become whole characters, in constant time a token, whatever the cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_world import BUNDLED_DIR, FIXTURE_DIR, appending, frontend_of, stripping
from tokenizers import Tokenizer

from ninfer.frontend.detokenize import TokenBytes
from ninfer.frontend.files import read_text_files
from ninfer.frontend.frontend import Frontend

DIRS = [FIXTURE_DIR, BUNDLED_DIR]


def decode(frontend: Frontend, tokens: list[int]) -> list[str]:
    detokenizer = frontend.detokenizer()
    return [*(detokenizer.push(token) for token in tokens), detokenizer.finish()]


def byte_tokens(frontend: Frontend) -> dict[int, int]:
    """Byte value -> the token that is just this byte."""
    spelled = {frontend.token_bytes(token): token for token in range(frontend.vocab_size)}
    return {byte: spelled[bytes([byte])] for byte in range(256)}


def test_every_byte_has_a_token() -> None:
    for frontend in (stripping(), appending()):
        assert len(byte_tokens(frontend)) == 256


@pytest.mark.parametrize("model_dir", DIRS, ids=lambda path: path.name)
def test_text_comes_back_as_the_reference_decodes_it(model_dir) -> None:
    """[B1] pieces joined equal the reference's decoding without special tokens, for legal text."""
    frontend, whole = frontend_of(model_dir), Tokenizer.from_file(str(model_dir / "tokenizer.json"))

    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(st.text(max_size=30), st.sampled_from(["", "<think>", "</tool_call>"]))
    def compare(text: str, tag: str) -> None:
        ids = whole.encode(text + tag + text, add_special_tokens=False).ids
        pieces = decode(frontend, ids)
        assert "".join(pieces) == whole.decode(ids, skip_special_tokens=True)

    compare()


def test_a_character_cut_over_tokens_appears_when_it_is_whole() -> None:
    """SAMP-03: byte by byte; nothing but whole characters in any piece."""
    frontend = stripping()
    tokens = byte_tokens(frontend)
    text = "🧑‍🚀 修复 é"
    pieces = decode(frontend, [tokens[byte] for byte in text.encode()])
    assert "".join(pieces) == text
    assert all(len(piece) <= 1 for piece in pieces)
    assert "\ufffd" not in "".join(pieces)
    assert pieces[:4] == ["", "", "", "🧑"]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.binary(max_size=24))
def test_any_bytes_decode_as_all_at_once(data: bytes) -> None:
    """SAMP-03: U+FFFD only for what is really invalid, or cut off at the end; the stream never stalls."""
    frontend = stripping()
    tokens = byte_tokens(frontend)
    pieces = decode(frontend, [tokens[byte] for byte in data])
    assert "".join(pieces) == data.decode("utf-8", "replace")
    for count in range(len(data) + 1):
        waiting = len(data[:count].decode("utf-8", "replace")) - sum(map(len, pieces[:count]))
        assert 0 <= waiting <= 3


def test_an_invalid_byte_does_not_hold_back_what_follows() -> None:
    frontend = stripping()
    tokens = byte_tokens(frontend)
    pieces = decode(frontend, [tokens[byte] for byte in b"\xe4\xbdab\xff"])
    assert pieces == ["", "", "\ufffda", "b", "\ufffd", ""]
    assert decode(frontend, [tokens[0xE4]]) == ["", "\ufffd"]


@pytest.mark.parametrize("model_dir", DIRS, ids=lambda path: path.name)
def test_special_tokens_give_no_text_and_tags_give_theirs(model_dir) -> None:
    """[A] special tokens are silent, think and tool tags are text; log-probabilities spell both."""
    frontend = frontend_of(model_dir)
    for token in read_text_files(model_dir).added:
        assert "".join(decode(frontend, [token.id])) == ("" if token.special else token.text)
        assert frontend.token_bytes(token.id) == token.text.encode()
    for missing in (-1, frontend.vocab_size, frontend.vocab_size + 50, 10**9):
        assert frontend.token_bytes(missing) == b""
        assert decode(frontend, [missing]) == ["", ""]


def test_a_token_is_looked_up_once() -> None:
    """O(1) a token: the second time nothing is asked of the tokenizer."""
    files = read_text_files(FIXTURE_DIR)
    token_bytes = TokenBytes(files.plain, files.added)
    first = [token_bytes.shown(token) for token in range(files.vocab_tokens)]
    token_bytes._plain = None
    assert [token_bytes.shown(token) for token in range(files.vocab_tokens)] == first
