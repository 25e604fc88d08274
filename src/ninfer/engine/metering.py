"""What goes between device and host: bytes and transfers each way, counted where they are submitted (N1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from ninfer.base.ids import TransferId
from ninfer.ports.device import (
    DeviceFacts,
    HostCopy,
    HostTier,
    PageFromHost,
    PageToHost,
    StateFromHost,
    StateToHost,
)


@dataclass(slots=True)
class TransferTotals:
    """Since the start. A transfer that fails has been counted: it took the road."""

    transfers: int = 0
    to_host_bytes: int = 0
    from_host_bytes: int = 0


class MeteredHost:
    """A host tier that counts. Blocks move whole, so a partly filled page counts as a page."""

    def __init__(self, host: HostTier, facts: DeviceFacts) -> None:
        self._host = host
        self._facts = facts
        self.host_bytes = host.host_bytes
        self.totals = TransferTotals()

    def submit_host_copy(self, copies: Sequence[HostCopy]) -> TransferId:
        """Count and pass on."""
        totals = self.totals
        totals.transfers += 1
        for copy in copies:
            match copy:
                case PageToHost():
                    totals.to_host_bytes += self._facts.page_bytes[copy.pool]
                case PageFromHost():
                    totals.from_host_bytes += self._facts.page_bytes[copy.pool]
                case StateToHost():
                    totals.to_host_bytes += self._facts.state_bytes
                case StateFromHost():
                    totals.from_host_bytes += self._facts.state_bytes
                case _:
                    assert_never(copy)
        return self._host.submit_host_copy(copies)
