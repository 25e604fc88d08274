"""Where a generation ends: stop tokens, stop strings, the output budget. Previews a run before it is committed.

Knows token ids and text. A stop string is looked for in the raw text, markers of thinking and tool calls included.
The first stop string that becomes complete ends the output; of several that complete with the same character the one
that starts first wins. That rule reads one character at a time, so the split into tokens changes nothing (SAMP-01).
Within the first `min_tokens` tokens nothing stops: stop tokens are masked at the draw, and a stop string that such a
token completes is plain text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ninfer.ports.device import RunResult
from ninfer.ports.output import FinishReason, TokenOut


class TextDecoder(Protocol):
    """Token ids to whole characters, incrementally."""

    def push(self, token_id: int, /) -> str:
        """Characters that this token completes."""
        ...

    def finish(self) -> str:
        """What is left at the end of the output."""
        ...


class StopStrings:
    """An automaton over all stop strings: its state is the longest suffix of the text that may still become one."""

    __slots__ = ("_depth", "_fail", "_match", "_next")

    def __init__(self, strings: Sequence[str]) -> None:
        assert all(strings), "an empty stop string would stop everything"
        self._next: list[dict[str, int]] = [{}]
        self._depth = [0]
        self._match: list[str | None] = [None]
        for string in strings:
            self._insert(string)
        self._fail = [0] * len(self._next)
        self._link()

    def step(self, state: int, character: str) -> int:
        """The state after one more character; 0 is the start."""
        while state and character not in self._next[state]:
            state = self._fail[state]
        return self._next[state].get(character, 0)

    def depth(self, state: int) -> int:
        """How many of the last characters may be the beginning of a stop string."""
        return self._depth[state]

    def match(self, state: int) -> str | None:
        """The longest stop string that ends here."""
        return self._match[state]

    def _insert(self, string: str) -> None:
        state = 0
        for character in string:
            following = self._next[state].get(character)
            if following is None:
                following = len(self._next)
                self._next[state][character] = following
                self._next.append({})
                self._depth.append(self._depth[state] + 1)
                self._match.append(None)
            state = following
        self._match[state] = string

    def _link(self) -> None:
        ready = deque(self._next[0].values())
        while ready:
            state = ready.popleft()
            for character, following in self._next[state].items():
                self._fail[following] = self.step(self._fail[state], character)
                # A shorter stop string may end inside a longer one that is not complete yet.
                self._match[following] = self._match[following] or self._match[self._fail[following]]
                ready.append(following)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run means: the first `accepted` tokens are committed, `text` and `tokens` may be published.

    `reason` is None while the generation goes on. The stop token counts as accepted, has no text and is not in
    `tokens`; it stands in `stop_token`.
    """

    accepted: int
    text: str
    tokens: tuple[TokenOut, ...]
    reason: FinishReason | None = None
    stop_string: str | None = None
    stop_token: int | None = None


def forbid(token_ids: frozenset[int], vocab_tokens: int) -> bytes:
    """Packed bits over the vocabulary, little-endian within a byte: all but these ids."""
    mask = bytearray(b"\xff" * -(-vocab_tokens // 8))
    for token_id in token_ids:
        mask[token_id // 8] &= ~(1 << token_id % 8)
    return bytes(mask)


class StopWatch:
    """The stop rules of one request, with the text and tokens that are not decided yet.

    A token is published when its text is: one that lies wholly inside a stop string never is.
    """

    __slots__ = (
        "_automaton",
        "_budget",
        "_decoder",
        "_drawn",
        "_early_mask",
        "_held",
        "_min_tokens",
        "_released",
        "_seen",
        "_state",
        "_stops",
    )

    def __init__(
        self,
        decoder: TextDecoder,
        *,
        stop_token_ids: frozenset[int],
        stop_strings: Sequence[str],
        budget_tokens: int,
        min_tokens: int = 0,
        early_mask: bytes | None = None,
    ) -> None:
        """`early_mask`: what may be drawn as one of the first `min_tokens` tokens."""
        assert budget_tokens >= 1
        self._min_tokens = min_tokens
        self._early_mask = early_mask
        self._decoder = decoder
        self._stops = stop_token_ids
        self._automaton = StopStrings(stop_strings) if stop_strings else None
        self._budget = budget_tokens
        self._drawn = 0
        self._state = 0
        self._held = ""
        self._released = 0  # characters published so far
        self._seen: deque[tuple[int, TokenOut]] = deque()  # tokens held back, and where the text of each starts

    @property
    def mask(self) -> bytes | None:
        """What the next draw may give; None: anything."""
        return self._early_mask if self._drawn < self._min_tokens else None

    def preview(self, run: RunResult) -> Verdict:
        """Read a run up to its first stop. What lies behind it is neither accepted nor remembered."""
        text = ""
        tokens: list[TokenOut] = []
        for index, token_id in enumerate(run.token_ids):
            self._drawn += 1
            if token_id in self._stops:
                text += self._flush(tokens)
                return Verdict(index + 1, text, tuple(tokens), FinishReason.STOP, None, token_id)
            out = TokenOut(token_id, run.logprobs[index] if run.logprobs is not None else None)
            piece, found = self._read(self._decoder.push(token_id), out, tokens)
            text += piece
            if found is not None:
                return Verdict(index + 1, text, tuple(tokens), FinishReason.STOP, found)
            if self._drawn == self._budget:
                text += self._flush(tokens)
                return Verdict(index + 1, text, tuple(tokens), FinishReason.LENGTH)
        return Verdict(len(run.token_ids), text, tuple(tokens))

    def close(self) -> Verdict:
        """The output ends from outside (cancel): everything held back is decided now."""
        tokens: list[TokenOut] = []
        text = self._flush(tokens)
        return Verdict(0, text, tuple(tokens), FinishReason.CANCELLED)

    def _read(self, piece: str, out: TokenOut, tokens: list[TokenOut]) -> tuple[str, str | None]:
        """Text released by one token, and the stop string it completed."""
        if self._automaton is None:
            tokens.append(out)
            return piece, None
        self._seen.append((self._released + len(self._held), out))
        text = self._held + piece
        state = self._state
        for index, character in enumerate(piece):
            state = self._automaton.step(state, character)
            found = self._automaton.match(state)
            if found is not None and self._drawn > self._min_tokens:
                end = len(self._held) + index + 1
                kept = text[: end - len(found)]
                self._release(kept, tokens)
                self._held = ""
                self._seen.clear()  # these lie inside the stop string
                return kept, found
        self._state = state
        cut = len(text) - self._automaton.depth(state)
        self._held = text[cut:]
        self._release(text[:cut], tokens)
        return text[:cut], None

    def _release(self, text: str, tokens: list[TokenOut]) -> None:
        """Move the tokens whose text begins in what is published now to `tokens`."""
        self._released += len(text)
        while self._seen and self._seen[0][0] < self._released:
            tokens.append(self._seen.popleft()[1])

    def _flush(self, tokens: list[TokenOut]) -> str:
        rest = self._held + self._decoder.finish()
        self._held = ""
        self._released += len(rest)
        tokens.extend(out for _, out in self._seen)
        self._seen.clear()
        return rest
