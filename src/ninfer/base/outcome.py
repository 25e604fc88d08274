"""'Not now' is a value, never an exception."""

from __future__ import annotations

from dataclasses import dataclass

from .pools import DEVICE_POOLS, Amounts, Pool


@dataclass(frozen=True, slots=True)
class Shortfall:
    """What was missing for one request to the stores. The caller may reclaim and ask again."""

    pool: Pool
    need: int
    free: int

    @property
    def gap(self) -> int:
        """Slots, pages or bytes that must become free."""
        return self.need - self.free


def find_shortfall(need: Amounts, free: Amounts) -> Shortfall | None:
    """The first device pool that is short, in a fixed order: state first (I4), then the KV pools."""
    for pool in DEVICE_POOLS:
        if need[pool] > free[pool]:
            return Shortfall(pool, need[pool], free[pool])
    return None
