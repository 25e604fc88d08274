"""The typed pools, and amounts over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

PAGE_TOKENS = 64
"""Tokens of one KV page, in every KV pool (C1)."""


class Pool(Enum):
    """Where a need falls. STATE counts slots, the KV pools pages, HOST bytes."""

    STATE = "state"
    MAIN_KV = "main_kv"
    MTP_KV = "mtp_kv"
    DFLASH_KV = "dflash_kv"
    HOST = "host"

    __hash__ = object.__hash__  # members are single; the hash of an enum's name is computed in Python, at every look-up


DEVICE_POOLS: tuple[Pool, ...] = (Pool.STATE, Pool.MAIN_KV, Pool.MTP_KV, Pool.DFLASH_KV)
KV_POOLS: tuple[Pool, ...] = (Pool.MAIN_KV, Pool.MTP_KV, Pool.DFLASH_KV)
_POOLS = tuple(Pool)


@dataclass(frozen=True, slots=True)
class Amounts:
    """A non-negative amount per pool: slots, pages, pages, pages, bytes.

    HOST is a sum only; whether bytes can be *placed* is asked of the host arena (I11).
    """

    state: int = 0
    main_kv: int = 0
    mtp_kv: int = 0
    dflash_kv: int = 0
    host: int = 0

    def __getitem__(self, pool: Pool) -> int:
        value: int = getattr(self, pool._value_)  # a plain attribute; `value` is computed at every look-up
        return value

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.state + other.state,
            self.main_kv + other.main_kv,
            self.mtp_kv + other.mtp_kv,
            self.dflash_kv + other.dflash_kv,
            self.host + other.host,
        )

    def __sub__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.state - other.state,
            self.main_kv - other.main_kv,
            self.mtp_kv - other.mtp_kv,
            self.dflash_kv - other.dflash_kv,
            self.host - other.host,
        )

    def items(self) -> Iterator[tuple[Pool, int]]:
        """Non-zero entries, in pool order."""
        return ((pool, self[pool]) for pool in _POOLS if self[pool])

    @staticmethod
    def of(values: Mapping[Pool, int]) -> Amounts:
        """From a mapping; pools not named are zero."""
        return Amounts(*(values.get(pool, 0) for pool in _POOLS))


ZERO = Amounts()
