"""How likely each point is what somebody starts from next, out of what was really started from (H1, docs/adr/0007).

A conversation comes back to one of its points: its endpoint, its input point, or one that it left behind. Which one is
counted for each record, beside a first guess from all records together. The share of a point that has gone passes to
the next shallower one, which then stands in for it. A shared entry is a start by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ninfer.base.ids import Handle

from .continuation import Continuation
from .shared import SharedEntry

GUESS_STARTS = 4.0
"""A record's own starts weigh as much as the guess when there are so many of them."""

OLD_SHARE = 0.01
"""Of a point left behind more than a turn ago: what it is worth as a place to fall back to."""

_STEP = 1.125
"""The guess moves when so many times as many starts were seen, so that weights stay put between."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Likelihood of a start from an endpoint, an input point, one left behind a turn ago. Sums to 1."""

    end: float
    input: float
    left: float


class Starts:
    """Real starts so far, by what they started from, and the guess for a record without a past."""

    __slots__ = ("_ends", "_inputs", "_left", "_next_guess", "guess")

    def __init__(self) -> None:
        self._ends, self._inputs, self._left = 12.0, 7.0, 1.0  # assumed before any was seen
        self.guess = self._make_guess()

    def note(self, record: Continuation | None, entry: SharedEntry | None, point: Handle | None) -> None:
        """A request starts from `point` of a record, or from an entry. An own resume is none (H1)."""
        if point is None:
            return
        if entry is not None:
            self._left += entry.is_superseded
        elif record is not None and point == record.end:
            self._ends += 1
            record.end_starts += 1
        elif record is not None:
            self._inputs += 1
            record.input_starts += 1
        if self._ends + self._inputs + self._left >= self._next_guess:
            self.guess = self._make_guess()

    def find_shares(self, record: Continuation) -> Shares:
        """Of one record."""
        guess, starts = self.guess, record.end_starts + record.input_starts + GUESS_STARTS
        end = (record.end_starts + GUESS_STARTS * guess.end) / starts
        given = (record.input_starts + GUESS_STARTS * guess.input) / starts
        return Shares(end, given, GUESS_STARTS * guess.left / starts)

    def _make_guess(self) -> Shares:
        whole = self._ends + self._inputs + self._left
        self._next_guess = _STEP * whole
        return Shares(self._ends / whole, self._inputs / whole, self._left / whole)


def list_weights(
    starts: Starts, records: Iterable[Continuation], entries: Iterable[SharedEntry]
) -> dict[Handle, float]:
    """The likelihood of every point that anybody owns; of a point with several owners the greatest."""
    weights: dict[Handle, float] = {}
    left: dict[int, list[SharedEntry]] = {}
    authors = {record.serial: record for record in records}
    private = {point for record in authors.values() for point in record.frontiers}
    for entry in entries:
        if entry.is_superseded and entry.left_by is not None:
            authors[entry.left_by.serial] = entry.left_by
            left.setdefault(entry.left_by.serial, []).append(entry)
        elif entry.users or entry.point not in private:
            weights[entry.point] = 1.0
    for serial, record in authors.items():
        for point, weight in weigh(starts.find_shares(record), record, left.get(serial, ())):
            weights[point] = max(weight, weights.get(point, 0.0))
    return weights


def weigh(shares: Shares, record: Continuation, left: Sequence[SharedEntry]) -> Iterator[tuple[Handle, float]]:
    """The points of one conversation, what it left behind among them. What has gone passes its share on."""
    passed_on = 0.0
    for point, share in ((record.end, shares.end), (record.input_point, shares.input)):
        if point is None:
            passed_on += share
        else:
            yield point, share + passed_on
            passed_on = 0.0
    for point in record.anchors:
        yield point, 1.0
    for entry in sorted(left, key=lambda entry: (-entry.frontier, entry.serial)):
        share = shares.left if entry.left_turn == record.turns else OLD_SHARE
        yield entry.point, share + passed_on
        passed_on = 0.0
