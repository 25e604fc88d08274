"""A counter of changes. Knows nothing of what changed; a quote made at another count is void (V-14)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Epoch:
    """Shared by all stores of one Program. Every change of a store advances it."""

    value: int = 0

    def advance(self) -> None:
        """Void every quote made so far."""
        self.value += 1
