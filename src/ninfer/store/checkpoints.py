"""Checkpoints: exact positions that can be restored, each with its StateImage and its KV coverage (A2, D7).

Knows identity, slot, directory and kind. Does not know which record or session a point belongs to, or its worth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ninfer.base.identity import PrefixIdentity
from ninfer.base.ids import Handle, SlotId
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import PointKind

from .cells import CellState
from .copies import Copies
from .directory import Directories, KvDirectory
from .epoch import Epoch
from .handles import HandleTable
from .pages import PagePool
from .slots import SlotPool


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One immutable restore point. Owns a reference of its slot, or of the host extent where its image is alone."""

    identity: PrefixIdentity
    slot: SlotId | None
    directory: KvDirectory
    kind: PointKind
    image: Handle | None = None
    """Host extent of the StateImage, for a point without a slot."""

    @property
    def frontier(self) -> int:
        """Tokens of which this is the state."""
        return self.identity.frontier


class Checkpoints:
    """All published points, by handle. Unfinished ones are not here (V-05)."""

    def __init__(
        self,
        slots: SlotPool,
        pages: Mapping[Pool, PagePool],
        copies: Copies,
        directories: Directories,
        epoch: Epoch,
    ) -> None:
        self._slots = slots
        self._copies = copies
        self._pages = dict(pages)
        self._directories = directories
        self._epoch = epoch
        self._points: HandleTable[Checkpoint] = HandleTable()

    def __getitem__(self, point: Handle) -> Checkpoint:
        return self._points[point]

    def __contains__(self, point: Handle) -> bool:
        return point in self._points

    def __len__(self) -> int:
        return len(self._points)

    def items(self) -> Iterator[tuple[Handle, Checkpoint]]:
        """All points, by handle."""
        return self._points.items()

    def publish(self, checkpoint: Checkpoint) -> Handle:
        """Make a complete point visible; it takes over one reference of its slot or image (V-05, V-06)."""
        self._check_image(checkpoint)
        point = self._points.insert(checkpoint)
        checkpoint.directory.hold(point, checkpoint.frontier)
        self._epoch.advance()
        return point

    def restate(self, point: Handle, identity: PrefixIdentity) -> None:
        """Let a carried point name its prefix in the ledger that now writes on, so that the old one can go."""
        old = self._points[point]
        assert identity.frontier == old.frontier
        self._points.replace(point, replace(old, identity=identity))

    def demote(self, point: Handle, image: Handle) -> SlotId:
        """The point lives on with its image on the host alone; its slot reference passes to the caller (F3)."""
        checkpoint = self._points[point]
        assert checkpoint.slot is not None, f"V-01: point {point} has no slot to give"
        assert image in self._copies.arena, f"V-05: point {point} would have no StateImage"
        self._points.replace(point, replace(checkpoint, slot=None, image=image))
        checkpoint.directory.note_image()
        return checkpoint.slot

    def retire(self, point: Handle) -> None:
        """End a point: its image loses this owner, its directory is trimmed to the coverage left (F2)."""
        checkpoint = self._end(point)
        if checkpoint.slot is not None:
            self._slots.drop(checkpoint.slot)
        if checkpoint.image is not None:
            self._copies.arena.drop(checkpoint.image)

    def consume(self, point: Handle) -> SlotId:
        """End a point whose slot reference passes to the caller (Move)."""
        checkpoint = self._end(point)
        assert checkpoint.slot is not None, "F3: only a state on the device is moved"
        return checkpoint.slot

    def count_freed(self, points: Iterable[Handle], writers: Mapping[int, int] | None = None) -> Amounts:
        """What ending these points together really frees (B7).

        `writers`: directory serial -> frontier of a writer that comes at the same moment.
        """
        extents, tables, freed = self._find_freed(frozenset(points), writers or {})
        amounts = {pool: len(cells) for pool, cells in freed.items()}
        if len(self._copies.arena):
            amounts[Pool.HOST] = self._copies.arena.count_freed(self._list_drops(extents, tables, freed))
        return Amounts.of(amounts)

    def list_freed(self, points: Iterable[Handle], pool: Pool) -> list[int]:
        """The cells of a device pool that come free when these points end together (B7)."""
        return self._find_freed(frozenset(points), {})[2].get(pool, [])

    def list_host_drops(self, points: Iterable[Handle]) -> list[Handle]:
        """References of host extents that end with these points, for a what-if of the arena (I11)."""
        return self._list_drops(*self._find_freed(frozenset(points), {}))

    def audit(self) -> None:
        """Each point has a complete StateImage and its coverage, and directories know exactly these points (V-06)."""
        self._points.audit()
        held: dict[int, list[tuple[int, Handle]]] = {}
        for point, checkpoint in self._points.items():
            self._check_image(checkpoint)
            assert checkpoint.frontier <= checkpoint.directory.coverage_tokens(), f"V-06: point {point} lacks coverage"
            for pool, pages in checkpoint.directory.need_pages(checkpoint.frontier).items():
                raise AssertionError(f"V-06: point {point} lacks {pages} pages of {pool.value}")
            held.setdefault(checkpoint.directory.serial, []).append((checkpoint.frontier, point))
        for directory in self._directories:
            mine = sorted(held.pop(directory.serial, []))
            assert mine == directory.list_holders(), f"V-02: holders of history {directory.serial} differ"
        assert not held, "V-02: a point refers to a closed history"

    def _end(self, point: Handle) -> Checkpoint:
        checkpoint = self._points.remove(point)
        checkpoint.directory.leave(point)
        self._directories.close_unheld(checkpoint.directory)
        self._epoch.advance()
        return checkpoint

    def _check_image(self, checkpoint: Checkpoint) -> None:
        if checkpoint.slot is None:
            assert checkpoint.image is not None, "V-06: a point without a StateImage"
            assert checkpoint.image in self._copies.arena, "V-06: a point without a StateImage"
            return
        assert checkpoint.image is None, "V-02: replicas of a slot belong to the table of copies"
        assert self._slots.state(checkpoint.slot) is CellState.LIVE, "V-05, V-06: the StateImage is not complete"

    def _find_freed(
        self, leaving: frozenset[Handle], writers: Mapping[int, int]
    ) -> tuple[list[Handle], dict[Pool, list[memoryview]], dict[Pool, list[int]]]:
        """Images on the host alone, page tables above the coverage that stays, and device cells that come free."""
        slot_drops: dict[SlotId, int] = {}
        extents: list[Handle] = []
        histories: dict[int, KvDirectory] = {}
        for point in sorted(leaving):
            checkpoint = self._points[point]
            if checkpoint.slot is not None:
                slot_drops[checkpoint.slot] = slot_drops.get(checkpoint.slot, 0) + 1
            if checkpoint.image is not None:
                extents.append(checkpoint.image)
            histories[checkpoint.directory.serial] = checkpoint.directory
        freed: dict[Pool, list[int]] = {
            Pool.STATE: [slot for slot, drops in slot_drops.items() if self._slots.refs(slot) == drops]
        }
        tables: dict[Pool, list[memoryview]] = {}
        for serial, directory in histories.items():
            if directory.has_writer:
                continue
            kept = directory.coverage_tokens(leaving, writers.get(serial))
            if directory.needs_fewer_pages(kept):
                for pool, above in directory.tables_above(kept).items():
                    tables.setdefault(pool, []).append(above)
        for pool, views in tables.items():
            freed[pool] = self._pages[pool].list_freed(views)
        return extents, tables, freed

    def _list_drops(
        self, extents: list[Handle], tables: Mapping[Pool, list[memoryview]], freed: Mapping[Pool, list[int]]
    ) -> list[Handle]:
        """Images and pages on the host alone, and replicas of the device cells that go."""
        drops = list(extents)
        for views in tables.values():
            drops += [self._copies.arena.at(~entry) for view in views for entry in view if entry < 0]
        for pool, cells in freed.items():
            drops += [replica for cell in cells if (replica := self._copies.find_host(pool, cell)) is not None]
        return drops
