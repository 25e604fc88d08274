"""What a replay's pages and states hold: tokens, and a digest for all that came before. Compared, never computed with.

A full page is known by the digest of its chain, which ends in the number of the unit that completed it: two pages that
were computed apart differ although their tokens are equal (D10). A page that is not full is compared by its tokens.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninfer.base.pools import PAGE_TOKENS

TOKEN_BYTES = 4
PAGE_BYTES = TOKEN_BYTES * PAGE_TOKENS
ROOT_DIGEST = 0x9E3779B97F4A7C15
_FIRST_PAGES = 16

Digests = npt.NDArray[np.uint64]


def digest_page(before: int, tokens: bytes, unit: int) -> int:
    """Of a full page: the chain before it, its tokens, and the unit that completed it."""
    hasher = hashlib.blake2b(tokens, digest_size=8, key=before.to_bytes(8, "little"))
    hasher.update(unit.to_bytes(8, "little"))
    return int.from_bytes(hasher.digest(), "little")


class Chain:
    """Digests of the full pages of one history, append-only. States of it look at a leading part."""

    __slots__ = ("_digests", "count")

    def __init__(self, digests: Digests | None = None) -> None:
        self.count = 0 if digests is None else len(digests)
        self._digests = np.zeros(max(_FIRST_PAGES, 2 * self.count), np.uint64)
        if digests is not None:
            self._digests[: self.count] = digests

    def view(self, pages: int) -> Digests:
        """The first `pages` digests."""
        assert pages <= self.count
        return self._digests[:pages]

    def last(self, pages: int) -> int:
        """Digest of all before page `pages`."""
        return int(self._digests[pages - 1]) if pages else ROOT_DIGEST

    def extend(self, digests: list[int]) -> None:
        """More full pages."""
        stop = self.count + len(digests)
        if stop > len(self._digests):
            grown = np.zeros(2 * stop, np.uint64)
            grown[: self.count] = self._digests[: self.count]
            self._digests = grown
        self._digests[self.count : stop] = digests
        self.count = stop

    def fork(self, pages: int) -> Chain:
        """This chain while nobody wrote past `pages`, else a copy of its beginning."""
        return self if pages == self.count else Chain(self.view(pages))


@dataclass(frozen=True, slots=True)
class Image:
    """A StateImage: of so many tokens, with the digests of its full pages and the tokens behind them."""

    length: int
    chain: Chain
    tail: bytes


@dataclass(frozen=True, slots=True)
class PageContent:
    """A page: the chain before it, its tokens so far, and its own digest once it is full (0 before)."""

    before: int
    tokens: bytes
    digest: int = 0

    def cut(self, tokens: int) -> PageContent:
        """The first `tokens` tokens of it."""
        if tokens * TOKEN_BYTES == len(self.tokens):
            return self
        assert tokens * TOKEN_BYTES < len(self.tokens), f"{tokens} tokens wanted, the page holds fewer"
        return PageContent(self.before, self.tokens[: tokens * TOKEN_BYTES])


class PageContents:
    """All pages of one pool. Digests of full ones stand in a vector, so that a whole table is compared at once."""

    def __init__(self, count: int) -> None:
        self._contents: list[PageContent | None] = [None] * (count + 1)
        self._digests = np.zeros(count + 1, np.uint64)

    def __getitem__(self, page: int) -> PageContent | None:
        return self._contents[self._check(page)]

    def __setitem__(self, page: int, content: PageContent | None) -> None:
        self._contents[self._check(page)] = content
        self._digests[page] = 0 if content is None else content.digest

    def digests_of(self, table: npt.NDArray[np.int32]) -> Digests:
        """Digests of these pages; 0 for one that is not full."""
        return self._digests[table]

    def _check(self, page: int) -> int:
        assert 1 <= page < len(self._contents), f"there is no page {page}"
        return page
