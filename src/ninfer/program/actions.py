"""The finite delete actions: which points can end together, and what that really frees (B7, I1).

Enumerates from real references; ranks nothing. A running sequence's optional points are among them; a snapshot and a
point that somebody reads are not.
"""

from __future__ import annotations

from ninfer.base.ids import Handle
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import DeleteAction
from ninfer.store.directory import KvDirectory
from ninfer.store.stores import ContextStores
from ninfer.store.tables import PageTable

from .releases import Releases


def list_actions(stores: ContextStores, pool: Pool) -> list[DeleteAction]:
    """Smallest sets of points whose end frees something of `pool`, in a fixed order."""
    releases = Releases(stores)
    if pool is Pool.STATE:
        return _list_image_actions(stores, releases, pool)
    if pool in stores.pages:
        return _list_page_actions(stores, releases, pool)
    if pool is Pool.HOST and len(stores.arena):
        actions = _list_image_actions(stores, releases, pool) + _list_page_actions(stores, releases, pool)
        return list({action.points: action for action in actions}.values())
    return []


def delete_points(stores: ContextStores, action: DeleteAction) -> Amounts:
    """Carry out an action of this epoch (V-14). Readers are checked again (V-03)."""
    assert action.epoch == stores.epoch.value, f"V-14: action of epoch {action.epoch}, now {stores.epoch.value}"
    releases = Releases(stores)
    endable = all(releases.may_end(stores.checkpoints[point]) for point in action.points)
    assert endable, "V-03: a point of the action is being read"
    before = stores.free()
    for point in action.points:
        stores.checkpoints.retire(point)
    freed = stores.free() - before
    assert freed == action.frees, f"V-02: the action promised {action.frees} and freed {freed}"
    return freed


def _list_image_actions(stores: ContextStores, releases: Releases, pool: Pool) -> list[DeleteAction]:
    """One action a StateImage of that medium: its one point, or all points that share it."""
    actions: list[DeleteAction] = []
    epoch, name = stores.epoch.value, pool.value
    for directory in stores.directories:
        for point, checkpoint, frees in releases.list_single(directory):
            if getattr(frees, name) and (checkpoint.slot is None) == (pool is Pool.HOST):
                actions.append(DeleteAction((point,), frees, checkpoint.frontier, epoch))
    for sharing in releases.list_shared_images():
        if all(releases.may_end(checkpoint) for _, checkpoint in sharing):
            points = tuple(point for point, _ in sharing)
            frees = releases.of_points(points)
            if frees[pool]:
                lost_tokens = max(checkpoint.frontier for _, checkpoint in sharing)
                actions.append(DeleteAction(points, frees, lost_tokens, epoch))
    return actions


def _list_page_actions(stores: ContextStores, releases: Releases, pool: Pool) -> list[DeleteAction]:
    """Per history its deepest points, one more at a time; histories that free nothing alone are joined."""
    actions: list[DeleteAction] = []
    barren: list[KvDirectory] = []
    for directory in stores.directories:
        if directory.has_writer:
            continue
        mine = _nested_actions(stores, releases, directory, pool)
        actions += mine
        if not mine:
            barren.append(directory)
    asked: set[tuple[Pool, int, int]] = set()
    for directory in barren:
        for shared in stores.pages if pool is Pool.HOST else (pool,):
            index = _find_deepest(stores, directory.tables[shared], shared, pool)
            deepest = (shared, index, directory.tables[shared].entries[index] if index >= 0 else 0)
            if index >= 0 and deepest not in asked:
                asked.add(deepest)
                actions += _joint_actions(stores, releases, *deepest, wanted=pool)
    return actions


def _nested_actions(
    stores: ContextStores, releases: Releases, directory: KvDirectory, pool: Pool
) -> list[DeleteAction]:
    actions: list[DeleteAction] = []
    ending: tuple[Handle, ...] = ()
    freed_before = lost_tokens = 0
    epoch, name = stores.epoch.value, pool.value
    for point, frees in releases.list_nested(directory):
        ending = (*ending, point)
        lost_tokens = lost_tokens or stores.checkpoints[point].frontier
        freed: int = getattr(frees, name)
        if freed > freed_before:
            freed_before = freed
            actions.append(DeleteAction(ending, frees, lost_tokens, epoch))
    return actions


def _find_deepest(stores: ContextStores, table: PageTable, pool: Pool, wanted: Pool) -> int:
    """Index of the last page whose end could free something of `wanted`; -1: there is none."""
    for index in range(len(table.entries) - 1, -1, -1):
        page = table.entries[index]
        on_host = page < 0 or (wanted is Pool.HOST and stores.copies.find_host(pool, page) is not None)
        if on_host == (wanted is Pool.HOST):
            return index
        if not table.host_pages and not stores.copies.replicas:
            return -1
    return -1


def _joint_actions(
    stores: ContextStores, releases: Releases, pool: Pool, index: int, page: int, *, wanted: Pool
) -> list[DeleteAction]:
    """All histories that share one's last page end above it together."""
    points: list[Handle] = []
    for other in stores.directories.list_sharing(pool, index, page):
        if other.has_writer:
            return []
        points += other.list_needing(pool, index)
    if not all(releases.may_end(stores.checkpoints[point]) for point in points):
        return []
    frees = releases.of_points(points)
    if not frees[wanted]:
        return []
    lost_tokens = max(stores.checkpoints[point].frontier for point in points)
    return [DeleteAction(tuple(sorted(points)), frees, lost_tokens, stores.epoch.value)]
