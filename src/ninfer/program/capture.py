"""Capture: a destination for the state at a coming frontier, and the point it becomes once its unit lands (E1, E2).

Without a device slot the state as it stands can go to the host instead, which is a context transaction of its own.
A private input point shares the history it lies in, so that it takes one slot and no page (F2). Chunk ends capture
nothing by themselves (V-11): only a request names a frontier.
"""

from __future__ import annotations

from ninfer.base.identity import PrefixIdentity
from ninfer.base.ids import Handle
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.device import HostTier
from ninfer.ports.native import CaptureRequest, PointKind, TransactionKind
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
    if sequence.capture is not None and sequence.capture.request == request:
        return None
    freed = 0 if sequence.capture is None else 1
    if retires is not None:
        assert stores.checkpoints[retires].directory is sequence.directory, (
            "E2: the outdated point is another history's"
        )
        freed += stores.checkpoints.count_freed([retires]).state
    free = stores.slots.free_cells
    if free + freed < 1:
        return Shortfall(Pool.STATE, 1, free)
    forfeit_destination(stores, sequence)
    if retires is not None:
        stores.checkpoints.retire(retires)
    _check_kind_is_vacant(stores, sequence, request.kind)
    reservation = stores.reservations.reserve(Amounts(state=1))
    assert isinstance(reservation, Handle)
    sequence.capture = PendingCapture(request, reservation)
    return None


def spend_destination(stores: ContextStores, sequence: Sequence, request: CaptureRequest | None) -> None:
    """Give the unit the slot to write, or the slot back when this turn captures nothing."""
    capture = sequence.capture
    if request is None:
        forfeit_destination(stores, sequence)
        return
    assert capture is not None, "E2: a capture without a destination"
    assert capture.request == request, "E2: the destination was prepared for another capture"
    assert capture.reservation is not None
    capture.slot = stores.reservations.take_slot(capture.reservation)
    stores.reservations.forfeit(capture.reservation)
    capture.reservation = None


def land_capture(stores: ContextStores, sequence: Sequence) -> Handle | None:
    """The unit has landed: the state is complete and becomes a visible point (V-05, V-06)."""
    capture = sequence.capture
    if capture is None:
        return None
    assert capture.slot is not None
    stores.slots.publish([capture.slot])
    sequence.capture = None
    return stores.checkpoints.publish(
        Checkpoint(
            identity=identity_at(sequence, capture.request.frontier),
            slot=capture.slot,
            directory=sequence.directory,
            kind=capture.request.kind,
        )
    )


def forfeit_destination(stores: ContextStores, sequence: Sequence) -> None:
    """Drop a capture that will not be: its reservation, or the slot a unit wrote for nobody."""
    capture = sequence.capture
    if capture is None:
        return
    if capture.reservation is not None:
        stores.reservations.forfeit(capture.reservation)
    if capture.slot is not None:
        stores.slots.drop(capture.slot)
    sequence.capture = None


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
    _check_kind_is_vacant(stores, sequence, request.kind)
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


def _check_kind_is_vacant(stores: ContextStores, sequence: Sequence, kind: PointKind) -> None:
    kinds = [stores.checkpoints[point].kind for _, point in sequence.directory.list_holders()]
    assert kind not in kinds, f"D1: the history has another {kind.value}; name it in `retires`"
