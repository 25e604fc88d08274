"""The stores of one Program, built together over one epoch. Knows how they hang together, and nothing else."""

from __future__ import annotations

from ninfer.base.pools import KV_POOLS, Amounts, Pool
from ninfer.ports.device import DeviceFacts

from .checkpoints import Checkpoints
from .directory import Directories
from .epoch import Epoch
from .leases import ReaderLeases
from .pages import PagePool
from .reservations import Reservations
from .slots import SlotPool


class ContextStores:
    """Slots, pages, reservations, leases, histories and points of one device."""

    def __init__(self, facts: DeviceFacts) -> None:
        self.epoch = Epoch()
        self.slots = SlotPool(facts.slots, self.epoch)
        self.pages = {pool: PagePool(pool, facts.pages[pool], self.epoch) for pool in KV_POOLS if pool in facts.pages}
        self.reservations = Reservations(self.slots, self.pages)
        self.leases = ReaderLeases(self.slots, self.pages)
        self.directories = Directories(self.pages, self.epoch)
        self.checkpoints = Checkpoints(self.slots, self.pages, self.directories, self.epoch)

    def capacity(self) -> Amounts:
        """Slots and pages in all, scratch left out."""
        pools = {pool: pages.capacity for pool, pages in self.pages.items()}
        return Amounts.of({Pool.STATE: self.slots.capacity, **pools})

    def free(self) -> Amounts:
        """Slots and pages a reservation could take now."""
        pools = {pool: pages.free_cells for pool, pages in self.pages.items()}
        return Amounts.of({Pool.STATE: self.slots.free_cells, **pools})

    def unfilled(self) -> Amounts:
        """Slots and pages taken without complete content yet."""
        pools = {pool: pages.unfilled_cells for pool, pages in self.pages.items()}
        return Amounts.of({Pool.STATE: self.slots.unfilled_cells, **pools})

    def audit(self) -> None:
        """Each store is sound in itself; `audit_stores` compares them with their owners."""
        self.slots.audit()
        for pages in self.pages.values():
            pages.audit()
        self.reservations.audit()
        self.leases.audit()
        self.directories.audit()
        self.checkpoints.audit()
