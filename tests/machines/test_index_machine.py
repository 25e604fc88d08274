"""The prefix index against a list of (point, tokens): what it finds, what it forgets (D10, C5, STATE-03)."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from machine_profile import machine_settings

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import PrefixDigests
from ninfer.base.ids import Handle
from ninfer.base.pools import PAGE_TOKENS
from ninfer.resource.index import PrefixIndex

PAGES = 4


def history(branch: tuple[int, ...], tail: int) -> list[int]:
    """Pages chosen from three kinds, so that prefixes are often shared, then a partial page."""
    tokens = [kind * 1000 + index for kind in branch for index in range(PAGE_TOKENS)]
    return tokens + [7] * tail


histories = st.builds(
    history, st.lists(st.integers(0, 2), max_size=PAGES).map(tuple), st.integers(0, PAGE_TOKENS - 1)
).filter(bool)


def digest(tokens: list[int]) -> PrefixDigests:
    digests = PrefixDigests(b"machine")
    digests.extend_to(IntBuffer(tokens), len(tokens))
    return digests


class IndexMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index = PrefixIndex()
        self.points: dict[Handle, list[int]] = {}
        self.next_point = 0

    @rule(tokens=histories)
    def publish(self, tokens: list[int]) -> None:
        point = Handle(self.next_point, 0)
        self.next_point += 1
        self.index.publish(point, digest(tokens), len(tokens))
        self.points[point] = tokens

    @precondition(lambda self: self.points)
    @rule(data=st.data())
    def retire(self, data: st.DataObject) -> None:
        point = data.draw(st.sampled_from(sorted(self.points)))
        self.index.retire(point)
        del self.points[point]

    @rule(tokens=histories, data=st.data())
    def find(self, tokens: list[int], data: st.DataObject) -> None:
        limit = data.draw(st.integers(0, len(tokens)))
        found = list(self.index.find(digest(tokens), limit))
        frontiers = [frontier for _, frontier in found]
        assert frontiers == sorted(frontiers, reverse=True)
        assert all(frontier <= limit for frontier in frontiers)
        truly = {point for point, mine in self.points.items() if len(mine) <= limit and tokens[: len(mine)] == mine}
        assert truly <= {point for point, _ in found}, "a point that serves the prompt was not found"
        for point, frontier in found:  # complete pages are exact; only the partial page may differ
            whole = frontier // PAGE_TOKENS * PAGE_TOKENS
            assert self.points[point][:whole] == tokens[:whole]

    @invariant()
    def is_sound(self) -> None:
        self.index.audit()
        assert len(self.index) == len(self.points)
        assert all(point in self.index for point in self.points)
        whole = {tuple(tokens[: len(tokens) // PAGE_TOKENS * PAGE_TOKENS]) for tokens in self.points.values()}
        assert self.index.branches == len(whole)


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = machine_settings(60, 30)
