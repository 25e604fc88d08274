"""What goes wrong in a world, drawn from its seed: sites, shares and moments. Plain values."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import Enum

from .device import SimFaults


class Site(Enum):
    """Where something optional is allocated: each of these may find no room without harm (settled decision 12)."""

    CAPTURE = "capture"
    HOST_CAPTURE = "host_capture"
    DEMOTION = "demotion"
    WRITE_BACK = "write_back"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Faults of one world. Shares lie in [0, 1]; deadlines are in simulated seconds, a cycle is a millisecond."""

    delay_polls: int = 0
    delay_copy_polls: int = 0
    refused: dict[Site, float] = field(default_factory=dict)
    """Of the attempts at each site."""
    cancelled_share: float = 0.0
    """Of the requests."""
    queue_timeout_s: float = 600.0
    request_timeout_s: float = 3600.0
    fail_submission: int | None = None
    fail_copy: int | None = None
    fail_landing: int | None = None
    host_failures: float = 0.0
    """Of the transfers from and to the host."""

    @property
    def fails_device(self) -> bool:
        """Whether the device may end the engine."""
        return any(at is not None for at in (self.fail_submission, self.fail_copy, self.fail_landing))

    def of_device(self, seed: int) -> SimFaults:
        """The part that the device plays."""
        return SimFaults(
            seed=seed,
            delay_polls=self.delay_polls,
            delay_copy_polls=self.delay_copy_polls,
            fail_submission=self.fail_submission,
            fail_copy=self.fail_copy,
            fail_landing=self.fail_landing,
            host_failures=self.host_failures,
        )


def draw_faults(chance: random.Random, cycles: int) -> FaultPlan:
    """Each kind of fault in some worlds only, so that a world without it stays a plain one."""
    fails = chance.choice(("submission", "copy", "landing")) if chance.random() < 0.12 else ""
    at = chance.randrange(1, cycles)
    delay = chance.choice((0, 0, 1, 2, 5))
    shares = {site: chance.choice((0.0, 0.0, 0.0, 0.2, 0.6, 1.0)) for site in Site}
    return FaultPlan(
        delay_polls=delay,
        delay_copy_polls=chance.choice((delay, delay, 4, 12)),
        refused={site: share for site, share in shares.items() if share},
        cancelled_share=chance.choice((0.0, 0.1, 0.3, 0.5)),
        queue_timeout_s=chance.uniform(0.01, 0.15) if chance.random() < 0.15 else 600.0,
        request_timeout_s=chance.uniform(0.05, 0.3) if chance.random() < 0.15 else 3600.0,
        fail_submission=at if fails == "submission" else None,
        fail_copy=at % 16 if fails == "copy" else None,
        fail_landing=at if fails == "landing" else None,
        host_failures=chance.choice((0.0, 0.0, 0.1, 0.5)),
    )
