"""The prefix index: from page digests to the restore points that may serve a prompt.

A point stands at the digest of its last complete page. The index narrows the candidates; that the tokens of the
partial page, the media and the identity agree is verified by Program before anything is adopted (D10).
"""

from __future__ import annotations

from collections.abc import Iterator

from ninfer.base.identity import PrefixDigests
from ninfer.base.ids import Handle
from ninfer.base.pools import PAGE_TOKENS


class PrefixIndex:
    """Digest -> points with their exact frontiers. A digest without points has no entry (C5)."""

    __slots__ = ("_branches", "_digests")

    def __init__(self) -> None:
        self._branches: dict[bytes, dict[Handle, int]] = {}
        self._digests: dict[Handle, bytes] = {}

    def __len__(self) -> int:
        return len(self._digests)

    def __contains__(self, point: Handle) -> bool:
        return point in self._digests

    def frontier(self, point: Handle) -> int:
        """Where the point stands."""
        return self._branches[self._digests[point]][point]

    @property
    def branches(self) -> int:
        """Digests that hold points."""
        return len(self._branches)

    def publish(self, point: Handle, digests: PrefixDigests, frontier: int) -> None:
        """Make a complete point findable (V-05). `digests` must reach its last complete page."""
        assert point not in self._digests, f"point {point} is indexed already"
        digest = digests.at_page(frontier // PAGE_TOKENS)
        self._digests[point] = digest
        self._branches.setdefault(digest, {})[point] = frontier

    def retire(self, point: Handle) -> None:
        """Forget a point, and its branch when it was the last one there."""
        digest = self._digests.pop(point)
        branch = self._branches[digest]
        del branch[point]
        if not branch:
            del self._branches[digest]

    def find(self, digests: PrefixDigests, limit: int) -> Iterator[tuple[Handle, int]]:
        """Candidates at or below `limit` tokens, deepest first; equal frontiers in order of publication."""
        if not self._branches:
            return
        for pages in range(min(limit // PAGE_TOKENS, digests.pages), -1, -1):
            branch = self._branches.get(digests.at_page(pages))
            if branch is None:
                continue
            fitting = [(point, frontier) for point, frontier in branch.items() if frontier <= limit]
            fitting.sort(key=lambda entry: -entry[1])
            yield from fitting

    def audit(self) -> None:
        """Both directions agree and no branch is empty (V-02)."""
        counted = {point: digest for digest, branch in self._branches.items() for point in branch}
        assert counted == self._digests, "index directions differ (V-02)"
        assert all(self._branches.values()), "an empty branch was kept (V-02)"
