"""Work under way: which completion belongs to which sequences, and what its landing commits.

Completions may come late and in any order; a sequence has landed when all of its own have come. A released sequence is
settled like any other and then ended, so that no late write meets a cell that was given away (L3).
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Rows
from dataclasses import dataclass
from typing import assert_never

from ninfer.base.ids import Handle, LaneId, TransferId, UnitId
from ninfer.ports.device import Completion, CopyDone, CopyFailed, RunResult, SamplesDone, UnitDone
from ninfer.ports.native import BindDone, NormalizeDone, PrefillDone, Progress, RunDone
from ninfer.ports.transactions import TransactionKind
from ninfer.store.stores import ContextStores

from .ahead import Ahead, RunAhead
from .capture import forfeit_destinations, land_captures
from .sequence import Sequence
from .transaction import ContextTransaction, Transactions


@dataclass(frozen=True, slots=True)
class UnitFlight:
    """Rows of one unit and where each of them ends."""

    rows: tuple[tuple[Sequence, int], ...]
    is_prefill: bool


@dataclass(slots=True)
class EarlyUnit:
    """A unit behind the copies of its bind, which may be told in either order."""

    landed: UnitFlight | None = None
    """It has landed, and the end of the copies is still to be told."""
    settle: Callable[[], None] | None = None
    """A copy has failed: the bind is settled when the unit has let go of the targets (V-03)."""


@dataclass(frozen=True, slots=True)
class AheadFlight:
    """Rows of one launch ahead of its commit."""

    rows: tuple[tuple[Sequence, Ahead], ...]


class Flights:
    """Everything submitted and not landed."""

    def __init__(
        self,
        stores: ContextStores,
        transactions: Transactions,
        ahead: RunAhead,
        end_released: Callable[[Sequence], None],
    ) -> None:
        self._stores = stores
        self._transactions = transactions
        self._end_released = end_released
        self._ahead = ahead
        self._copies: dict[TransferId, tuple[ContextTransaction, Callable[[], None]]] = {}
        self._units: dict[UnitId, UnitFlight | AheadFlight] = {}
        self._samples: dict[UnitId, dict[LaneId, Sequence]] = {}
        self._bound: list[Sequence] = []
        self._settling: list[Sequence] = []
        self._early: dict[Handle, EarlyUnit] = {}

    def add_bind(self, sequence: Sequence) -> None:
        """A bind without copies: in place, and said so at the next poll."""
        self._bound.append(sequence)

    def add_transfers(self, transaction: ContextTransaction, settle: Callable[[], None]) -> None:
        """A transaction with copies under way; `settle` once the last of them has ended."""
        for transfer in transaction.transfers:
            self._copies[transfer] = transaction, settle

    def add_unit(self, unit: UnitId, flight: UnitFlight) -> None:
        """A forward pass."""
        for sequence, _ in flight.rows:
            sequence.outstanding += 1
        self._units[unit] = flight

    def add_early(self, unit: UnitId, flight: UnitFlight) -> None:
        """The first unit of a sequence whose restore has not landed."""
        ((sequence, _),) = flight.rows
        sequence.is_early = True
        self._early[sequence.handle] = EarlyUnit()
        self.add_unit(unit, flight)

    def add_ahead(self, unit: UnitId, flight: AheadFlight) -> None:
        """A launch ahead. Nobody waits for it, unless it is adopted on its way."""
        self._units[unit] = flight

    def add_samples(self, unit: UnitId, sequences: Rows[Sequence]) -> None:
        """Draws, one a lane."""
        for sequence in sequences:
            sequence.outstanding += 1
        self._samples[unit] = {sequence.lane: sequence for sequence in sequences}

    def add_said(self, sequence: Sequence, token_id: int) -> None:
        """A token that nobody draws: a run of one, reported like a drawn one once what was fed for it has landed."""
        sequence.run = RunResult(sequence.lane, (token_id,))
        self._settle_later(sequence)

    def add_normalizing(self, sequence: Sequence) -> None:
        """What is fed for it may have landed already, with a launch ahead that was adopted."""
        sequence.is_normalizing = True
        self._settle_later(sequence)

    def land(self, completions: Rows[Completion]) -> list[Progress]:
        """Commit what has landed; returns what callers should know, in order of landing."""
        progress: list[Progress] = []
        progress += self._report_bound()
        settling, self._settling = self._settling, []
        for sequence in settling:
            progress += self._settle(sequence)
        for completion in completions:
            match completion:
                case CopyDone(transfer):
                    progress += self._land_transfer(transfer, failed=False)
                case UnitDone(unit):
                    flight = self._units.pop(unit)
                    if isinstance(flight, AheadFlight):
                        progress += self._land_ahead(flight)
                    else:
                        progress += self._land_unit(flight)
                case CopyFailed(transfer):
                    progress += self._land_transfer(transfer, failed=True)
                case SamplesDone():
                    progress += self._land_samples(completion)
                case _:
                    assert_never(completion)
            progress += self._report_bound()
        return progress

    def land_bind(self, sequence: Sequence) -> None:
        """The copies of a bind have ended, well or not."""
        self.land_copies(sequence)
        if not sequence.is_ended and not sequence.is_broken:
            self._bound.append(sequence)

    def land_copies(self, sequence: Sequence) -> None:
        """A transaction that a sequence waited for has ended."""
        sequence.outstanding -= 1
        if sequence.is_ended and not sequence.outstanding:
            self._end_released(sequence)

    def _report_bound(self) -> list[Progress]:
        bound, self._bound = self._bound, []
        return [BindDone(sequence.handle) for sequence in bound if not sequence.is_ended]

    def _land_transfer(self, transfer: TransferId, *, failed: bool) -> list[Progress]:
        transaction, settle = self._copies.pop(transfer)
        if not self._transactions.land(transaction, transfer, failed=failed):
            return []
        is_bind = transaction.kind is TransactionKind.BIND and transaction.subject is not None
        early = self._early.get(transaction.subject) if is_bind and transaction.subject is not None else None
        if early is not None and early.landed is None and transaction.has_failure:
            transaction.awaits_unit = True
            early.settle = settle
            return []
        settle()
        if early is None or early.landed is None:
            return []
        return [*self._report_bound(), *self._land_early(early.landed)]

    def _land_early(self, flight: UnitFlight) -> list[Progress]:
        """The unit and the copies before it have ended. After a failed copy it has computed nothing."""
        ((sequence, _),) = flight.rows
        del self._early[sequence.handle]
        sequence.is_early = False
        if not sequence.is_broken:
            return self._land_unit(flight)
        forfeit_destinations(self._stores, sequence)
        return self._settle(sequence)

    def _land_unit(self, flight: UnitFlight) -> list[Progress]:
        progress: list[Progress] = []
        early = self._early.get(flight.rows[0][0].handle)
        if early is not None:
            if early.settle is not None:
                early.settle()
            elif flight.rows[0][0].restoring is not None:
                early.landed = flight
                return []
            return self._land_early(flight)
        for sequence, stop in flight.rows:
            self.commit_row(sequence, stop)
            if sequence.is_ended:
                forfeit_destinations(self._stores, sequence)
            elif flight.is_prefill:
                captured = land_captures(self._stores, sequence)
                progress.append(PrefillDone(sequence.handle, stop, captured))
            progress += self._settle(sequence)
        return progress

    def _land_ahead(self, flight: AheadFlight) -> list[Progress]:
        progress: list[Progress] = []
        for sequence, ahead in flight.rows:
            if self._ahead.land(ahead):
                self.commit_row(sequence, ahead.stop)
                progress += self._settle(sequence)
        return progress

    def _land_samples(self, done: SamplesDone) -> list[Progress]:
        progress: list[Progress] = []
        waiting = self._samples.pop(done.unit)
        for run in done.runs:
            sequence = waiting.pop(run.lane)
            sequence.run = run
            progress += self._settle(sequence)
        assert not waiting, "a lane asked for a token and got none"
        return progress

    def commit_row(self, sequence: Sequence, stop: int) -> None:
        """State and KV of [0, stop) are complete."""
        sequence.directory.commit(stop)
        sequence.ledger.advance(stop)
        if not sequence.slot_is_live:
            self._stores.slots.publish([sequence.slot])
            sequence.slot_is_live = True
        if sequence.source is not None:
            self._stores.leases.release(sequence.source.lease)
            sequence.source = None

    def _settle_later(self, sequence: Sequence) -> None:
        """At the next poll at the earliest, like everything that is submitted."""
        sequence.outstanding += 1
        self._settling.append(sequence)

    def _settle(self, sequence: Sequence) -> list[Progress]:
        """One completion less to come; a drawn run is reported once its unit has landed too."""
        sequence.outstanding -= 1
        if sequence.outstanding:
            return []
        if sequence.is_ended:
            self._end_released(sequence)
            return []
        if sequence.is_normalizing:
            sequence.is_normalizing = False
            return [NormalizeDone(sequence.handle, sequence.ledger.execution_frontier)]
        return [] if sequence.run is None else [RunDone(sequence.handle, sequence.run)]
