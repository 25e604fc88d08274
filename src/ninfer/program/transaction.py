"""The one context transaction: its steps, what may happen at each of them, and who is under way (L1-L3).

Knows steps, transfers and what the transaction holds. What a kind does at each step is in bind, capture, demote and
pause. A point captured into a device slot is written by its own unit, waits for nothing else, and is no transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ninfer.base.ids import Handle, TransferId
from ninfer.base.pools import ZERO, Amounts
from ninfer.ports.transactions import TransactionEnd, TransactionKind
from ninfer.store.audit import Owned


class Step(Enum):
    """Where a transaction stands."""

    RESERVED = "reserved"
    """Source and physical set are fixed, the source is leased, the destination is taken."""
    ADOPTED = "adopted"
    """Ownership has passed: a bind's source, a pause's sequence. There is no way back (L3)."""
    COPYING = "copying"
    DRAINING = "draining"
    """Nobody wants the result any more; the reader is waited for. It blocks no other transaction."""
    DONE = "done"
    """Replicas that are still wanted are published, sources freed."""
    UNDONE = "undone"
    """Nothing was published; what was reserved is free."""
    FAILED = "failed"
    """A copy failed behind the point of no return: the subject knows and the caller decides."""


class Event(Enum):
    """What happens to a transaction."""

    ADOPT = "adopt"
    SUBMIT = "submit"
    LAND = "land"
    CANCEL = "cancel"
    FAIL = "fail"


_Edges = dict[Step, dict[Event, Step]]

_OPTIONAL: _Edges = {
    Step.RESERVED: {Event.SUBMIT: Step.COPYING, Event.LAND: Step.DONE, Event.CANCEL: Step.UNDONE},
    Step.COPYING: {Event.LAND: Step.DONE, Event.CANCEL: Step.DRAINING, Event.FAIL: Step.UNDONE},
    Step.DRAINING: {Event.LAND: Step.UNDONE, Event.FAIL: Step.UNDONE},
}
_ADOPTING: _Edges = {
    Step.RESERVED: {Event.ADOPT: Step.ADOPTED, Event.CANCEL: Step.UNDONE},
    Step.ADOPTED: {Event.SUBMIT: Step.COPYING, Event.LAND: Step.DONE},
    Step.COPYING: {Event.LAND: Step.DONE, Event.CANCEL: Step.DRAINING, Event.FAIL: Step.FAILED},
    Step.DRAINING: {Event.LAND: Step.DONE, Event.FAIL: Step.FAILED},
}
TRANSITIONS: dict[TransactionKind, _Edges] = {
    TransactionKind.BIND: _ADOPTING,
    TransactionKind.CAPTURE: _OPTIONAL,
    TransactionKind.DEMOTION: _OPTIONAL,
    TransactionKind.PAUSE: _ADOPTING,
}
FINAL_STEPS = frozenset({Step.DONE, Step.UNDONE, Step.FAILED})


@dataclass(slots=True, eq=False)
class ContextTransaction:
    """One transaction. `transfers`: under way. `lease`, `save`: held until the last of them has landed."""

    kind: TransactionKind
    step: Step = Step.RESERVED
    transfers: set[TransferId] = field(default_factory=set)
    has_failure: bool = False
    awaits_unit: bool = False
    """All its copies have ended, one of them badly, and a unit that follows them still runs over their targets."""
    subject: Handle | None = None
    lease: Handle | None = None
    save: Handle | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether the result is still to be used: it was not cancelled."""
        return self.step is not Step.DRAINING

    def advance(self, event: Event) -> None:
        """One step by the table; anything else is a broken procedure."""
        edges = TRANSITIONS[self.kind].get(self.step, {})
        assert event in edges, f"L2: {self.kind.value} is {self.step.value}, which knows no {event.value}"
        self.step = edges[event]

    def owned(self) -> Owned:
        """What it holds itself, for the audit; a bind's belongings are its sequence's."""
        leases = () if self.lease is None else (self.lease,)
        saves = () if self.save is None else (self.save,)
        return Owned(slots=(), pages=(), reservations=(), leases=leases, saves=saves)


class Transactions:
    """The open transaction, the cancelled ones that drain, and how the others ended."""

    def __init__(self) -> None:
        self.current: ContextTransaction | None = None
        self._draining: list[ContextTransaction] = []
        self._ends: list[TransactionEnd] = []

    def open(self, kind: TransactionKind) -> ContextTransaction:
        """Begin one; there is no other (V-07)."""
        assert self.current is None, f"V-07: a {kind.value} begins while a {self.current.kind.value} is under way"
        self.current = ContextTransaction(kind)
        return self.current

    def cancel(self, transaction: ContextTransaction) -> None:
        """Its result is not wanted any more: undone at once before its copies, drained after (L3)."""
        transaction.advance(Event.CANCEL)
        assert transaction is self.current
        self.current = None
        if transaction.step is Step.DRAINING:
            self._draining.append(transaction)

    def land(self, transaction: ContextTransaction, transfer: TransferId, *, failed: bool) -> bool:
        """One transfer has ended. True: it was the last, and the transaction can be settled."""
        transaction.transfers.remove(transfer)
        transaction.has_failure |= failed
        return not transaction.transfers

    def settle(self, transaction: ContextTransaction, freed: Amounts = ZERO) -> None:
        """Everything that the kind had to do is done; the next one may begin."""
        if transaction is self.current:
            self.current = None
            if transaction.kind is not TransactionKind.BIND or transaction.has_failure:
                end = TransactionEnd(transaction.kind, transaction.has_failure, freed, transaction.subject)
                self._ends.append(end)
        else:
            self._draining.remove(transaction)
        transaction.advance(Event.FAIL if transaction.has_failure else Event.LAND)
        assert transaction.step in FINAL_STEPS
        assert transaction.lease is None, "V-03: a transaction ends with a lease"
        assert transaction.save is None, "V-04: a transaction ends with a save"

    def count_open(self) -> int:
        """The open one and those that drain."""
        return len(self._draining) + (self.current is not None)

    def collect_ends(self) -> list[TransactionEnd]:
        """Ends since the last call. A bind that is in place and whatever was cancelled are not among them."""
        ends, self._ends = self._ends, []
        return ends

    def list_owned(self) -> list[Owned]:
        """What all transactions hold. For audits."""
        return [transaction.owned() for transaction in self._list_all()]

    def audit(self) -> None:
        """One is open, the others drain, and each has something to wait for (V-07)."""
        for transaction in self._list_all():
            assert (transaction.step is Step.DRAINING) == (transaction is not self.current), "V-07: who is open differs"
            assert transaction.transfers or transaction.awaits_unit, f"L2: a {transaction.kind.value} waits for nothing"

    def _list_all(self) -> list[ContextTransaction]:
        current = [] if self.current is None else [self.current]
        return [*current, *self._draining]
