"""Orders that stand for time: uses and publications one after another, and how much was asked for between them.

No clock. What happened more than `REMEMBERED_USES` ago counts as having happened then.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

REMEMBERED_USES = 1 << 16


class Uses:
    """The order of the last use or publication, and the prompt tokens that were asked for until each of them."""

    __slots__ = ("_asked_at", "asked_tokens", "order")

    def __init__(self) -> None:
        self.order = 0
        self.asked_tokens = 0
        self._asked_at = np.zeros(REMEMBERED_USES, np.int64)

    def count(self) -> int:
        """The order of a use or publication that happens now."""
        self.order += 1
        self._asked_at[self.order % REMEMBERED_USES] = self.asked_tokens
        return self.order

    def note_asked(self, prompt_tokens: int) -> None:
        """A request starts with a prompt of this length."""
        self.asked_tokens += prompt_tokens

    def list_asked_since(self, orders: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Prompt tokens asked for since these uses."""
        oldest = max(0, self.order - REMEMBERED_USES + 1)
        known = np.maximum(orders, oldest).astype(np.int64) % REMEMBERED_USES
        return (self.asked_tokens - self._asked_at[known]).astype(np.float64)
