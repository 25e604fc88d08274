"""Who may replace whom: the admission rules of reclaim, as a table (I8-I10, G7).

Pure. A claim is fixed when a decision starts; its budget is spent by the deletions of device and host steps together
and never grows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from math import inf

import numpy as np
import numpy.typing as npt

from ninfer.base.ids import Handle, Ticket

from .retention import Retention

_Vector = npt.NDArray[np.float64]


class Right(Enum):
    """Who asks for room."""

    NECESSARY = "necessary"
    """The next unit of an admitted request."""
    RESUME = "resume"
    """A paused request that wants to go on."""
    ENTRY = "entry"
    """A fresh request that wants to start."""
    CAPTURE = "capture"
    """A new save without repeated demand of its own position."""
    DEMANDED_CAPTURE = "demanded_capture"
    """A new save whose exact position was adopted by another request, or computed by two (H2)."""
    SPARE = "spare"
    """A save that would rather keep its outdated point: content that nothing is lost with."""
    WRITE_BACK = "write_back"
    """A host copy that keeps existing content."""
    SNAPSHOT = "snapshot"
    """The execution state of a paused request."""


class Victims(Enum):
    """Which optional content may go."""

    ANY = "any"
    LOSSLESS = "lossless"
    """Ordinary content with a fallback at its very place, or left behind by its conversation."""
    BY_CLASS = "by_class"
    """Ordinary content; for a claimant of reused standing also reused content whose demand is older than its own."""
    BY_DEMAND = "by_demand"
    """Ordinary content, and reused content whose demand is older than the candidate's own."""


class Revokes(Enum):
    """Whose wait holds may be revoked when the usual reclaim falls short."""

    NOBODY = "nobody"
    YOUNGER = "younger"
    ANYBODY = "anybody"


@dataclass(frozen=True, slots=True)
class Rule:
    """`is_budgeted`: accumulated loss must stay below the added coverage. `needs_whole_gap`: partial reclaim is waste.

    `takes_snapshots`: paused snapshots of later tickets follow when optional cache is used up.
    """

    victims: Victims
    is_budgeted: bool
    revokes: Revokes
    needs_whole_gap: bool
    takes_snapshots: bool


RULES: dict[Right, Rule] = {
    Right.NECESSARY: Rule(Victims.ANY, False, Revokes.ANYBODY, needs_whole_gap=False, takes_snapshots=True),
    Right.RESUME: Rule(Victims.ANY, False, Revokes.ANYBODY, needs_whole_gap=True, takes_snapshots=False),
    Right.ENTRY: Rule(Victims.ANY, False, Revokes.YOUNGER, needs_whole_gap=True, takes_snapshots=False),
    Right.CAPTURE: Rule(Victims.BY_CLASS, True, Revokes.NOBODY, needs_whole_gap=True, takes_snapshots=False),
    Right.DEMANDED_CAPTURE: Rule(Victims.BY_DEMAND, False, Revokes.NOBODY, needs_whole_gap=True, takes_snapshots=False),
    Right.SPARE: Rule(Victims.LOSSLESS, False, Revokes.NOBODY, needs_whole_gap=True, takes_snapshots=False),
    Right.WRITE_BACK: Rule(Victims.BY_CLASS, True, Revokes.NOBODY, needs_whole_gap=True, takes_snapshots=False),
    Right.SNAPSHOT: Rule(Victims.ANY, False, Revokes.NOBODY, needs_whole_gap=True, takes_snapshots=True),
}


@dataclass(slots=True)
class Budget:
    """Added coverage in tokens, fixed against the fallback that survived when the decision started (I9)."""

    tokens: int
    spent: int = 0

    def covers(self, loss_tokens: int) -> bool:
        """Whether the gain still exceeds everything lost so far and this."""
        return self.tokens > self.spent + loss_tokens

    def spend(self, loss_tokens: int) -> None:
        """Losses add up, also where a cleverer combination would have lost less."""
        self.spent += loss_tokens


@dataclass(frozen=True, slots=True)
class Claim:
    """One decision's right. `keep`: points that must stay, such as the own source.

    `retention`, `demand_at`: the claimant's class and order of demand; for DEMANDED_CAPTURE the candidate's own, never
    its owner's newer one.
    """

    right: Right
    keep: frozenset[Handle] = frozenset()
    ticket: Ticket | None = None
    retention: Retention = Retention.ORDINARY
    demand_at: int = 0
    budget: Budget | None = None

    def __post_init__(self) -> None:
        assert self.rule.is_budgeted == (self.budget is not None), f"I9: {self.right.value} and its budget"

    @property
    def rule(self) -> Rule:
        """The row of the table."""
        return RULES[self.right]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a claim may replace now: any ordinary content, and reused content with demand before `reused_before`; none
    of it with a loss above `most_loss`."""

    reused_before: float = inf
    most_loss: float = inf

    def allow(self, retention: Retention, demand_at: int, loss_tokens: int) -> bool:
        """Whether content of this class, newest demand and loss may go."""
        is_open = retention is Retention.ORDINARY or demand_at < self.reused_before
        return is_open and loss_tokens <= self.most_loss

    def allow_all(self, retention: _Vector, demand_at: _Vector, loss_tokens: _Vector) -> npt.NDArray[np.bool_]:
        """`allow` for many at once."""
        is_open: npt.NDArray[np.bool_] = (retention == Retention.ORDINARY) | (demand_at < self.reused_before)
        return is_open & (loss_tokens <= self.most_loss)


def find_limits(claim: Claim) -> Limits:
    """What the claim may replace one by one. Budgets are checked, not spent."""
    match claim.rule.victims:
        case Victims.ANY:
            limits = Limits()
        case Victims.LOSSLESS:
            limits = Limits(reused_before=-inf, most_loss=0)
        case Victims.BY_CLASS:
            limits = Limits(reused_before=claim.demand_at if claim.retention is Retention.REUSED else -inf)
        case Victims.BY_DEMAND:
            limits = Limits(reused_before=claim.demand_at)
    if claim.budget is None:
        return limits
    return replace(limits, most_loss=min(limits.most_loss, claim.budget.tokens - claim.budget.spent - 1))


def may_replace(claim: Claim, retention: Retention, demand_at: int, loss_tokens: int) -> bool:
    """Whether content of this class, newest demand and loss may go for the claim."""
    return find_limits(claim).allow(retention, demand_at, loss_tokens)
