"""What ending points frees, for many questions about one moment: facts of each history are found once (B7, I2).

Knows references, coverage and replicas. Valid until anything changes. Written for speed where it loops over points: a
listing over 1,000 of them stands in the way of an admission.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ninfer.base.frontier import backend_frontier, pages_for
from ninfer.base.ids import Handle
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import PointKind
from ninfer.store.checkpoints import Checkpoint
from ninfer.store.directory import KvDirectory
from ninfer.store.stores import ContextStores
from ninfer.store.tables import PageTable


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


class _History:
    """Facts of one history. `holders`: its points by coverage. `tails`: per KV pool in order; None with a writer."""

    __slots__ = ("holders", "tails")

    def __init__(self, stores: ContextStores, directory: KvDirectory) -> None:
        self.holders = directory.list_holders()
        self.tails: list[_Tail] | None = None
        if not directory.has_writer:
            self.tails = [_Tail(stores, pool, table) for pool, table in directory.tables.items()]


class Releases:
    """Answers about one epoch of the stores."""

    def __init__(self, stores: ContextStores) -> None:
        self._stores = stores
        self._epoch = stores.epoch.value
        self._slot_refs, self._slot_readers = stores.slots.list_counts()
        self._holds_images = len(stores.arena) > 0
        self._histories: dict[int, _History] = {}
        self._known: dict[tuple[int, ...], Amounts] = {}
        self._pools = list(stores.pages)

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
        history = self._facts(directory)
        holders = history.holders
        deepest = len(holders) - 1
        for position, (_, point) in enumerate(holders):
            checkpoint = self._stores.checkpoints[point]
            if self._shares_image(checkpoint) or not self.may_end(checkpoint):
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
        history = self._facts(directory)
        holders = history.holders
        slots = host_bytes = 0
        for position in range(len(holders) - 1, -1, -1):
            point = holders[position][1]
            checkpoint = self._stores.checkpoints[point]
            if not self.may_end(checkpoint):
                return
            if self._shares_image(checkpoint):
                yield from self._list_sharing(history, position)
                return
            freed_slots, freed_bytes = self._image(checkpoint)
            slots += freed_slots
            host_bytes += freed_bytes
            kept = holders[position - 1][0] if position else 0
            yield point, self._amounts(history, kept, slots, host_bytes)

    def _list_sharing(self, history: _History, position: int) -> Iterator[tuple[Handle, Amounts]]:
        """The rest of `list_nested`, from the first point that shares its image: counted anew each time."""
        points = [point for _, point in history.holders]
        for first in range(position, -1, -1):
            if not self.may_end(self._stores.checkpoints[points[first]]):
                return
            yield points[first], self.of_points(points[first:])

    def _facts(self, directory: KvDirectory) -> _History:
        facts = self._histories.get(directory.serial)
        if facts is None:
            assert self._epoch == self._stores.epoch.value, "V-14: releases of another epoch"
            facts = self._histories[directory.serial] = _History(self._stores, directory)
        return facts

    def _amounts(self, history: _History, kept_tokens: int | None, slots: int, host_bytes: int) -> Amounts:
        """`kept_tokens`: what stays covered; None: all of it. Equal amounts are one object: most are."""
        key = [slots]
        if kept_tokens is not None and history.tails is not None:
            for tail in history.tails:
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
        replica = stores.copies.find_host(Pool.STATE, slot) if self._holds_images else None
        return 1, 0 if replica is None else stores.arena.count_freed([replica])

    def list_shared_images(self) -> list[list[tuple[Handle, Checkpoint]]]:
        """Points by the image that several own, in order of handle; empty when every image has one owner."""
        owners: dict[object, list[tuple[Handle, Checkpoint]]] = {}
        if any(count > 1 for count in self._slot_refs) or self._holds_images:
            for point, checkpoint in self._stores.checkpoints.items():
                if self._shares_image(checkpoint):
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
