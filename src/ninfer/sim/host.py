"""The simulated host arena: symbolic contents by byte offset, so that a torn, foreign or overwritten block shows.

Knows offsets, lengths and contents. Does not know who owns an extent.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import Generic, TypeVar

Content = TypeVar("Content")
"""What the device keeps of a StateImage or a page."""


@dataclass(slots=True)
class _Block(Generic[Content]):
    length: int
    content: Content | None
    """None while the transfer that fills it is under way, or after it failed."""


class SimHost(Generic[Content]):
    """Blocks that were written, by offset. Writing over a part of a block destroys it."""

    def __init__(self, host_bytes: int) -> None:
        self._host_bytes = host_bytes
        self._offsets: list[int] = []
        self._blocks: dict[int, _Block[Content]] = {}

    def tear(self, offset: int, length: int) -> None:
        """A transfer into [offset, offset + length) begins: until it lands there is nothing to read."""
        assert offset >= 0
        assert offset + length <= self._host_bytes, f"the host arena ends before {offset + length}"
        first = bisect_left(self._offsets, offset)
        if first and self._offsets[first - 1] + self._blocks[self._offsets[first - 1]].length > offset:
            first -= 1
        last = bisect_left(self._offsets, offset + length)
        for gone in self._offsets[first:last]:
            del self._blocks[gone]
        del self._offsets[first:last]
        insort(self._offsets, offset)
        self._blocks[offset] = _Block(length, None)

    def write(self, offset: int, length: int, content: Content) -> None:
        """The transfer lands in the block that it tore; nobody else may have been given its bytes meanwhile."""
        block = self._blocks.get(offset)
        assert block is not None, f"host block at {offset} was overwritten while it was filled"
        assert block.length == length, f"host block at {offset} was overwritten while it was filled"
        block.content = content

    def read(self, offset: int, length: int) -> Content:
        """What a complete block holds."""
        block = self._blocks.get(offset)
        assert block is not None, f"there is no host block at {offset}"
        assert block.length == length, f"host block at {offset} has {block.length} bytes, not {length}"
        assert block.content is not None, f"host block at {offset} is incomplete"
        return block.content
