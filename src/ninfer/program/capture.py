"""Capture: a destination for the state at a coming frontier, and the point it becomes once its unit lands (E1, E2).

Without a device slot the state as it stands can go to the host instead, which is a context transaction of its own.
A private input point shares the history it lies in, so that it takes one slot and no page (F2). Chunk ends capture
nothing by themselves (V-11): only a request names a frontier.
"""

from __future__ import annotations

from collections.abc import Iterable

from ninfer.base.identity import PrefixIdentity
from ninfer.base.ids import Handle
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.device import HostTier
from ninfer.ports.native import CaptureRequest, PointKind
from ninfer.ports.transactions import TransactionKind
from ninfer.store.checkpoints import Checkpoint
from ninfer.store.stores import ContextStores

from .hosting import Leaving, land_saves, reserve_room, submit_saves
from .sequence import PendingCapture, Sequence
from .transaction import ContextTransaction, Transactions


def reserve_destination(
    stores: ContextStores, sequence: Sequence, request: CaptureRequest, retires: Handle | None
) -> Shortfall | None:
    """Retire the outdated point and take a slot, or change nothing (V-04)."""
    prompt = sequence.prompt
    assert sequence.ledger.execution_frontier < request.frontier <= prompt.prompt_tokens, "E2: capture off the path"
    _check_split(sequence, request)
    if any(capture.request.frontier == request.frontier for capture in sequence.captures):
        return None
    freed = 0 if retires is None else stores.checkpoints.count_freed([retires]).state
    free = stores.slots.free_cells
    if free + freed < 1:
        return Shortfall(Pool.STATE, 1, free)
    if retires is not None:
        stores.checkpoints.retire(retires)
    reservation = stores.reservations.reserve(Amounts(state=1))
    assert isinstance(reservation, Handle)
    sequence.captures.append(PendingCapture(request, reservation))
    return None


def spend_destinations(stores: ContextStores, sequence: Sequence, requests: Iterable[CaptureRequest]) -> None:
    """Give the unit the slots to write, and those back that this turn does not use."""
    wanted = {request.frontier for request in requests}
    held = {capture.request.frontier for capture in sequence.captures}
    assert wanted <= held, "E2: a capture without a destination"
    for capture in list(sequence.captures):
        assert capture.reservation is not None
        if capture.request.frontier in wanted:
            capture.slot = stores.reservations.take_slot(capture.reservation)
        else:
            sequence.captures.remove(capture)
        stores.reservations.forfeit(capture.reservation)
        capture.reservation = None


def land_captures(stores: ContextStores, sequence: Sequence) -> tuple[tuple[int, Handle], ...]:
    """The unit has landed: the states are complete and become visible points (V-05, V-06), the shallowest first."""
    captures, sequence.captures = sorted(sequence.captures, key=lambda capture: capture.request.frontier), []
    landed: list[tuple[int, Handle]] = []
    for capture in captures:
        assert capture.slot is not None
        stores.slots.publish([capture.slot])
        frontier, kind = capture.request.frontier, capture.request.kind
        point = Checkpoint(identity_at(sequence, frontier), capture.slot, sequence.directory, kind)
        landed.append((frontier, stores.checkpoints.publish(point)))
    return tuple(landed)


def forfeit_destinations(stores: ContextStores, sequence: Sequence) -> None:
    """Drop captures that will not be: their reservations, or the slots a unit wrote for nobody."""
    for capture in sequence.captures:
        if capture.reservation is not None:
            stores.reservations.forfeit(capture.reservation)
        if capture.slot is not None:
            stores.slots.drop(capture.slot)
    sequence.captures = []


def start_host_capture(
    stores: ContextStores,
    host: HostTier | None,
    transactions: Transactions,
    sequence: Sequence,
    request: CaptureRequest,
    retires: Handle | None,
) -> ContextTransaction | Shortfall:
    """Copy the state as it stands to the host, or change nothing; the sequence waits for the reader (E2, V-03)."""
    assert not sequence.outstanding, "E2: a state in motion is not captured"
    assert request.frontier == sequence.ledger.execution_frontier, "E2: the state stands elsewhere"
    assert sequence.slot_is_live and sequence.source is None, "E4: nothing was computed; the state is its source's"
    _check_split(sequence, request)
    leaving = Leaving(sequence.slot, ())
    save = reserve_room(stores, leaving)
    if isinstance(save, Shortfall):
        image = None if retires is None else stores.checkpoints[retires].image
        if image is None or stores.copies.find_unplaced(leaving.cells(), [image]) is not None:
            return save
    if retires is not None:
        stores.checkpoints.retire(retires)
    if isinstance(save, Shortfall):
        save = reserve_room(stores, leaving)
        assert isinstance(save, Handle), "I11: what was found to fit does not"
    transaction = transactions.open(TransactionKind.CAPTURE)
    transaction.subject = sequence.handle
    transaction.save = save
    submit_saves(stores, host, transaction, leaving)
    sequence.outstanding += 1
    return transaction


def settle_host_capture(
    stores: ContextStores,
    transactions: Transactions,
    transaction: ContextTransaction,
    sequence: Sequence,
    kind: PointKind,
) -> None:
    """The copy has ended: the point is visible with its image on the host alone, if all is well and wanted (V-05)."""
    keeps = transaction.is_wanted and not transaction.has_failure
    land_saves(stores, transaction)
    transaction.subject = None
    if keeps:
        image = stores.copies.hand_over_replica(Pool.STATE, sequence.slot)
        identity = identity_at(sequence, sequence.ledger.execution_frontier)
        point = Checkpoint(identity, None, sequence.directory, kind, image)
        transaction.subject = stores.checkpoints.publish(point)
    transactions.settle(transaction)


def identity_at(sequence: Sequence, frontier: int) -> PrefixIdentity:
    """What a point of this sequence is a state of (D7)."""
    prompt = sequence.prompt
    return PrefixIdentity(prompt.execution_identity, sequence.ledger.tokens, frontier, prompt.media)


def _check_split(sequence: Sequence, request: CaptureRequest) -> None:
    prompt = sequence.prompt
    on_split = request.frontier in prompt.execution_frontiers or request.frontier == prompt.prompt_tokens
    assert on_split, f"V-11: {request.frontier} is not a semantic frontier of the prompt (D5)"
