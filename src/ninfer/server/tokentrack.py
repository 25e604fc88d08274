"""Which token belongs to which channel, for `logprobs` and for `reasoning_tokens` (SAMP-09).

Knows the raw text as the engine emits it (characters counted from 0) and the bytes of each token. The channel parser
says which ranges of that text are reasoning and content; this file says which tokens lie there. A character may span
tokens and a token may hold several characters, so ranges are compared in characters and reported in bytes.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ninfer.ports.output import TokenOut
from ninfer.ports.sampling import TokenLogprobs


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """One content token. `piece`: its bytes that are content: all of them, but where a stop string or a marker cuts
    through the token. `top`: alternatives as (bytes, log-probability), highest first."""

    piece: bytes
    logprob: float
    top: tuple[tuple[bytes, float], ...]


@dataclass(slots=True)
class _Tracked:
    """A token that later ranges may still claim. `owners`: for each byte, the index of the character it is part of."""

    data: bytes
    owners: list[int]
    logprobs: TokenLogprobs | None
    claimed: bytearray = field(default_factory=bytearray)
    in_reasoning: bool = False


class TokenTrack:
    """Follows one answer. `wants_entries`: collect log-probability entries, not only counts."""

    def __init__(self, token_bytes: Callable[[int], bytes], *, wants_entries: bool) -> None:
        self._token_bytes = token_bytes
        self._wants_entries = wants_entries
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._characters = 0
        self._open: deque[_Tracked] = deque()
        self.reasoning_tokens = 0

    def add_tokens(self, tokens: Sequence[TokenOut]) -> None:
        """Tokens in the order of the text; their text may come later."""
        for token in tokens:
            data = self._token_bytes(token.token_id)
            owners = [self._place(data[index : index + 1]) for index in range(len(data))]
            self._open.append(_Tracked(data, owners, token.logprobs))

    def claim_reasoning(self, start: int, text: str) -> None:
        """Characters [start, start + len(text)) are reasoning."""
        stop = start + len(text)
        for token in self._open:
            if not token.owners or token.in_reasoning:
                continue
            if token.owners[0] >= stop:
                break
            if token.owners[-1] >= start:
                token.in_reasoning = True
                self.reasoning_tokens += 1
        self._drop_before(stop)

    def claim_content(self, start: int, text: str) -> tuple[TokenEntry, ...]:
        """Characters [start, start + len(text)) are content. Entries of the tokens that end with them."""
        stop = start + len(text)
        if self._wants_entries:
            for token in self._open:
                if token.owners and token.owners[0] >= stop:
                    break
                token.claimed.extend(
                    byte for byte, owner in zip(token.data, token.owners, strict=True) if start <= owner < stop
                )
        return self._drop_before(stop)

    def finish(self) -> tuple[TokenEntry, ...]:
        """Entries of tokens that are content in part: what follows of them is in no channel."""
        rest = tuple(_make_entry(token, self._token_bytes) for token in self._open if token.claimed)
        self._open.clear()
        return rest

    def _drop_before(self, frontier: int) -> tuple[TokenEntry, ...]:
        """Let go of tokens that lie wholly below a decided position."""
        entries = []
        while self._open and (not self._open[0].owners or self._open[0].owners[-1] < frontier):
            token = self._open.popleft()
            if token.claimed:
                entries.append(_make_entry(token, self._token_bytes))
        return tuple(entries)

    def _place(self, byte: bytes) -> int:
        """Index of the character that one more byte belongs to."""
        before = self._characters
        self._characters += len(self._decoder.decode(byte))
        return max(before, self._characters - 1)


def _make_entry(token: _Tracked, token_bytes: Callable[[int], bytes]) -> TokenEntry:
    chosen = token.logprobs
    assert chosen is not None, "log-probabilities were asked for"
    top = tuple((token_bytes(token_id), value) for token_id, value in chosen.top)
    return TokenEntry(bytes(token.claimed), chosen.chosen, top)
