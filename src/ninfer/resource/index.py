"""The prefix index: from page digests to the restore points that may serve a prompt.

A point stands at the digest of its last complete page. The index narrows the candidates; that the tokens of the
partial page, the media and the identity agree is verified by Program before anything is adopted (D10).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from ninfer.base.identity import PrefixDigests
from ninfer.base.ids import Handle
from ninfer.base.pools import PAGE_TOKENS


class PrefixIndex:
    """Depth in complete pages -> digest there -> points with their exact frontiers.

    A look-up asks at the depths where points stand, not at every page. A digest without points has no entry, nor has a
    depth without digests (C5).
    """

    __slots__ = ("_branches", "_depths", "_places")

    def __init__(self) -> None:
        self._branches: dict[int, dict[bytes, dict[Handle, int]]] = {}
        self._depths: list[int] = []  # the keys of `_branches`, ascending
        self._places: dict[Handle, tuple[int, bytes]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, point: Handle) -> bool:
        return point in self._places

    def frontier(self, point: Handle) -> int:
        """Where the point stands."""
        pages, digest = self._places[point]
        return self._branches[pages][digest][point]

    @property
    def branches(self) -> int:
        """Digests that hold points."""
        return sum(map(len, self._branches.values()))

    def publish(self, point: Handle, digests: PrefixDigests, frontier: int) -> None:
        """Make a complete point findable (V-05). `digests` must reach its last complete page."""
        assert point not in self._places, f"point {point} is indexed already"
        pages = frontier // PAGE_TOKENS
        digest = digests.at_page(pages)
        self._places[point] = pages, digest
        if pages not in self._branches:
            self._branches[pages] = {}
            insort(self._depths, pages)
        self._branches[pages].setdefault(digest, {})[point] = frontier

    def retire(self, point: Handle) -> None:
        """Forget a point, and its branch when it was the last one there."""
        pages, digest = self._places.pop(point)
        branches = self._branches[pages]
        del branches[digest][point]
        if not branches[digest]:
            del branches[digest]
        if not branches:
            del self._branches[pages]
            del self._depths[bisect_left(self._depths, pages)]

    def find(self, digests: PrefixDigests, limit: int) -> Iterator[tuple[Handle, int]]:
        """Candidates at or below `limit` tokens, deepest first; equal frontiers in order of publication."""
        deepest = min(limit // PAGE_TOKENS, digests.pages)
        for pages in reversed(self._depths[: bisect_left(self._depths, deepest + 1)]):
            branch = self._branches.get(pages, {}).get(digests.at_page(pages))
            if branch is None:
                continue
            fitting = [(point, frontier) for point, frontier in branch.items() if frontier <= limit]
            fitting.sort(key=lambda entry: -entry[1])
            yield from fitting

    def audit(self) -> None:
        """Both directions agree and nothing empty was kept (V-02)."""
        counted = {
            point: (pages, digest)
            for pages, branches in self._branches.items()
            for digest, branch in branches.items()
            for point in branch
        }
        assert counted == self._places, "index directions differ (V-02)"
        assert sorted(self._branches) == self._depths, "index depths differ (V-02)"
        kept = [branch for branches in self._branches.values() for branch in (branches, *branches.values())]
        assert all(kept), "an empty branch was kept (V-02)"
