"""Rendered text to exact tokens, segment by segment (settled decision 21).

A rendered prompt is split at the template's control tokens; each stretch of text between them is tokenised on its own
by a tokenizer without added tokens, and remembered. That equals encoding the whole, because a byte-level tokenizer
matches added tokens first and treats what lies between them apart. `encode_batch` runs without the interpreter lock.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from threading import Lock

from tokenizers import Tokenizer

from ninfer.base.buffers import IntBuffer
from ninfer.frontend.escape import BREAK, ControlText, unescape
from ninfer.frontend.files import AddedToken

_INT_BYTES = 4


@dataclass(frozen=True, slots=True)
class EncodedText:
    """Tokens of a rendered prompt, and where its pieces end.

    `pieces`: text, control token, text, ..., as split. `char_ends[i]`, `token_ends[i]`: end of piece i in characters
    of the rendered (still protected) text and in tokens; ascending.
    """

    tokens: IntBuffer
    pieces: list[str]
    char_ends: list[int]
    token_ends: list[int]


class SegmentTokenizer:
    """Tokenises rendered and raw text. Safe for use by several threads.

    Tokens of text segments are remembered in two generations: what is used moves to the young one, and when that is
    full the old one is forgotten. A hit costs one look-up and writes nothing.
    """

    def __init__(self, plain: Tokenizer, added: Iterable[AddedToken], *, remembered_chars: int) -> None:
        """`remembered_chars`: bound on the text whose tokens are kept."""
        added = tuple(added)
        self.control = ControlText([token.text for token in added])
        self._plain = plain
        self._control_runs = {token.text: _run([token.id]) for token in added}
        self._generation_chars = remembered_chars // 2
        self._young: dict[str, bytes] = {"": b""}
        self._old: dict[str, bytes] = {}
        self._young_chars = 0
        self._lock = Lock()

    def encode(self, rendered: str) -> EncodedText:
        """Tokens of protected text: control tokens where the template wrote them, plain text everywhere else."""
        pieces = self.control.split(rendered)
        texts = pieces[::2]
        runs = self._encode_pieces([unescape(text) for text in texts] if BREAK in rendered else texts, pieces[1::2])
        char_ends = list(accumulate(map(len, pieces)))
        token_ends = [end // _INT_BYTES for end in accumulate(map(len, runs))]
        return EncodedText(IntBuffer(b"".join(runs)), pieces, char_ends, token_ends)

    def encode_raw(self, text: str) -> IntBuffer:
        """Tokens of a raw prompt, in which the caller may write control tokens (a completion has no template)."""
        pieces = self.control.split(text)
        return IntBuffer(b"".join(self._encode_pieces(pieces[::2], pieces[1::2])))

    def encode_text(self, text: str) -> bytes:
        """Tokens of plain text as int32 bytes; never a control token."""
        return _run(self._plain.encode_batch_fast([text], add_special_tokens=False)[0].ids)

    def frontier_at(self, encoded: EncodedText, position: int) -> int | None:
        """The exact token frontier of a character position of the rendered text, if there is one (D4, D13).

        At the edge of a piece there always is one. Inside a text segment there is one only if the tokens before and
        behind, encoded apart, are the tokens of the whole.
        """
        if position == 0:
            return 0
        piece = bisect_left(encoded.char_ends, position)
        assert piece < len(encoded.pieces), "position lies behind the text"
        if encoded.char_ends[piece] == position:
            return encoded.token_ends[piece]
        if piece % 2:
            return None
        begin, first = self._piece_start(encoded, piece)
        segment = encoded.pieces[piece]
        before = self.encode_text(unescape(segment[: position - begin]))
        behind = self.encode_text(unescape(segment[position - begin :]))
        whole = encoded.tokens.to_bytes(first, encoded.token_ends[piece])
        return first + len(before) // _INT_BYTES if before + behind == whole else None

    def floor_frontier(self, encoded: EncodedText, position: int) -> int:
        """The exact frontier at `position`, or else at the start of the piece that holds it."""
        exact = self.frontier_at(encoded, position)
        if exact is not None:
            return exact
        return self._piece_start(encoded, bisect_left(encoded.char_ends, position))[1]

    def deepest_frontier(self, encoded: EncodedText, position: int) -> int:
        """The deepest token boundary at or before `position` up to which text cut there has the same tokens (D13)."""
        exact = self.frontier_at(encoded, position)
        if exact is not None:
            return exact
        piece = bisect_left(encoded.char_ends, position)
        begin, first = self._piece_start(encoded, piece)
        if piece % 2:
            return first
        before = IntBuffer(self.encode_text(unescape(encoded.pieces[piece][: position - begin])))
        whole = IntBuffer(encoded.tokens.to_bytes(first, encoded.token_ends[piece]))
        return first + before.common_prefix(whole)

    @staticmethod
    def _piece_start(encoded: EncodedText, piece: int) -> tuple[int, int]:
        return (encoded.char_ends[piece - 1], encoded.token_ends[piece - 1]) if piece else (0, 0)

    def _encode_pieces(self, texts: list[str], controls: list[str]) -> list[bytes]:
        """Token runs of text, control token, text, ...; one text more than control tokens."""
        look_up = self._young.get
        found = [look_up(text) for text in texts]
        missing = {text: b"" for text, run in zip(texts, found, strict=True) if run is None}
        runs: list[bytes] = [b""] * (len(texts) + len(controls))
        if missing:
            self._fill(missing)
            found = [missing[text] if run is None else run for text, run in zip(texts, found, strict=True)]
        runs[::2] = [run for run in found if run is not None]
        runs[1::2] = [self._control_runs[control] for control in controls]
        return runs

    def _fill(self, missing: dict[str, bytes]) -> None:
        """Give each text its run, from the old generation or from the tokenizer, and remember it as used."""
        fresh = []
        for text in missing:
            known = self._old.get(text)
            if known is None:
                fresh.append(text)
            else:
                missing[text] = known
        encodings = self._plain.encode_batch_fast(fresh, add_special_tokens=False) if fresh else []
        for text, encoding in zip(fresh, encodings, strict=True):
            missing[text] = _run(encoding.ids)
        with self._lock:
            for text, run in missing.items():
                self._remember(text, run)

    def _remember(self, text: str, run: bytes) -> None:
        if len(text) > self._generation_chars or text in self._young:
            return
        if self._young_chars + len(text) > self._generation_chars:
            self._old, self._young, self._young_chars = self._young, {"": b""}, 0
        self._young[text] = run
        self._young_chars += len(text)


def _run(ids: list[int]) -> bytes:
    return array("i", ids).tobytes()
