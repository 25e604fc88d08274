"""What the engine says itself: the end of a thought whose budget is used up (C6, J1).

Knows token ids and counts. The rule reads one token at a time, so that the cuts of runs change nothing in what is said;
what was said counts as output like any other token, for budgets, penalties and stops (K4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ninfer.frontend.plan import ThoughtEnd
from ninfer.ports.device import RunResult
from ninfer.ports.sampling import TokenLogprobs

_CERTAIN = TokenLogprobs(chosen=0.0)


@dataclass(frozen=True, slots=True)
class Closing:
    """When the first `after_tokens` tokens of output do not hold the mark of the end, the whole end is said next."""

    after_tokens: int
    end: ThoughtEnd


class ControlWatch:
    """How far one request is from its closing, and in it."""

    __slots__ = ("_closing", "_drawn", "_is_over", "_said")

    def __init__(self, closing: Closing) -> None:
        assert closing.after_tokens >= 0
        self._closing = closing
        self._drawn = 0
        self._said = 0
        self._is_over = False

    def find_next(self) -> int | None:
        """The token that must be said next; None: draw it."""
        if self._is_over or self._drawn < self._closing.after_tokens:
            return None
        return self._closing.end.token_ids[self._said]

    def read(self, run: RunResult, logprobs: int | None) -> RunResult:
        """What counts of a run: nothing that was drawn past the moment when the closing is due.

        A said token comes without log-probabilities; where they are wanted it is certain.
        """
        if self._is_over:
            return run
        if self.find_next() is not None:
            return run if logprobs is None else replace(run, logprobs=(_CERTAIN,))
        left = self._closing.after_tokens - self._drawn
        if self._closing.end.mark in run.token_ids[:left]:
            return run
        return replace(run, token_ids=run.token_ids[:left], logprobs=run.logprobs and run.logprobs[:left])

    def note(self, token_ids: Sequence[int]) -> None:
        """These were accepted."""
        for token_id in token_ids:
            if self.find_next() is not None:
                assert token_id == self.find_next(), "C6: control said another token than it had to"
                self._said += 1
                self._is_over = self._said == len(self._closing.end.token_ids)
            else:
                self._drawn += 1
                self._is_over |= token_id == self._closing.end.mark
