"""Page digests of recent prompts, so that a warm turn hashes only its new pages.

Keeps its own copies: the buffers of a plan belong to whoever received it.
"""

from __future__ import annotations

from collections import deque
from threading import Lock

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import PrefixDigests
from ninfer.base.pools import PAGE_TOKENS

_PAGE_BYTES = 4 * PAGE_TOKENS
_SUPERSEDED_PAGES = 4
"""A prompt that another one repeats up to its last few pages is not remembered beside it."""


class RecentDigests:
    """Digest chains of the last few prompts. Safe for use by several threads."""

    def __init__(self, execution_identity: bytes, remembered_prompts: int) -> None:
        self._root = PrefixDigests(execution_identity)
        self._recent: deque[tuple[bytes, PrefixDigests]] = deque(maxlen=remembered_prompts)
        self._lock = Lock()

    def chain_of(self, tokens: IntBuffer) -> PrefixDigests:
        """A fresh chain over every complete page of `tokens`, started from the longest remembered prefix."""
        content = tokens.to_bytes()
        with self._lock:
            recent = list(self._recent)
        pages, source = 0, self._root
        for known, chain in reversed(recent):
            # Equal digests stand for equal pages so far; the next page is compared as it is.
            if chain.pages > pages and chain.at_page(pages) == source.at_page(pages):
                shared = _shared_pages(known, content, pages)
                if shared > pages:
                    pages, source = shared, chain
        digests = source.fork(pages)
        digests.extend_to(tokens, len(tokens))
        kept = digests.fork(digests.pages)
        with self._lock:
            for entry in [entry for entry in self._recent if _supersedes(kept, entry[1])]:
                self._recent.remove(entry)
            self._recent.append((content, kept))
        return digests


def _supersedes(fresh: PrefixDigests, old: PrefixDigests) -> bool:
    common = max(0, old.pages - _SUPERSEDED_PAGES)
    return 0 < common <= fresh.pages and fresh.at_page(common) == old.at_page(common)


def _shared_pages(left: bytes, right: bytes, known_pages: int) -> int:
    """Complete pages at the front that are equal; the first `known_pages` are known to be."""
    low, high = known_pages, min(len(left), len(right)) // _PAGE_BYTES
    first = slice(low * _PAGE_BYTES, (low + 1) * _PAGE_BYTES)
    if low >= high or left[first] != right[first]:
        return low
    while low < high:
        middle = (low + high + 1) // 2
        if left[low * _PAGE_BYTES : middle * _PAGE_BYTES] == right[low * _PAGE_BYTES : middle * _PAGE_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low
