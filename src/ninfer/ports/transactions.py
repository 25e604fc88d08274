"""Context transactions as those above Program hear of them: their kinds, and how they ended (L1-L3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ninfer.base.ids import Handle
from ninfer.base.pools import Amounts


class TransactionKind(Enum):
    """The kinds of context transaction (L1)."""

    BIND = "bind"
    CAPTURE = "capture"
    DEMOTION = "demotion"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """How a demotion or pause ended, or a bind failed. `freed`: what returned to the pools at that moment.

    A failed BIND leaves a sequence that can only be released. A failed PAUSE leaves its snapshot whole on the device;
    a failed DEMOTION or CAPTURE has changed nothing. `subject`: the sequence bound, the snapshot, the point captured.
    """

    kind: TransactionKind
    failed: bool
    freed: Amounts
    subject: Handle | None = None
