"""What points hold together, carried on from one question to the next (H3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from ninfer.base.ids import Handle
from ninfer.base.pools import Amounts, Pool


class Footprint(Protocol):
    """Groups of points by key; what they share is counted once. The owner drops a group whose points changed."""

    @property
    def moves(self) -> int:
        """How often content went to another medium or cell. With another number than before, `clear` and add again."""
        ...

    def clear(self) -> None: ...

    def add(self, key: int, points: Sequence[Handle]) -> None: ...

    def drop(self, key: int) -> None: ...

    def count(self, points: Sequence[Handle]) -> Amounts:
        """What one group holds by itself."""
        ...

    def amounts(self) -> Iterator[tuple[Pool, int]]:
        """What all groups hold together."""
        ...
