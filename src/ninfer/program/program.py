"""The Native Program: model ledger, restore points and resources of one device, behind `ports.native`.

Composes the procedures; owns the stores and the sequences. Knows no request, no policy, no tensor. One control thread
calls it (B8).
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Rows
from dataclasses import replace
from typing import TypeVar, assert_never

from ninfer.base.ids import Handle, LaneId, UnitId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.device import Device, HostTier, UnitBatch, UnitKind, UnitRow
from ninfer.ports.native import (
    ActionGroup,
    Bound,
    CaptureRequest,
    ControlTurn,
    DecodeTurn,
    DeleteAction,
    DemoteAction,
    Demoting,
    DrawTurn,
    HostGap,
    NormalizeTurn,
    Occupancy,
    PointKind,
    PrefillTurn,
    Progress,
    Prompt,
    SourceQuote,
)
from ninfer.ports.transactions import TransactionEnd, TransactionKind
from ninfer.store.audit import audit_stores
from ninfer.store.handles import HandleTable
from ninfer.store.stores import ContextStores

from .actions import delete_points
from .ahead import RunAhead
from .bind import bind_source, settle_bind
from .capture import (
    forfeit_destinations,
    reserve_destination,
    settle_host_capture,
    spend_destinations,
    start_host_capture,
)
from .demote import covers, find_host_gap, settle_demotion, start_batch, start_demotion
from .flights import AheadFlight, Flights, UnitFlight
from .footprints import Footprint, list_footprints
from .hosting import Leaving
from .offers import Kind, Offers
from .pause import freeze_sequence, revoke, settle_pause, start_pause
from .permits import forfeit_permit, reserve_coverage, spend_coverage
from .quotes import quote_point, quote_root
from .sequence import Sequence
from .transaction import ContextTransaction, Transactions
from .units import Work, cuts_between, find_stop, sample_row, unit_row

A = TypeVar("A", DeleteAction, DemoteAction)


class Program:
    """Implements `NativeProgram` over the stores, on any `Device`."""

    def __init__(self, device: Device, host: HostTier | None = None) -> None:
        """`host`: the pinned arena beside the device, where there is one (C2)."""
        self._device = device
        self._host = host
        self._stores = ContextStores(device.facts, 0 if host is None else host.host_bytes)
        self._offers = Offers(self._stores)
        self._transactions = Transactions()
        self._sequences: HandleTable[Sequence] = HandleTable()
        self._released: list[Sequence] = []
        self._ahead = RunAhead(self._stores)
        self._flights = Flights(self._stores, self._transactions, self._ahead, self._end_released)

    def occupancy(self) -> Occupancy:
        """Real occupancy, per pool."""
        return Occupancy(self._stores.capacity(), self._stores.free(), self._stores.unfilled())

    def quote_source(
        self,
        prompt: Prompt,
        point: Handle | None,
        *,
        takes_over: bool,
        first_unit_tokens: int,
        gives_up_point: bool = False,
        may_end: frozenset[Handle] | None = None,
    ) -> SourceQuote | None:
        """Verify and price one way to start; None when the point does not serve this prompt (D10, G4)."""
        if point is None:
            return quote_root(self._stores, prompt, first_unit_tokens)
        return quote_point(
            self._stores,
            prompt,
            point,
            takes_over=takes_over,
            first_unit_tokens=first_unit_tokens,
            gives_up_point=gives_up_point,
            may_end=may_end,
        )

    def bind(self, quote: SourceQuote, prompt: Prompt, lane: LaneId) -> Bound | Shortfall:
        """Hand the source over and take the first unit's permit, or change nothing (G4, V-14)."""
        stores, transactions = self._stores, self._transactions
        outcome = bind_source(stores, self._device, self._host, transactions, self._sequences, quote, prompt, lane)
        if isinstance(outcome, Shortfall):
            return outcome
        sequence, transaction, consumed = outcome
        if transaction is None:
            self._flights.add_bind(sequence)
        else:
            self._flights.add_transfers(transaction, lambda: self._settle_bind(transaction, sequence))
        return Bound(sequence.handle, quote.frontier, quote.carried, consumed)

    def reserve_prefill(self, sequence: Handle, tokens: int) -> Shortfall | None:
        """Permit for the next `tokens` prompt tokens (A4)."""
        target = self._sequences[sequence]
        return reserve_coverage(self._stores, target, find_stop(target, Work.PROMPT, tokens))

    def reserve_decode(self, sequence: Handle) -> Shortfall | None:
        """Permit to feed what is pending, or the token that the next draw will commit (A4)."""
        return self._reserve_work(sequence, Work.DECODE)

    def reserve_control(self, sequence: Handle) -> Shortfall | None:
        """Permit to feed what is pending; the token that is said needs no room yet (C6)."""
        return self._reserve_work(sequence, Work.CONTROL)

    def reserve_normalize(self, sequence: Handle) -> Shortfall | None:
        """Permit to feed all pending tokens but the last (C6, K2)."""
        return self._reserve_work(sequence, Work.NORMALIZE)

    def is_normal(self, sequence: Handle) -> bool:
        """At most one committed token is left to feed (D8)."""
        return self._sequences[sequence].ledger.pending_tokens <= 1

    def reserve_capture(self, sequence: Handle, capture: CaptureRequest, retires: Handle | None) -> Shortfall | None:
        """Destination for a capture of the next prefill turn (E2)."""
        target = self._sequences[sequence]
        assert not target.outstanding or self.may_start(sequence), "E2: a capture is prepared before its unit runs"
        return reserve_destination(self._stores, target, capture, retires)

    def submit(self, turns: Rows[DecodeTurn], prefill: PrefillTurn | None, *, runs_ahead: bool = False) -> int:
        """Run permitted turns: feeds as one batch, all draws, what runs ahead of them, the prefill chunk."""
        rows = [(self._sequences[turn.sequence], turn) for turn in turns]
        launched = 0
        draws: list[tuple[Sequence, DrawTurn]] = []
        feeding: list[tuple[Sequence, int]] = []
        for sequence, turn in rows:
            assert not sequence.outstanding, "a sequence runs one turn at a time"
            assert sequence.ledger.prompt_is_done, "V-08: a draw before the prompt is done"
            sequence.run = None
            match turn:
                case DrawTurn():
                    pending = sequence.ledger.pending_tokens
                    assert turn.decode or not pending, "V-08: a draw past a token that was not fed"
                    assert pending or not turn.decode, "V-08: there is no committed token to feed"
                    draws.append((sequence, turn))
                    stop = find_stop(sequence, Work.DECODE) if turn.decode else sequence.ledger.execution_frontier
                case ControlTurn():
                    stop = find_stop(sequence, Work.CONTROL)
                case NormalizeTurn():
                    stop = find_stop(sequence, Work.NORMALIZE)
                case _:
                    assert_never(turn)
            if stop > sequence.ledger.execution_frontier:
                feeding.append((sequence, stop))
        self._submit_feed(feeding)
        if draws:
            unit = self._device.submit_sampling([sample_row(sequence, turn) for sequence, turn in draws])
            self._flights.add_samples(unit, [sequence for sequence, _ in draws])
            if runs_ahead and self._device.facts.feeds_draws:
                behind = [(sequence, self._ahead.launch_behind_draw(sequence)) for sequence, _ in draws]
                launched = self._submit_ahead(behind, unit)
        for sequence, turn in rows:
            if isinstance(turn, ControlTurn):
                self._flights.add_said(sequence, turn.token_id)
            elif isinstance(turn, NormalizeTurn):
                self._flights.add_normalizing(sequence)
        if prefill is not None:
            self._submit_prefill(prefill)
        return launched

    def poll(self) -> list[Progress]:
        """Commit what has landed and say so."""
        self._offers.forget_ended()
        return self._flights.land(self._device.poll())

    def run_ahead(self, sequences: Rows[Handle]) -> int:
        """Feed runs that are drawn and not committed, as one launch; returns for how many there was a slot and room."""
        targets = [self._sequences[handle] for handle in sequences]
        return self._submit_ahead([(target, self._ahead.launch(target)) for target in targets], None)

    def commit_run(self, sequence: Handle, accepted: int) -> None:
        """Append the accepted prefix of the last run. It has not been fed, but perhaps by a launch ahead.

        State and KV follow exactly that prefix: a launch ahead that feeds anything else is dropped (decision 15).
        """
        target = self._sequences[sequence]
        assert not target.outstanding
        assert target.run is not None, "there is no run to commit"
        assert 0 <= accepted <= len(target.run.token_ids)
        target.ledger.commit(target.run.token_ids[:accepted])
        if target.ahead is not None and target.ahead.stop != target.ledger.ledger_frontier:
            self._ahead.drop(target)
        target.run = None

    def freeze_end(self, sequence: Handle) -> Handle:
        """The legal execution state becomes the END point of its history (F4)."""
        target = self._sequences[sequence]
        assert not target.outstanding, "F4: a sequence is frozen between units"
        assert target.ledger.prompt_is_done, "V-11: a chunk end is no restore point"
        assert not target.captures, "E2: a capture outlived the prompt"
        self._sequences.remove(sequence).is_ended = True
        return freeze_sequence(self._stores, self._ahead, target, PointKind.END)

    def release(self, sequence: Handle) -> None:
        """End the sequence without a point; with work under way, when that has landed (L3)."""
        target = self._sequences.remove(sequence)
        target.is_ended = True
        current = self._transactions.current
        waits = current is not None and current.kind in (TransactionKind.BIND, TransactionKind.CAPTURE)
        if current is not None and waits and current.subject == sequence:
            self._transactions.cancel(current)
        if target.outstanding:
            self._released.append(target)
        else:
            self._end(target)

    def may_start(self, sequence: Handle) -> bool:
        """Whether its first chunk may follow the copies of its bind, which are under way and none of which has failed:
        a unit that is submitted later knows nothing of a copy that has already ended (decision 2)."""
        if not self._device.facts.follows_copies or not self._sequences[sequence].may_start:
            return False
        bind = self._transactions.current
        assert bind is not None and bind.subject == sequence, "L1: a restore without its transaction"
        return not bind.has_failure

    def in_flight(self, sequence: Handle) -> bool:
        """Whether work of this sequence is still under way."""
        return self._sequences[sequence].outstanding > 0

    def point_frontier(self, point: Handle) -> int:
        """Tokens of which the point is the state."""
        return self._stores.checkpoints[point].frontier

    def list_sequences(self) -> list[Handle]:
        """Every sequence that was neither frozen nor released."""
        return [handle for handle, _ in self._sequences.items()]

    def count_leaving(self) -> int:
        """Released sequences and dropped launches that have not landed."""
        return len(self._released) + self._ahead.count_orphans()

    def list_points(self) -> list[Handle]:
        """Every living point."""
        return [point for point, _ in self._stores.checkpoints.items()]

    def discard_point(self, point: Handle) -> None:
        """End a point that nobody took over; a lease on its content outlives it."""
        self._stores.checkpoints.retire(point)
        self._offers.forget_ended()

    def list_footprints(self, groups: Rows[Rows[Handle]]) -> list[Amounts]:
        """What each group of points holds and no group before it does (H3)."""
        return list_footprints(self._stores, groups)

    def open_footprint(self) -> Footprint:
        """What groups of points hold, while they come and go."""
        return Footprint(self._stores)

    def find_host_gap(self, action: DemoteAction, deletions: Rows[DeleteAction]) -> HostGap | None:
        """What the copies of a demotion would lack on the host after these deletions (I11)."""
        return find_host_gap(self._stores, action, deletions)

    def list_delete_actions(self, pool: Pool) -> list[DeleteAction]:
        """Finite ways to free something of `pool` by ending points (B7)."""
        return [replace(action, epoch=self.epoch) for action in _flatten(self.list_delete_groups(pool), DeleteAction)]

    def delete(self, action: DeleteAction) -> Amounts:
        """End the points of the action; returns what became free."""
        freed = delete_points(self._stores, self._offers.releases, action)
        self._offers.forget_ended()
        return freed

    @property
    def transaction_open(self) -> bool:
        """Whether a context transaction is under way (V-07)."""
        return self._transactions.current is not None

    def list_demote_actions(self, pool: Pool) -> list[DemoteAction]:
        """Finite ways to free something of a device pool by leaving content on the host (I1, I6)."""
        return [replace(action, epoch=self.epoch) for action in _flatten(self.list_demote_groups(pool), DemoteAction)]

    def list_delete_groups(self, pool: Pool) -> list[ActionGroup]:
        """The same deletions, in groups that stay the same objects while nothing they rest on changes."""
        return self._offers.list_groups(Kind.DELETE, pool)

    def list_demote_groups(self, pool: Pool) -> list[ActionGroup]:
        """The same demotions, in such groups."""
        return self._offers.list_groups(Kind.DEMOTE, pool)

    @property
    def epoch(self) -> int:
        """Counts changes of the stores."""
        return self._stores.epoch.value

    def demote(
        self, action: DemoteAction, *, most: int | None = None, keeps_device: bool = False
    ) -> Demoting | Shortfall:
        """Begin a demotion, or a write-back; a group of pages is halved until it can be placed (I11)."""
        stores, transactions = self._stores, self._transactions
        return self._follow_demotion(
            start_demotion(stores, self._host, transactions, action, most=most, keeps_device=keeps_device)
        )

    def demote_batch(self, actions: Rows[DemoteAction], most: int) -> Demoting | Shortfall:
        """Begin one demotion of several page groups, trimmed to the leading pages that can be placed (I7)."""
        return self._follow_demotion(start_batch(self._stores, self._host, self._transactions, actions, most))

    def covers(self, demotions: Rows[DemoteAction], deletion: DeleteAction) -> bool:
        """Whether a deletion would free no device page beyond those that leave with these demotions (I7)."""
        return covers(self._stores, demotions, deletion)

    def cancel_demotion(self) -> None:
        """Give up the demotion under way; its content stays (L3)."""
        current = self._transactions.current
        assert current is not None and current.kind is TransactionKind.DEMOTION, "L3: there is no demotion"
        self._transactions.cancel(current)

    def pause(self, sequence: Handle) -> Handle | Shortfall:
        """The sequence becomes a snapshot; what only it has leaves the device (K1, K2)."""
        target = self._sequences[sequence]
        stores, transactions = self._stores, self._transactions
        outcome = start_pause(stores, self._host, transactions, self._ahead, target)
        if isinstance(outcome, Shortfall):
            return outcome
        self._sequences.remove(sequence).is_ended = True
        snapshot, transaction, leaving = outcome
        if transaction is not None:
            self._flights.add_transfers(transaction, lambda: settle_pause(stores, transactions, transaction, leaving))
        return snapshot

    def capture_on_host(self, sequence: Handle, capture: CaptureRequest, retires: Handle | None) -> Shortfall | None:
        """Save the state as it stands, at `capture.frontier`, to the host alone (E2)."""
        target = self._sequences[sequence]
        outcome = start_host_capture(self._stores, self._host, self._transactions, target, capture, retires)
        if isinstance(outcome, Shortfall):
            return outcome
        transaction = outcome
        self._flights.add_transfers(transaction, lambda: self._settle_capture(transaction, target, capture.kind))
        return None

    def revoke_snapshot(self, snapshot: Handle) -> Amounts:
        """End a snapshot with every reference it has (K3)."""
        return revoke(self._stores, self._transactions, snapshot)

    def quote_revocation(self, snapshot: Handle) -> Amounts:
        """What ending a snapshot would free at once (J3)."""
        return self._stores.checkpoints.count_freed([snapshot])

    def count_transfers(self) -> int:
        """Transactions that wait for their copies, cancelled ones included."""
        return self._transactions.count_open()

    def collect_ends(self) -> list[TransactionEnd]:
        """How transactions ended since the last call."""
        return self._transactions.collect_ends()

    def audit(self) -> None:
        """Recount everything from the owners up (V-01, V-02)."""
        self._sequences.audit()
        self._transactions.audit()
        living = [sequence for _, sequence in self._sequences.items()] + self._released
        owners = [sequence.owned() for sequence in living]
        owners += self._transactions.list_owned() + self._ahead.list_owned()
        audit_stores(self._stores, owners)
        self._offers.audit()

    def _follow_demotion(
        self, outcome: tuple[Demoting, ContextTransaction | None, Leaving] | Shortfall
    ) -> Demoting | Shortfall:
        if isinstance(outcome, Shortfall):
            return outcome
        demoting, transaction, leaving = outcome
        if transaction is not None:
            stores, transactions = self._stores, self._transactions
            self._flights.add_transfers(
                transaction, lambda: settle_demotion(stores, transactions, transaction, leaving)
            )
        return demoting

    def _reserve_work(self, sequence: Handle, work: Work) -> Shortfall | None:
        target = self._sequences[sequence]
        assert target.ledger.prompt_is_done, f"C6: {work.value} before the prompt is done"
        return reserve_coverage(self._stores, target, find_stop(target, work))

    def _submit_feed(self, feeding: list[tuple[Sequence, int]]) -> None:
        """Committed tokens up to the stop of each, as one batch; a launch ahead that has fed them is adopted."""
        rows = []
        for sequence, stop in feeding:
            if sequence.ahead is not None:
                self._adopt(sequence)
                continue
            spend_coverage(self._stores, sequence, stop)
            rows.append((sequence, stop))
        if not rows:
            return
        is_plain = all(stop - sequence.ledger.execution_frontier == 1 for sequence, stop in rows)
        kind = UnitKind.DECODE if is_plain else UnitKind.VERIFY
        batch = UnitBatch(kind, tuple(unit_row(sequence, stop) for sequence, stop in rows))
        self._flights.add_unit(self._device.submit_unit(batch), UnitFlight(tuple(rows), is_prefill=False))

    def _submit_ahead(self, behind: Rows[tuple[Sequence, UnitRow | None]], drawn_by: UnitId | None) -> int:
        """One launch ahead of all that have a row."""
        flying = tuple((sequence, sequence.ahead) for sequence, row in behind if row is not None and sequence.ahead)
        if not flying:
            return 0
        rows = tuple(row for _, row in behind if row is not None)
        is_plain = all(len(row.token_ids) == 1 for row in rows)
        batch = UnitBatch(UnitKind.DECODE if is_plain else UnitKind.VERIFY, rows, drawn_by)
        self._flights.add_ahead(self._device.submit_unit(batch), AheadFlight(flying))
        return len(rows)

    def _adopt(self, sequence: Sequence) -> None:
        stop = sequence.ledger.ledger_frontier
        if self._ahead.adopt(sequence):
            self._flights.commit_row(sequence, stop)
        else:
            sequence.outstanding += 1

    def _submit_prefill(self, turn: PrefillTurn) -> None:
        sequence = self._sequences[turn.sequence]
        is_early = self.may_start(turn.sequence)
        assert is_early or not sequence.outstanding, "a sequence runs one turn at a time"
        start, stop = sequence.ledger.execution_frontier, find_stop(sequence, Work.PROMPT, turn.tokens)
        spend_coverage(self._stores, sequence, stop, keeps_rest=turn.replay, follows_copies=is_early)
        spend_destinations(self._stores, sequence, turn.captures)
        for capture in turn.captures:
            assert start < capture.frontier <= stop, "E2: the capture is not in this chunk"
        row = unit_row(sequence, stop, cuts_between(sequence, start, stop))
        batch = UnitBatch(UnitKind.REPLAY if turn.replay else UnitKind.PREFILL, (row,))
        flight = UnitFlight(((sequence, stop),), is_prefill=True)
        if is_early:
            bind = self._transactions.current
            assert bind is not None
            self._flights.add_early(self._device.submit_unit(batch, sorted(bind.transfers)), flight)
        else:
            self._flights.add_unit(self._device.submit_unit(batch), flight)

    def _settle_bind(self, transaction: ContextTransaction, sequence: Sequence) -> None:
        settle_bind(self._stores, self._transactions, transaction, sequence)
        self._flights.land_bind(sequence)

    def _settle_capture(self, transaction: ContextTransaction, sequence: Sequence, kind: PointKind) -> None:
        settle_host_capture(self._stores, self._transactions, transaction, sequence, kind)
        self._flights.land_copies(sequence)

    def _end_released(self, sequence: Sequence) -> None:
        self._released.remove(sequence)
        self._end(sequence)

    def _end(self, sequence: Sequence) -> None:
        self._ahead.drop(sequence)
        forfeit_permit(self._stores, sequence)
        forfeit_destinations(self._stores, sequence)
        if sequence.source is not None:
            self._stores.leases.release(sequence.source.lease)
        self._stores.slots.drop(sequence.slot)
        sequence.directory.close_writer()
        self._stores.directories.close_unheld(sequence.directory)


def _flatten(groups: Iterable[ActionGroup], kind: type[A]) -> list[A]:
    return [action for group in groups for action in group.actions if isinstance(action, kind)]
