"""The only place that reads a clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that never run backwards."""

    def now(self) -> float:
        """Seconds since an arbitrary start."""
        ...


class SystemClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock for tests and simulation; moves only when told."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move forward."""
        assert seconds >= 0
        self._now += seconds


def unix_time() -> float:
    """Wall-clock seconds, for logs."""
    return time.time()


def unix_seconds() -> int:
    """Wall-clock seconds, for `created` fields of the protocols."""
    return int(time.time())
