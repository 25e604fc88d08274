"""The finite delete actions: which points can end together, and what that really frees (B7, I1).

Enumerates from real references; ranks nothing. A running sequence's optional points are among them; a point that
somebody reads is not.
"""

from __future__ import annotations

from collections.abc import Iterable

from ninfer.base.ids import Handle, SlotId
from ninfer.base.pools import PAGE_TOKENS, Amounts, Pool
from ninfer.ports.native import DeleteAction, PointKind
from ninfer.store.directory import KvDirectory
from ninfer.store.stores import ContextStores


def list_actions(stores: ContextStores, pool: Pool) -> list[DeleteAction]:
    """Smallest sets of points whose end frees something of `pool`, in a fixed order."""
    if pool is Pool.STATE:
        return _list_state_actions(stores)
    return _list_page_actions(stores, pool) if pool in stores.pages else []


def delete_points(stores: ContextStores, action: DeleteAction) -> Amounts:
    """Carry out an action of this epoch (V-14). Readers are checked again (V-03)."""
    assert action.epoch == stores.epoch.value, f"V-14: action of epoch {action.epoch}, now {stores.epoch.value}"
    assert all(_may_end(stores, point) for point in action.points), "V-03: a point of the action is being read"
    before = stores.free()
    for point in action.points:
        stores.checkpoints.retire(point)
    freed = stores.free() - before
    assert freed == action.frees, f"V-02: the action promised {action.frees} and freed {freed}"
    return freed


def _list_state_actions(stores: ContextStores) -> list[DeleteAction]:
    """One action a slot: all points that share it."""
    by_slot: dict[SlotId, list[Handle]] = {}
    for point, checkpoint in stores.checkpoints.items():
        if checkpoint.slot is None:
            continue
        by_slot.setdefault(checkpoint.slot, []).append(point)
    actions = []
    for points in by_slot.values():
        if all(_may_end(stores, point) for point in points):
            action = _action(stores, points)
            if action.frees.state:
                actions.append(action)
    return actions


def _list_page_actions(stores: ContextStores, pool: Pool) -> list[DeleteAction]:
    """Per history its deepest points, one more at a time; histories that free nothing alone are joined."""
    actions: list[DeleteAction] = []
    barren: list[KvDirectory] = []
    for directory in stores.directories:
        if directory.has_writer:
            continue
        mine = _nested_actions(stores, directory, pool)
        actions += mine
        if not mine:
            barren.append(directory)
    seen: set[tuple[Handle, ...]] = set()
    for directory in barren:
        action = _joint_action(stores, directory, pool)
        if action is not None and action.points not in seen:
            seen.add(action.points)
            actions.append(action)
    return actions


def _nested_actions(stores: ContextStores, directory: KvDirectory, pool: Pool) -> list[DeleteAction]:
    actions: list[DeleteAction] = []
    ending: list[Handle] = []
    freed_before = 0
    for _, point in reversed(directory.list_holders()):
        if not _may_end(stores, point):
            break
        ending.append(point)
        action = _action(stores, ending)
        if action.frees[pool] > freed_before:
            freed_before = action.frees[pool]
            actions.append(action)
    return actions


def _joint_action(stores: ContextStores, directory: KvDirectory, pool: Pool) -> DeleteAction | None:
    """All histories that share this one's last page end above it together."""
    table = directory.tables[pool].entries
    index = len(table) - 1
    page = table[index]
    points: list[Handle] = []
    for other in stores.directories:
        entries = other.tables[pool].entries
        if index < len(entries) and entries[index] == page:
            if other.has_writer:
                return None
            points += [point for tokens, point in other.list_holders() if tokens > index * PAGE_TOKENS]
    if not all(_may_end(stores, point) for point in points):
        return None
    action = _action(stores, sorted(points))
    return action if action.frees[pool] else None


def _action(stores: ContextStores, points: Iterable[Handle]) -> DeleteAction:
    ending = tuple(points)
    return DeleteAction(
        points=ending,
        frees=stores.checkpoints.count_freed(ending),
        lost_tokens=max(stores.checkpoints[point].frontier for point in ending),
        epoch=stores.epoch.value,
    )


def _may_end(stores: ContextStores, point: Handle) -> bool:
    """A snapshot ends by revocation alone (K3); what is being read stays (V-03)."""
    return stores.checkpoints[point].kind is not PointKind.SNAPSHOT and not stores.checkpoints.is_read(point)
