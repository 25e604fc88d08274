"""Exact identity of a prefix: chained page digests narrow the candidates, tokens and media decide (D10).

Knows bytes and digests. Does not know where anything is stored.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from .buffers import IntBuffer
from .pools import PAGE_TOKENS

DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class MediaSpan:
    """A run of placeholder tokens filled by media: [start, stop) in tokens, digest of the bytes, patch grid."""

    start: int
    stop: int
    digest: bytes
    grid: tuple[int, int, int]


class PrefixDigests:
    """Chained digests of a token ledger, one per complete 64-token page; digest 0 is the root.

    The chain starts from the execution identity (settled decision 19), so prefixes of different models, formats
    or templates never meet. A media span enters the page in which it starts.
    """

    __slots__ = ("_digests", "execution_identity", "media")

    def __init__(self, execution_identity: bytes, media: tuple[MediaSpan, ...] = ()) -> None:
        self.execution_identity = execution_identity
        self.media = media
        self._digests = [hashlib.blake2b(execution_identity, digest_size=DIGEST_BYTES).digest()]

    def extend_to(self, tokens: IntBuffer, frontier: int) -> None:
        """Digest every complete page of `tokens` below `frontier` that is not digested yet."""
        for page in range(len(self._digests) - 1, frontier // PAGE_TOKENS):
            start = page * PAGE_TOKENS
            hasher = hashlib.blake2b(self._digests[-1], digest_size=DIGEST_BYTES)
            hasher.update(tokens.view(start, start + PAGE_TOKENS))
            for span in self.media:
                if start <= span.start < start + PAGE_TOKENS:
                    hasher.update(repr((span.start, span.stop, span.digest, span.grid)).encode())
            self._digests.append(hasher.digest())

    @property
    def pages(self) -> int:
        """Complete pages digested so far."""
        return len(self._digests) - 1

    def at_page(self, pages: int) -> bytes:
        """Digest after `pages` complete pages; 0 gives the root's."""
        return self._digests[pages]

    def fork(self, pages: int) -> PrefixDigests:
        """An independent chain that starts with the first `pages` pages of this one."""
        child = PrefixDigests(self.execution_identity, self.media)
        child._digests = self._digests[: pages + 1]
        return child


@dataclass(frozen=True, slots=True)
class PrefixIdentity:
    """What a restore point at `frontier` is a state *of*. Compared exactly before adoption (D10)."""

    execution_identity: bytes
    tokens: IntBuffer
    frontier: int
    media: tuple[MediaSpan, ...] = ()

    def is_prefix_of(self, tokens: IntBuffer, execution_identity: bytes, media: tuple[MediaSpan, ...] = ()) -> bool:
        """Exact check: execution identity, every token below the frontier, every media span that starts below it."""
        mine = tuple(span for span in self.media if span.start < self.frontier)
        theirs = tuple(span for span in media if span.start < self.frontier)
        return (
            self.execution_identity == execution_identity
            and mine == theirs
            and all(span.stop <= self.frontier for span in mine)
            and tokens.starts_with(self.tokens, self.frontier)
        )
