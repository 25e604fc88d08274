"""The finite delete actions: which points can end together, and what that really frees (B7, I1).

Enumerates from real references; ranks nothing. A running sequence's optional points are among them; a snapshot and a
point that somebody reads are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ninfer.base.ids import Handle
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import DeleteAction
from ninfer.store.directory import KvDirectory
from ninfer.store.stores import ContextStores
from ninfer.store.tables import PageTable

from .releases import Releases
from .watches import count_owners

MOST_JOINED = 16
"""Histories that are joined although some of them free something alone. More of them are joined when none does: until
then each goes by itself, and the fleet behind one shared beginning is not weighed as a whole at every step."""


def find_deletions(
    stores: ContextStores, releases: Releases, directory: KvDirectory, pool: Pool
) -> tuple[list[DeleteAction], bool]:
    """Smallest sets of points of one history whose end frees something of `pool`.

    True beside them: its pages free nothing alone, it has to be joined with those who share them.
    """
    images: list[DeleteAction] = []
    if pool is Pool.STATE or pool is Pool.HOST:
        images = list(_list_own_images(stores, releases, directory, pool))
    if pool is Pool.STATE or directory.has_writer:
        return images, False
    nested = _list_nested(stores, releases, directory, pool)
    actions = {action.points: action for action in (*images, *nested)} if images else {}
    return list(actions.values()) or nested, not nested


def find_joint_deletions(
    stores: ContextStores, releases: Releases, barren: Iterable[int], pool: Pool
) -> list[DeleteAction]:
    """Sets of points of several histories that free something of `pool` together: shared images, shared last pages."""
    actions: list[DeleteAction] = []
    if pool is Pool.STATE or pool is Pool.HOST:
        actions += _list_shared_images(stores, releases, pool)
    asked: set[tuple[Pool, int, int]] = set()
    barren = sorted(barren)
    for serial in barren:
        directory = stores.directories[serial]
        for shared in stores.pages if pool is Pool.HOST else (pool,):
            index = _find_deepest(stores, directory.tables[shared], shared, pool)
            deepest = (shared, index, directory.tables[shared].entries[index] if index >= 0 else 0)
            if index >= 0 and deepest not in asked and _may_join(stores, shared, deepest[2], len(barren)):
                asked.add(deepest)
                sharing = stores.directories.list_sharing(*deepest)
                actions += _list_joint(stores, releases, sharing, shared, index, pool)
    return list({action.points: action for action in actions}.values())


def delete_points(stores: ContextStores, releases: Releases, action: DeleteAction) -> Amounts:
    """Carry out an action of this epoch (V-14). Readers are checked again (V-03)."""
    assert action.epoch == stores.epoch.value, f"V-14: action of epoch {action.epoch}, now {stores.epoch.value}"
    endable = all(releases.may_end(stores.checkpoints[point]) for point in action.points)
    assert endable, "V-03: a point of the action is being read"
    before = stores.free()
    for point in action.points:
        stores.checkpoints.retire(point)
    freed = stores.free() - before
    assert freed == action.frees, f"V-02: the action promised {action.frees} and freed {freed}"
    return freed


def _list_own_images(
    stores: ContextStores, releases: Releases, directory: KvDirectory, pool: Pool
) -> Iterator[DeleteAction]:
    """One action a StateImage of that medium that one point alone owns."""
    epoch, name = stores.epoch.value, pool.value
    for point, checkpoint, frees in releases.list_single(directory):
        if getattr(frees, name) and (checkpoint.slot is None) == (pool is Pool.HOST):
            yield DeleteAction((point,), frees, checkpoint.frontier, epoch)


def _list_shared_images(stores: ContextStores, releases: Releases, pool: Pool) -> Iterator[DeleteAction]:
    """One action a StateImage that several points share: all of them."""
    for sharing in releases.list_shared_images():
        if all(releases.may_end(checkpoint) for _, checkpoint in sharing):
            points = tuple(point for point, _ in sharing)
            frees = releases.of_points(points)
            if frees[pool]:
                lost_tokens = max(checkpoint.frontier for _, checkpoint in sharing)
                yield DeleteAction(points, frees, lost_tokens, stores.epoch.value)


def _list_nested(stores: ContextStores, releases: Releases, directory: KvDirectory, pool: Pool) -> list[DeleteAction]:
    """The deepest points of a history, one more at a time."""
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
    entries = np.frombuffer(table.entries.view(), np.int32)
    if wanted is not Pool.HOST:
        found = entries > 0
    elif table.host_pages or stores.copies.replicas:
        found = (entries < 0) | (stores.copies.list_hosts(pool, np.maximum(entries, 0)) >= 0)
    else:
        return -1
    indexes = np.flatnonzero(found)
    return int(indexes[-1]) if len(indexes) else -1


def _may_join(stores: ContextStores, pool: Pool, entry: int, barren: int) -> bool:
    """Whether the histories that share an entry are few, or may all be barren."""
    return count_owners(stores, pool, entry) <= max(MOST_JOINED, barren)


def _list_joint(
    stores: ContextStores, releases: Releases, sharing: Sequence[KvDirectory], pool: Pool, index: int, wanted: Pool
) -> list[DeleteAction]:
    """All histories that share one's last page end above it together."""
    points: list[Handle] = []
    for other in sharing:
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
