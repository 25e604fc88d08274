"""Rendered text to exact tokens, segment by segment (settled decision 21).

A rendered prompt is split at the template's control tokens; each stretch of text between them is tokenised on its own
by a tokenizer without added tokens, and remembered. That equals encoding the whole, because a byte-level tokenizer
matches added tokens first and treats what lies between them apart. `encode_batch` runs without the interpreter lock.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from threading import Lock

from tokenizers import Tokenizer

from ninfer.base.buffers import IntBuffer
from ninfer.frontend.escape import ControlText, unescape
from ninfer.frontend.files import AddedToken

_NO_TOKENS = array("i")


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
    """Tokenises rendered and raw text. Safe for use by several threads."""

    def __init__(self, plain: Tokenizer, added: Iterable[AddedToken], *, remembered_chars: int) -> None:
        """`remembered_chars`: bound on the text whose tokens are kept."""
        added = tuple(added)
        self.control = ControlText([token.text for token in added])
        self._plain = plain
        self._control_tokens = {token.text: array("i", [token.id]) for token in added}
        self._capacity_chars = remembered_chars
        self._remembered: OrderedDict[str, array[int]] = OrderedDict()
        self._remembered_chars = 0
        self._lock = Lock()

    def encode(self, rendered: str) -> EncodedText:
        """Tokens of protected text: control tokens where the template wrote them, plain text everywhere else."""
        pieces = self.control.split(rendered)
        runs = self._encode_pieces(pieces)
        tokens = IntBuffer(b"".join([run.tobytes() for run in runs]))
        char_ends = list(accumulate(map(len, pieces)))
        token_ends = list(accumulate(map(len, runs)))
        return EncodedText(tokens, pieces, char_ends, token_ends)

    def encode_raw(self, text: str) -> IntBuffer:
        """Tokens of a raw prompt, in which the caller may write control tokens (a completion has no template)."""
        return IntBuffer(b"".join([run.tobytes() for run in self._encode_pieces(self.control.split(text), raw=True)]))

    def encode_text(self, text: str) -> array[int]:
        """Tokens of plain text; never a control token."""
        return array("i", self._plain.encode_batch_fast([text], add_special_tokens=False)[0].ids)

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
        return first + len(before) if (before + behind).tobytes() == whole else None

    def floor_frontier(self, encoded: EncodedText, position: int) -> int:
        """The exact frontier at `position`, or else at the start of the piece that holds it."""
        exact = self.frontier_at(encoded, position)
        if exact is not None:
            return exact
        return self._piece_start(encoded, bisect_left(encoded.char_ends, position))[1]

    @staticmethod
    def _piece_start(encoded: EncodedText, piece: int) -> tuple[int, int]:
        return (encoded.char_ends[piece - 1], encoded.token_ends[piece - 1]) if piece else (0, 0)

    def _encode_pieces(self, pieces: list[str], *, raw: bool = False) -> list[array[int]]:
        runs: list[array[int]] = []
        missing: dict[str, list[int]] = {}
        remembered, control = self._remembered, self._control_tokens
        with self._lock:
            for place, piece in enumerate(pieces):
                if place % 2:
                    runs.append(control[piece])
                    continue
                text = piece if raw else unescape(piece)
                run = remembered.get(text) if text else _NO_TOKENS
                if run is None:
                    missing.setdefault(text, []).append(place)
                    run = _NO_TOKENS
                elif text:
                    remembered.move_to_end(text)
                runs.append(run)
        if missing:
            for (text, places), run in zip(missing.items(), self._encode_new(list(missing)), strict=True):
                for place in places:
                    runs[place] = run
                self._remember(text, run)
        return runs

    def _encode_new(self, texts: list[str]) -> list[array[int]]:
        encodings = self._plain.encode_batch_fast(texts, add_special_tokens=False)
        return [array("i", encoding.ids) for encoding in encodings]

    def _remember(self, text: str, run: array[int]) -> None:
        if len(text) * 2 > self._capacity_chars:
            return
        with self._lock:
            if text not in self._remembered:
                self._remembered[text] = run
                self._remembered_chars += len(text)
            while self._remembered_chars > self._capacity_chars:
                dropped, _ = self._remembered.popitem(last=False)
                self._remembered_chars -= len(dropped)
