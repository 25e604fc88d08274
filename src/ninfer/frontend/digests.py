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


class RecentDigests:
    """Digest chains of the last few text prompts. Safe for use by several threads."""

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
        for known, chain in recent:
            shared = _shared_pages(known, content)
            if shared > pages:
                pages, source = shared, chain
        digests = source.fork(pages)
        digests.extend_to(tokens, len(tokens))
        with self._lock:
            covered = [entry for entry in self._recent if content.startswith(entry[0])]
            for entry in covered:
                self._recent.remove(entry)
            self._recent.append((content, digests.fork(digests.pages)))
        return digests


def _shared_pages(left: bytes, right: bytes) -> int:
    """Complete pages at the front that are equal."""
    low, high = 0, min(len(left), len(right)) // _PAGE_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        if left[low * _PAGE_BYTES : middle * _PAGE_BYTES] == right[low * _PAGE_BYTES : middle * _PAGE_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low
