"""Capture: a destination for the state at a coming frontier, and the point it becomes once its unit lands (E1, E2).

A private input point shares the history it lies in, so that it takes one slot and no page (F2). Chunk ends capture
nothing by themselves (V-11): only a request names a frontier.
"""

from __future__ import annotations

from ninfer.base.identity import PrefixIdentity
from ninfer.base.ids import Handle
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import CaptureRequest, PointKind
from ninfer.store.checkpoints import Checkpoint
from ninfer.store.stores import ContextStores

from .sequence import PendingCapture, Sequence


def reserve_destination(
    stores: ContextStores, sequence: Sequence, request: CaptureRequest, retires: Handle | None
) -> Shortfall | None:
    """Retire the outdated point and take a slot, or change nothing (V-04)."""
    prompt = sequence.prompt
    assert sequence.ledger.execution_frontier < request.frontier <= prompt.prompt_tokens, "E2: capture off the path"
    on_split = request.frontier in prompt.execution_frontiers or request.frontier == prompt.prompt_tokens
    assert on_split, f"V-11: {request.frontier} is not a semantic frontier of the prompt (D5)"
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


def identity_at(sequence: Sequence, frontier: int) -> PrefixIdentity:
    """What a point of this sequence is a state of (D7)."""
    prompt = sequence.prompt
    return PrefixIdentity(prompt.execution_identity, sequence.ledger.tokens, frontier, prompt.media)


def _check_kind_is_vacant(stores: ContextStores, sequence: Sequence, kind: PointKind) -> None:
    kinds = [stores.checkpoints[point].kind for _, point in sequence.directory.list_holders()]
    assert kind not in kinds, f"D1: the history has another {kind.value}; name it in `retires`"
