"""Which histories an answer must be found again for: what each one's facts rest on, against the marks of the stores.

Facts of a history rest on itself, on the images of its points, on the pages and extents that it has alone, and on
whether the last page it shares is shared still: sharing is nested, so that the shared part can shrink only there. Knows
serials and cells.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninfer.base.ids import Handle, SlotId
from ninfer.base.pools import Pool
from ninfer.store.stores import ContextStores
from ninfer.store.tables import PageTable

_NOBODY = -1


class Watches:
    """Histories by what they rest on. Host extents stand under `Pool.HOST`, by index."""

    __slots__ = ("_bounds", "_of_single", "_owner", "_singles", "_stores", "bounds")

    def __init__(self, stores: ContextStores) -> None:
        self._stores = stores
        self._owner: dict[Pool, npt.NDArray[np.int32]] = {
            pool: np.full(pages.capacity + 1, _NOBODY, np.int32) for pool, pages in stores.pages.items()
        }
        self._owner[Pool.HOST] = np.full(64, _NOBODY, np.int32)
        self._of_single: dict[Pool, dict[int, set[int]]] = {pool: {} for pool in (Pool.STATE, Pool.HOST, *stores.pages)}
        self._singles: dict[int, list[tuple[Pool, int]]] = {}
        self.bounds: dict[Pool, dict[int, set[int]]] = {pool: {} for pool in stores.pages}
        """The last shared entry of page tables, with the histories whose shared part ends there."""
        self._bounds: dict[int, list[tuple[Pool, int]]] = {}

    def take_changed(self) -> set[int]:
        """Serials of histories with other facts than at the last call; those that ended are among them."""
        stores = self._stores
        changed = stores.directories.take_changed()
        self._add_touched(changed, Pool.STATE, stores.slots.take_touched())
        for pool, pages in stores.pages.items():
            self._add_touched(changed, pool, pages.take_touched())
        extents = stores.arena.take_touched()
        self._add_touched(changed, Pool.HOST, np.array(extents, np.int64))
        for pool, bounds in self.bounds.items():
            for extent in extents:
                if ~extent in bounds and count_owners(stores, pool, ~extent) == 1:
                    changed.update(bounds[~extent])
        for serial in changed:
            self.forget(serial)
        return changed

    def forget(self, serial: int) -> None:
        """Its facts are void: single cells are watched for it no longer. Marks on its own pages do no harm."""
        for kept, by_cell in ((self._singles, self._of_single), (self._bounds, self.bounds)):
            for pool, cell in kept.pop(serial, ()):
                watching = by_cell[pool][cell]
                watching.discard(serial)
                if not watching:
                    del by_cell[pool][cell]

    def add_image(self, serial: int, slot: SlotId | None, image: Handle | None) -> None:
        """A StateImage: its slot and the replica of that, or its extent."""
        if slot is not None:
            self._add_single(serial, Pool.STATE, slot)
            image = self._stores.copies.find_host(Pool.STATE, slot)
        if image is not None:
            self._add_single(serial, Pool.HOST, image.index)

    def add_pages(self, serial: int, pool: Pool, table: PageTable, first: int) -> None:
        """The pages from index `first` on, which nobody else has, and the last one before them."""
        entries = np.frombuffer(table.entries.view(first), np.int32)
        device = entries[entries > 0]
        self._owner[pool][device] = serial
        if len(self._stores.arena):
            replicas = self._stores.copies.list_hosts(pool, device)
            self._own_extents(serial, np.concatenate([~entries[entries < 0], replicas[replicas >= 0]]))
        if first:
            entry = table.entries[first - 1]
            self.bounds[pool].setdefault(entry, set()).add(serial)
            self._bounds.setdefault(serial, []).append((pool, entry))

    def _own_extents(self, serial: int, indexes: npt.NDArray[np.int32]) -> None:
        if not len(indexes):
            return
        have, need = len(self._owner[Pool.HOST]), int(indexes.max()) + 1
        if need > have:
            grown = np.full(2 * need, _NOBODY, np.int32)
            grown[:have] = self._owner[Pool.HOST]
            self._owner[Pool.HOST] = grown
        self._owner[Pool.HOST][indexes] = serial

    def _add_single(self, serial: int, pool: Pool, cell: int) -> None:
        watching = self._of_single[pool].setdefault(cell, set())
        if serial not in watching:
            watching.add(serial)
            self._singles.setdefault(serial, []).append((pool, cell))

    def _add_touched(self, changed: set[int], pool: Pool, touched: npt.NDArray[np.int64]) -> None:
        if not len(touched):
            return
        singles = self._of_single[pool]
        if singles:
            for cell in touched.tolist():
                changed.update(singles.get(cell, ()))
        owner = self._owner.get(pool)
        if owner is not None:
            bounds = self.bounds.get(pool, {})
            for cell in touched.tolist() if bounds else ():
                if cell in bounds and count_owners(self._stores, pool, cell) == 1:
                    changed.update(bounds[cell])
            changed.update(np.unique(owner[touched[touched < len(owner)]]).tolist())
            changed.discard(_NOBODY)


def count_owners(stores: ContextStores, pool: Pool, entry: int) -> int:
    """Histories, and whoever else owns a page or an extent of a table; readers are none."""
    if entry > 0:
        pages = stores.pages[pool]
        return pages.refs(entry) - pages.readers(entry)
    if ~entry >= 0 and stores.arena.holds(~entry):
        extent = stores.arena.at(~entry)
        return stores.arena.refs(extent) - stores.arena.readers(extent)
    return 0
