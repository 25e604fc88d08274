"""The stores of one Program, built together over one epoch. Knows how they hang together, and nothing else."""

from __future__ import annotations

from ninfer.base.pools import KV_POOLS, Amounts, Pool
from ninfer.ports.device import DeviceFacts

from .cells import CellPool
from .checkpoints import Checkpoints
from .copies import Copies
from .directory import Directories
from .epoch import Epoch
from .extents import HostArena
from .leases import ReaderLeases
from .pages import PagePool
from .reservations import Reservations
from .slots import SlotPool


class ContextStores:
    """Slots, pages, host arena, reservations, leases, histories and points of one device."""

    def __init__(self, facts: DeviceFacts, host_bytes: int = 0) -> None:
        self.epoch = Epoch()
        self.run_ahead_slots = facts.run_ahead_slots
        """Of the slots: workspace, held by Program for ever, no part of the capacity (settled decision 5)."""
        self.slots = SlotPool(facts.slots + facts.run_ahead_slots, self.epoch)
        self.pages = {pool: PagePool(pool, facts.pages[pool], self.epoch) for pool in KV_POOLS if pool in facts.pages}
        self.reservations = Reservations(self.slots, self.pages)
        self.arena = HostArena(host_bytes, self.epoch)
        pools: dict[Pool, CellPool] = {Pool.STATE: self.slots, **self.pages}
        self.copies = Copies(self.arena, pools, {Pool.STATE: facts.state_bytes, **facts.page_bytes})
        self.leases = ReaderLeases(self.slots, self.pages, self.arena)
        self.directories = Directories(self.pages, self.arena, self.epoch)
        self.checkpoints = Checkpoints(self.slots, self.pages, self.copies, self.directories, self.epoch)

    def capacity(self) -> Amounts:
        """Slots, pages and host bytes in all, scratch left out."""
        pools = {pool: pages.capacity for pool, pages in self.pages.items()}
        slots = self.slots.capacity - self.run_ahead_slots
        return Amounts.of({Pool.STATE: slots, Pool.HOST: self.arena.capacity_bytes, **pools})

    def free(self) -> Amounts:
        """Slots and pages a reservation could take now; host bytes free in sum."""
        pools = {pool: pages.free_cells for pool, pages in self.pages.items()}
        return Amounts.of({Pool.STATE: self.slots.free_cells, Pool.HOST: self.arena.free_bytes, **pools})

    def unfilled(self) -> Amounts:
        """Slots and pages taken without complete content yet."""
        pools = {pool: pages.unfilled_cells for pool, pages in self.pages.items()}
        return Amounts.of({Pool.STATE: self.slots.unfilled_cells - self.run_ahead_slots, **pools})

    def audit(self) -> None:
        """Each store is sound in itself; `audit_stores` compares them with their owners."""
        self.slots.audit()
        for pages in self.pages.values():
            pages.audit()
        self.arena.audit()
        self.copies.audit()
        self.reservations.audit()
        self.leases.audit()
        self.directories.audit()
        self.checkpoints.audit()
