"""Tokens to text, one at a time, never half a character (SAMP-03).

Knows the byte alphabet of byte-level BPE. Knows nothing of stops, channels or requests.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from tokenizers import Tokenizer

from ninfer.frontend.files import AddedToken


class TokenBytes:
    """The bytes behind each token id; looked up once, then remembered."""

    def __init__(self, plain: Tokenizer, added: Iterable[AddedToken]) -> None:
        added = tuple(added)
        self._plain = plain
        self._byte_of = _byte_alphabet()
        self._spelling = {token.id: token.text.encode() for token in added}
        self._shown = {token.id: b"" if token.special else token.text.encode() for token in added}

    def spelling(self, token_id: int) -> bytes:
        """Bytes of a token, control tokens spelled out; empty for an id without a token."""
        found = self._spelling.get(token_id)
        return self._look_up(token_id) if found is None else found

    def shown(self, token_id: int) -> bytes:
        """Bytes a token adds to the output: nothing for a special token."""
        found = self._shown.get(token_id)
        return self._look_up(token_id) if found is None else found

    def _look_up(self, token_id: int) -> bytes:
        token = self._plain.id_to_token(token_id) if token_id >= 0 else None
        value = b"" if token is None else b"".join(self._bytes_of(char) for char in token)
        self._spelling[token_id] = self._shown[token_id] = value
        return value

    def _bytes_of(self, char: str) -> bytes:
        byte = self._byte_of.get(char)
        return char.encode() if byte is None else bytes([byte])


class Detokenizer:
    """Turns one request's tokens into text, each `push` in constant time.

    The pieces joined are the UTF-8 decoding of all bytes at once; U+FFFD stands only for bytes that are really
    invalid, or cut off at the end.
    """

    __slots__ = ("_bytes", "_decoder")

    def __init__(self, token_bytes: TokenBytes) -> None:
        self._bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        """The characters that this token completes; may be empty."""
        return self._decoder.decode(self._bytes.shown(token_id))

    def finish(self) -> str:
        """What an unfinished character at the end becomes."""
        return self._decoder.decode(b"", final=True)


def _byte_alphabet() -> dict[str, int]:
    """The printable stand-in of each byte in a byte-level vocabulary.

    Visible Latin-1 characters stand for themselves; the other bytes, in order, for the code points from 256 up.
    """
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    alphabet = {chr(byte): byte for byte in visible}
    alphabet.update({chr(256 + order): byte for order, byte in enumerate(hidden)})
    return alphabet
