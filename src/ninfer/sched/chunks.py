"""How long a prefill chunk may be while others decode: as many tokens as fit into the gap they may wait (J7, D part 1).

Pure arithmetic over what was seen. The work of a chunk grows with its tokens and with the context they attend to; the
rate is that of recent chunks. Ends lie on multiples of 64 tokens of the history, where a cut of the recurrent scan
changes nothing (settled decision 6).
"""

from __future__ import annotations

from dataclasses import dataclass

from ninfer.base.pools import PAGE_TOKENS

_NEWEST_SHARE = 0.3
"""How much the newest chunk counts in the running rate."""


@dataclass(frozen=True, slots=True)
class PrefillWork:
    """What prompt tokens cost, in any unit of work: each token by itself, and each pair of a token and a position."""

    per_token: float
    per_pair: float

    def of(self, frontier: int, tokens: int) -> float:
        """Work of `tokens` tokens behind `frontier`."""
        pairs = tokens * frontier + tokens * (tokens + 1) / 2
        return tokens * self.per_token + pairs * self.per_pair


EVEN_WORK = PrefillWork(1.0, 0.0)
"""Every token costs the same."""


class ChunkSizer:
    """Keeps a running rate and answers how far the next chunk reaches."""

    __slots__ = ("_longest_tokens", "_rate_per_s", "_work")

    def __init__(self, work: PrefillWork, longest_tokens: int, rate_per_s: float) -> None:
        """`rate_per_s`: work a second to begin with, from the calibration."""
        assert longest_tokens % PAGE_TOKENS == 0
        assert rate_per_s > 0
        self._work = work
        self._longest_tokens = longest_tokens
        self._rate_per_s = rate_per_s

    def note_chunk(self, frontier: int, tokens: int, seconds: float) -> None:
        """A chunk that ran from `frontier` took so long."""
        if tokens <= 0 or seconds <= 0:
            return  # a clock that stood still says nothing about the rate
        seen = self._work.of(frontier, tokens) / seconds
        self._rate_per_s += _NEWEST_SHARE * (seen - self._rate_per_s)

    def predict_s(self, frontier: int, tokens: int) -> float:
        """Seconds the chunk should take."""
        return self._work.of(frontier, tokens) / self._rate_per_s

    def find_end(self, frontier: int, limit: int, gap_s: float | None) -> int:
        """Where a chunk from `frontier` ends, at most at `limit`.

        None: nobody waits, and it is as long as it may be. Otherwise the last multiple of 64 that is reached within
        `gap_s`; at least the next one, for a prompt must get on.
        """
        longest = min(limit, (frontier // self._longest_tokens + 1) * self._longest_tokens)
        if gap_s is None:
            return longest
        end = min(limit, (frontier // PAGE_TOKENS + 1) * PAGE_TOKENS)
        while end < longest:
            further = min(longest, end + PAGE_TOKENS)
            if self.predict_s(frontier, further - frontier) > gap_s:
                break
            end = further
        return end
