"""Which token belongs to which channel, for `logprobs` and for `reasoning_tokens` (SAMP-09).

Knows the raw text as the engine emits it and the bytes of each token. The channel parser gives the text of each
channel in order; the rest of the raw text are markers, blank lines around them and calls. So each piece is found again
behind the one before it, and this file says which tokens lie there. A character may span tokens and a token may hold
several characters, so places are counted in characters and reported in bytes.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ninfer.ports.output import TokenOut
from ninfer.ports.sampling import TokenLogprobs

_THINK_MARKERS = ("<think>", "</think>")
_CALL_CLOSE = "</tool_call>"


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """One content token. `piece`: its bytes that are content: all of them, but where a stop string or a marker cuts
    through the token. `top`: alternatives as (bytes, log-probability), highest first."""

    piece: bytes
    logprob: float
    top: tuple[tuple[bytes, float], ...]


@dataclass(slots=True)
class _Tracked:
    """A token that later pieces may still claim. `owners`: for each byte, the index of the character it is part of."""

    data: bytes
    owners: Sequence[int]
    logprobs: TokenLogprobs | None
    claimed: bytearray = field(default_factory=bytearray)


class TokenTrack:
    """Follows one answer.

    `shown_bytes`: what a token adds to the raw text; `token_bytes`: what it spells, for the alternatives.
    `wants_entries`: collect log-probability entries, not only counts.
    """

    def __init__(
        self,
        shown_bytes: Callable[[int], bytes],
        token_bytes: Callable[[int], bytes],
        *,
        wants_entries: bool,
    ) -> None:
        self._shown_bytes = shown_bytes
        self._token_bytes = token_bytes
        self._wants_entries = wants_entries
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._characters = 0
        self._open: deque[_Tracked] = deque()
        self._text = ""  # raw text from `_frontier` on
        self._frontier = 0
        self._in_reasoning = False
        self._calls = 0
        self.reasoning_tokens = 0

    def add(self, text: str, tokens: Sequence[TokenOut]) -> None:
        """More raw text, and tokens in its order; either may be ahead of the other."""
        self._text += text
        for token in tokens:
            data = self._shown_bytes(token.token_id)
            self._open.append(_Tracked(data, self._place(data), token.logprobs))

    def note_call(self) -> None:
        """A call was read; its text lies before whatever is claimed next."""
        self._calls += 1

    def claim_reasoning(self, text: str) -> None:
        """This text is the next piece of reasoning."""
        start, stop = self._move_to(text, is_reasoning=True)
        for token in self._open:
            if token.owners and token.owners[0] >= stop:
                break
            if token.owners and token.owners[-1] >= start and not token.claimed:
                token.claimed.append(0)  # a mark: counted once, though more of the token may follow
                self.reasoning_tokens += 1
        while self._open and self._lies_below(self._open[0], stop):
            self._open.popleft()

    def claim_content(self, text: str) -> tuple[TokenEntry, ...]:
        """This text is the next piece of content. Entries of the tokens that end with it."""
        start, stop = self._move_to(text, is_reasoning=False)
        if not self._wants_entries:
            while self._open and self._lies_below(self._open[0], stop):
                self._open.popleft()
            return ()
        for token in self._open:
            if token.owners and token.owners[0] >= stop:
                break
            pairs = zip(token.data, token.owners, strict=True)
            token.claimed.extend(byte for byte, owner in pairs if start <= owner < stop)
        return tuple(self._close_below(stop))

    def finish(self) -> tuple[TokenEntry, ...]:
        """Entries of tokens that are content in part: what follows of them is in no channel."""
        return tuple(self._close_below(self._characters + 1)) if self._wants_entries and not self._in_reasoning else ()

    def _move_to(self, text: str, *, is_reasoning: bool) -> tuple[int, int]:
        """Find the piece; its characters [start, stop)."""
        skipped = self._find(text, is_reasoning=is_reasoning)
        if self._in_reasoning and not is_reasoning:
            for token in self._open:
                token.claimed.clear()
        self._in_reasoning, self._calls = is_reasoning, 0
        start = self._frontier + skipped
        self._text = self._text[skipped + len(text) :]
        self._frontier = start + len(text)
        return start, self._frontier

    def _find(self, text: str, *, is_reasoning: bool) -> int:
        """Characters between the last piece and this one."""
        for place in self._list_places(is_reasoning=is_reasoning):
            while not self._text.startswith(text, place) and self._text[place : place + 1].isspace():
                place += 1
            if self._text.startswith(text, place):
                return place
        return max(self._text.find(text), 0)

    def _list_places(self, *, is_reasoning: bool) -> Iterator[int]:
        """Where the piece may begin, blank lines aside; the likeliest first."""
        if self._calls:
            place = 0
            for passed in range(1, len(self._text)):
                found = self._text.find(_CALL_CLOSE, place)
                if found < 0:
                    break
                place = found + len(_CALL_CLOSE)
                if passed >= self._calls:
                    yield place
        elif self._frontier == 0:
            lead = len(self._text) - len(self._text.lstrip())
            yield from (lead + len(word) for word in _THINK_MARKERS if self._text.startswith(word, lead))
        elif self._in_reasoning and not is_reasoning:
            close = self._text.find(_THINK_MARKERS[1])
            if close >= 0:
                yield close + len(_THINK_MARKERS[1])
        yield 0

    def _close_below(self, frontier: int) -> Iterator[TokenEntry]:
        """Let go of tokens that lie wholly below a decided character."""
        while self._open and self._lies_below(self._open[0], frontier):
            token = self._open.popleft()
            if token.claimed:
                yield self._make_entry(token)

    @staticmethod
    def _lies_below(token: _Tracked, frontier: int) -> bool:
        return not token.owners or token.owners[-1] < frontier

    def _place(self, data: bytes) -> Sequence[int]:
        """For each byte, the index of the character it belongs to."""
        first = self._characters
        if data.isascii() and not self._decoder.getstate()[0]:
            self._characters += len(data)
            return range(first, self._characters)
        owners = []
        for index in range(len(data)):
            before = self._characters
            self._characters += len(self._decoder.decode(data[index : index + 1]))
            owners.append(max(before, self._characters - 1))
        return owners

    def _make_entry(self, token: _Tracked) -> TokenEntry:
        chosen = token.logprobs
        assert chosen is not None, "log-probabilities were asked for"
        top = tuple((self._token_bytes(token_id), value) for token_id, value in chosen.top)
        return TokenEntry(bytes(token.claimed), chosen.chosen, top)
