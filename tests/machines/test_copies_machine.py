"""Host replicas against a naive list of contents: what is complete, of which version, at what charge. C4, V-03."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from machine_profile import machine_settings

from ninfer.base.ids import Handle
from ninfer.base.pools import Pool
from ninfer.store.copies import Cell, Copies
from ninfer.store.epoch import Epoch
from ninfer.store.extents import HostArena, Unplaced
from ninfer.store.pages import PagePool
from ninfer.store.slots import SlotPool

CELLS = 4
BYTES = {Pool.STATE: 5, Pool.MAIN_KV: 2}


@dataclass(eq=False)
class Content:
    """What a live cell holds: an object for each version of it."""

    holds: object = field(default_factory=object)
    replica: object | None = None
    """What its host replica holds; always the same as the cell, or the replica is gone."""


class CopiesMachine(RuleBasedStateMachine):
    @initialize(capacity=st.integers(0, 30))
    def begin(self, capacity: int) -> None:
        epoch = Epoch()
        self.arena = HostArena(capacity, epoch)
        self.pools = {Pool.STATE: SlotPool(CELLS, epoch), Pool.MAIN_KV: PagePool(Pool.MAIN_KV, CELLS, epoch)}
        self.copies = Copies(self.arena, self.pools, BYTES)
        self.live: dict[Cell, Content] = {}
        self.saves: dict[Handle, dict[Cell, object]] = {}
        self.host_only: list[tuple[Pool, Handle, object]] = []

    def saving(self) -> set[Cell]:
        return {cell for save in self.saves.values() for cell in save}

    def pick(self, data: st.DataObject, cells: list[Cell]) -> Cell:
        return data.draw(st.sampled_from(sorted(cells, key=str)))

    @rule(pool=st.sampled_from(list(BYTES)))
    def fill(self, pool: Pool) -> None:
        if self.pools[pool].free_cells:
            cells = self.pools[pool].reserve(1)
            self.pools[pool].fill(cells)
            assert self.copies.find_host(pool, cells[0]) is None
            with pytest.raises(AssertionError, match="V-05"):
                self.copies.reserve_saves([(pool, cells[0])])
            self.pools[pool].publish(cells)
            self.live[pool, cells[0]] = Content()

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def write_on(self, data: st.DataObject) -> None:
        """The content goes on; its replica was of the version before."""
        pool, cell = self.pick(data, list(self.live))
        before = self.copies.version(pool, cell)
        self.pools[pool].note_write(cell)
        assert self.copies.version(pool, cell) != before
        self.live[pool, cell] = Content()

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def reserve(self, data: st.DataObject) -> None:
        """C4: charged at once, visible to nobody yet; all or nothing."""
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.live, key=str)), min_size=1, max_size=4))
        missing = [cell for cell in dict.fromkeys(chosen) if self.live[cell].replica is None]
        if not self.saving().isdisjoint(missing):
            with pytest.raises(AssertionError, match="V-05"):
                self.copies.reserve_saves(chosen)
            return
        free = self.arena.free_bytes
        promised = self.copies.find_unplaced(chosen)
        save = self.copies.reserve_saves(chosen)
        if isinstance(save, Unplaced):
            assert save == promised
            assert self.arena.free_bytes == free
            return
        assert promised is None
        assert free - self.arena.free_bytes == sum(BYTES[pool] for pool, _ in missing)
        for pool, cell in missing:
            self.pools[pool].lease(cell)
        self.saves[save] = {cell: self.live[cell].holds for cell in missing}
        assert {(t.pool, t.cell) for t in self.copies.list_targets(save)} == set(missing)

    @precondition(lambda self: self.saves)
    @rule(data=st.data(), lands=st.booleans())
    def settle(self, data: st.DataObject, lands: bool) -> None:
        """V-05: a replica appears only when it has landed, and only of what the cell still holds."""
        save = data.draw(st.sampled_from(sorted(self.saves)))
        (self.copies.complete_save if lands else self.copies.abandon_save)(save)
        for cell, copied in self.saves.pop(save).items():
            if lands and self.live[cell].holds is copied:
                self.live[cell].replica = copied
            self.pools[cell[0]].end_lease(cell[1])
        with pytest.raises(AssertionError, match="V-13"):
            self.copies.complete_save(save)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), keeps_host=st.booleans())
    def free(self, data: st.DataObject, keeps_host: bool) -> None:
        """The device copy goes: its replica goes with it, or passes to an owner."""
        pool, cell = self.pick(data, list(self.live))
        if (pool, cell) in self.saving():
            with pytest.raises(AssertionError, match="V-03"):
                self.copies.cell_freed(pool, cell)
            return
        content = self.live.pop((pool, cell))
        if keeps_host and content.replica is not None:
            self.host_only.append((pool, self.copies.hand_over_replica(pool, cell), content.replica))
        self.pools[pool].drop(cell)

    @precondition(lambda self: self.host_only)
    @rule(data=st.data(), restores=st.booleans())
    def leave_host(self, data: st.DataObject, restores: bool) -> None:
        pool, extent, held = self.host_only.pop(data.draw(st.integers(0, len(self.host_only) - 1)))
        if not restores or not self.pools[pool].free_cells:
            self.arena.drop(extent)
            return
        cells = self.pools[pool].reserve(1)
        self.pools[pool].fill(cells)
        with pytest.raises(AssertionError, match="V-05"):
            self.copies.adopt_replica(pool, cells[0], extent)
        self.pools[pool].publish(cells)
        self.copies.adopt_replica(pool, cells[0], extent)
        self.live[pool, cells[0]] = Content(held, held)

    @precondition(lambda self: any(content.replica for content in self.live.values()))
    @rule(data=st.data())
    def drop_duplicate(self, data: st.DataObject) -> None:
        pool, cell = self.pick(data, [cell for cell, content in self.live.items() if content.replica])
        free = self.arena.free_bytes
        assert self.copies.drop_replica(pool, cell)
        assert self.arena.free_bytes == free + BYTES[pool]
        self.live[pool, cell].replica = None

    @invariant()
    def copies_equal_model(self) -> None:
        if not hasattr(self, "copies"):
            return
        self.copies.audit()
        self.arena.audit()
        for (pool, cell), content in self.live.items():
            assert (self.copies.find_host(pool, cell) is not None) == (content.replica is not None)
            assert content.replica is None or content.replica is content.holds
        replicas = [cell for cell, content in self.live.items() if content.replica]
        assert {(pool, cell) for pool, cell, _ in self.copies.list_replicas()} == set(replicas)
        charged = [*replicas, *self.saving()]
        owned = sum(BYTES[pool] for pool, _ in charged) + sum(BYTES[pool] for pool, _, _ in self.host_only)
        assert self.arena.capacity_bytes - self.arena.free_bytes == owned
        counted = self.copies.count_references()
        assert sum(counted.values()) + len(self.host_only) == sum(refs for _, refs in self.arena.items())


CopiesMachine.TestCase.settings = machine_settings(120, 40)
test_copies = CopiesMachine.TestCase
