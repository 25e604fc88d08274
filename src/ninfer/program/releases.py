"""What ending points frees: facts of each history, kept for as long as nothing they rest on changes (B7, I2).

Knows references, coverage and replicas. The stores mark what changes; `sync` drops the facts that rest on it. A listing
over 1,000 points stands in the way of an admission, so that only what changed is found again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ninfer.base.frontier import backend_frontier, pages_for
from ninfer.base.ids import Handle, SlotId
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import PointKind
from ninfer.store.checkpoints import Checkpoint
from ninfer.store.directory import KvDirectory
from ninfer.store.stores import ContextStores
from ninfer.store.tables import PageTable

from .watches import Watches


class _Tail:
    """The pages at the end of a table that only this history has: what dropping the last n of them frees.

    Sharing is nested: whoever shares a page shares all before it. So they are found by bisection, and only they are
    ever looked at one by one, which readers or host copies make necessary.
    """

    __slots__ = ("_host_bytes", "_pages", "_pool", "first", "stop")

    def __init__(self, stores: ContextStores, pool: Pool, table: PageTable) -> None:
        self._pool = pool
        self.stop = len(table.entries)
        first, owners = find_run(stores, table, self.stop) if self.stop else (0, 1)
        self.first = first if owners == 1 else self.stop
        self._pages: list[int] | None = None
        self._host_bytes: list[int] | None = None
        if table.pages.leased_cells or len(stores.arena):
            entries = np.frombuffer(table.entries.view(self.first), np.int32)[::-1]
            refs = table.pages.list_refs()
            goes = (entries > 0) & (refs[np.maximum(entries, 0)] == 1)
            self._pages = [0, *np.cumsum(goes).tolist()]
            self._host_bytes = [0, *np.cumsum(_list_host_bytes(stores, pool, entries, goes)).tolist()]

    def count_freed(self, kept_tokens: int) -> tuple[int, int]:
        """Pages and host bytes that come free when coverage shrinks to `kept_tokens`."""
        kept_pages = pages_for(backend_frontier(self._pool, kept_tokens))
        dropped = self.stop - (self.first if kept_pages < self.first else kept_pages)
        if dropped <= 0:
            return 0, 0
        if self._pages is None or self._host_bytes is None:
            return dropped, 0
        return self._pages[dropped], self._host_bytes[dropped]


class History:
    """Facts of one history. `holders`: its points by coverage. `tails`: per KV pool; None with a writer.

    `sharing`: its points whose StateImage has other owners or readers too.
    """

    __slots__ = ("holders", "sharing", "tails")

    def __init__(
        self, holders: list[tuple[int, Handle]], sharing: tuple[Handle, ...], tails: dict[Pool, _Tail] | None
    ) -> None:
        self.holders = holders
        self.sharing = sharing
        self.tails = tails


class Releases:
    """Answers about the stores as they are now. One for each Program."""

    def __init__(self, stores: ContextStores) -> None:
        self._stores = stores
        self._slot_refs, self._slot_readers = stores.slots.list_counts()
        self._histories: dict[int, History] = {}
        self._known: dict[tuple[int, ...], Amounts] = {}
        self._pools = list(stores.pages)
        self._watches = Watches(stores)
        self.bounds = self._watches.bounds
        self.sharing: set[int] = set()
        """Serials of histories with points that share their StateImage."""

    def sync(self) -> set[int]:
        """Drop facts that rest on what has changed; returns the serials of the histories, ended ones included."""
        changed = self._watches.take_changed()
        if changed:
            self._known.clear()
        for serial in changed:
            self._histories.pop(serial, None)
            self.sharing.discard(serial)
        return changed

    def may_end(self, checkpoint: Checkpoint) -> bool:
        """A snapshot ends by revocation alone (K3); what is being read stays (V-03)."""
        if checkpoint.kind is PointKind.SNAPSHOT:
            return False
        if checkpoint.slot is not None:
            return not self._slot_readers[checkpoint.slot]
        assert checkpoint.image is not None
        return not self._stores.arena.readers(checkpoint.image)

    def list_single(self, directory: KvDirectory) -> Iterator[tuple[Handle, Checkpoint, Amounts]]:
        """Points of a history with an image of their own that may end, each with what it alone frees."""
        history = self.facts(directory)
        holders = history.holders
        deepest = len(holders) - 1
        for position, (_, point) in enumerate(holders):
            checkpoint = self._stores.checkpoints[point]
            if point in history.sharing or not self.may_end(checkpoint):
                continue
            kept = None
            if position == deepest:
                kept = holders[position - 1][0] if position else 0
            yield point, checkpoint, self._amounts(history, kept, *self._image(checkpoint))

    def of_points(self, points: Sequence[Handle]) -> Amounts:
        """What ending these points together frees, whatever they share."""
        return self._stores.checkpoints.count_freed(points)

    def list_nested(self, directory: KvDirectory) -> Iterator[tuple[Handle, Amounts]]:
        """Points of a history that may end, the deepest first, each with what it frees along with all deeper ones."""
        history = self.facts(directory)
        holders = history.holders
        slots = host_bytes = 0
        for position in range(len(holders) - 1, -1, -1):
            point = holders[position][1]
            checkpoint = self._stores.checkpoints[point]
            if not self.may_end(checkpoint):
                return
            if point in history.sharing:
                yield from self._list_sharing(history, position)
                return
            freed_slots, freed_bytes = self._image(checkpoint)
            slots += freed_slots
            host_bytes += freed_bytes
            kept = holders[position - 1][0] if position else 0
            yield point, self._amounts(history, kept, slots, host_bytes)

    def _list_sharing(self, history: History, position: int) -> Iterator[tuple[Handle, Amounts]]:
        """The rest of `list_nested`, from the first point that shares its image: counted anew each time."""
        points = [point for _, point in history.holders]
        for first in range(position, -1, -1):
            if not self.may_end(self._stores.checkpoints[points[first]]):
                return
            yield points[first], self.of_points(points[first:])

    def facts(self, directory: KvDirectory) -> History:
        """Facts of one history, found again only after a change."""
        known = self._histories.get(directory.serial)
        if known is None:
            known = self._histories[directory.serial] = self._find(directory)
        return known

    def _find(self, directory: KvDirectory) -> History:
        stores, serial, watches = self._stores, directory.serial, self._watches
        holders = directory.list_holders()
        watches.forget(serial)
        sharing = []
        for _, point in holders:
            checkpoint = stores.checkpoints[point]
            watches.add_image(serial, checkpoint.slot, checkpoint.image)
            if self._shares_image(checkpoint):
                sharing.append(point)
        if sharing:
            self.sharing.add(serial)
        if directory.has_writer:
            return History(holders, tuple(sharing), None)
        tails = {pool: _Tail(stores, pool, table) for pool, table in directory.tables.items()}
        for pool, tail in tails.items():
            watches.add_pages(serial, pool, directory.tables[pool], tail.first)
        return History(holders, tuple(sharing), tails)

    def _amounts(self, history: History, kept_tokens: int | None, slots: int, host_bytes: int) -> Amounts:
        """`kept_tokens`: what stays covered; None: all of it. Equal amounts are one object: most are."""
        key = [slots]
        if kept_tokens is not None and history.tails is not None:
            for tail in history.tails.values():
                pages, freed_bytes = tail.count_freed(kept_tokens)
                key.append(pages)
                host_bytes += freed_bytes
        key.append(host_bytes)
        known = self._known.get(tuple(key))
        if known is None:
            pages_of = dict(zip(self._pools, key[1:-1], strict=False))
            known = Amounts.of({Pool.STATE: slots, Pool.HOST: host_bytes, **pages_of})
            self._known[tuple(key)] = known
        return known

    def _image(self, checkpoint: Checkpoint) -> tuple[int, int]:
        """Slots and host bytes of a StateImage that this point alone owns."""
        stores, slot = self._stores, checkpoint.slot
        if slot is None:
            assert checkpoint.image is not None
            return 0, stores.arena.count_freed([checkpoint.image])
        if self._slot_refs[slot] > 1:
            return 0, 0
        replica = stores.copies.find_host(Pool.STATE, slot) if len(stores.arena) else None
        return 1, 0 if replica is None else stores.arena.count_freed([replica])

    def list_shared_images(self) -> list[list[tuple[Handle, Checkpoint]]]:
        """Points by the image that several own or read, in order of handle; empty when every image has one owner."""
        owners: dict[SlotId | Handle | None, list[tuple[Handle, Checkpoint]]] = {}
        found = [point for serial in self.sharing for point in self._histories[serial].sharing]
        for point in sorted(found):
            checkpoint = self._stores.checkpoints[point]
            image = checkpoint.image if checkpoint.slot is None else checkpoint.slot
            owners.setdefault(image, []).append((point, checkpoint))
        return list(owners.values())

    def _shares_image(self, checkpoint: Checkpoint) -> bool:
        if checkpoint.slot is not None:
            return self._slot_refs[checkpoint.slot] > 1
        assert checkpoint.image is not None
        return self._stores.arena.refs(checkpoint.image) > 1


def find_run(stores: ContextStores, table: PageTable, stop: int) -> tuple[int, int]:
    """First index of the run of pages that ends before `stop` and has equally many owners, and how many that is.

    Whoever shares a page shares all before it, so owners only grow towards the front: strides back, then bisection.
    """
    refs, readers = table.pages.list_counts()
    entries = table.entries.view()
    first, low, stride, wanted = stop, 0, 1, 0
    while first > low:
        middle = max(first - stride, low) if stride else (low + first) // 2
        entry = entries[middle]
        owners = refs[entry] - readers[entry] if entry > 0 else _count_extent_owners(stores, entry)
        wanted = wanted or owners
        if owners == wanted:
            first, stride = middle, 2 * stride
        else:
            low, stride = middle + 1, 0
    return first, wanted


def _count_extent_owners(stores: ContextStores, entry: int) -> int:
    extent = stores.arena.at(~entry)
    return stores.arena.refs(extent) - stores.arena.readers(extent)


def _list_host_bytes(
    stores: ContextStores, pool: Pool, entries: npt.NDArray[np.int32], goes: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Host bytes that go with each page of one owner: its extent, or the replica of a device page that is freed."""
    host_bytes = np.zeros(len(entries), np.int64)
    if len(stores.arena):
        alone = entries < 0
        host_bytes[alone] = stores.arena.list_sole_bytes(~entries[alone])
        replicas = stores.copies.list_hosts(pool, entries[goes])
        host_bytes[goes] = np.where(replicas < 0, 0, stores.arena.list_sole_bytes(np.maximum(replicas, 0)))
    return host_bytes
