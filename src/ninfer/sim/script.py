"""Scripts: what a simulated device says instead of its digest rule, cut into runs as a test likes.

A script sees the tokens fed so far and answers with a run of 1 to 8 tokens. It knows no request; which reply belongs to
which prompt is told by the test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from ninfer.base.ids import LaneId

MAX_RUN_TOKENS = 8

Runs = tuple[tuple[int, ...], ...]
"""A reply, run by run. One-token runs are plain decode."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One draw to be answered. `fed`: all tokens below `position`; `ruled`: what the digest rule would draw."""

    lane: LaneId
    position: int
    fed: Sequence[int]
    ruled: int


class Script(Protocol):
    """Answers draws."""

    def next_run(self, draw: Draw) -> tuple[int, ...]:
        """A run of 1 to MAX_RUN_TOKENS tokens."""
        ...


def cut_every(tokens: Sequence[int], run_tokens: int) -> Runs:
    """A reply in runs of equal length; the last may be shorter."""
    assert 1 <= run_tokens <= MAX_RUN_TOKENS
    return tuple(tuple(tokens[start : start + run_tokens]) for start in range(0, len(tokens), run_tokens))


def cut_at(tokens: Sequence[int], *offsets: int) -> Runs:
    """A reply cut at the given offsets, and again wherever a run would be too long."""
    edges = [0, *sorted(offsets), len(tokens)]
    parts = (tokens[start:stop] for start, stop in pairwise(edges))
    return tuple(run for part in parts for run in cut_every(part, MAX_RUN_TOKENS))


@dataclass(slots=True)
class _Speech:
    prompt: tuple[int, ...]
    runs: Runs
    said: list[int] = field(default_factory=list)
    next_index: int = 0


class ReplyScript:
    """Gives each prompt the reply that `reply_for` names; when it is over, `end_token` for ever.

    A draw goes on with a speech when exactly what it said so far has been fed; anything else is a new prompt.
    """

    def __init__(self, reply_for: Callable[[tuple[int, ...]], Runs], end_token: int) -> None:
        self._reply_for = reply_for
        self._end_token = end_token
        self._speeches: list[_Speech] = []

    def next_run(self, draw: Draw) -> tuple[int, ...]:
        """The next run of the reply under way, or the first one of a new reply."""
        speech = self._find_speech(tuple(draw.fed))
        if speech.next_index == len(speech.runs):
            speech.said.append(self._end_token)
            return (self._end_token,)
        run = speech.runs[speech.next_index]
        assert 1 <= len(run) <= MAX_RUN_TOKENS
        speech.next_index += 1
        speech.said.extend(run)
        return run

    def _find_speech(self, fed: tuple[int, ...]) -> _Speech:
        for speech in self._speeches:
            if speech.said and fed == (*speech.prompt, *speech.said):
                return speech
        fresh = _Speech(fed, self._reply_for(fed))
        self._speeches.append(fresh)
        return fresh
