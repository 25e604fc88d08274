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
from .directory import Directories, KvDirectory
from .epoch import Epoch
from .handles import HandleTable
from .pages import PagePool
from .slots import SlotPool


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One immutable restore point. Owns one reference of its slot and a coverage of its directory."""

    identity: PrefixIdentity
    slot: SlotId
    directory: KvDirectory
    kind: PointKind

    @property
    def frontier(self) -> int:
        """Tokens of which this is the state."""
        return self.identity.frontier


class Checkpoints:
    """All published points, by handle. Unfinished ones are not here (V-05)."""

    def __init__(self, slots: SlotPool, pages: Mapping[Pool, PagePool], directories: Directories, epoch: Epoch) -> None:
        self._slots = slots
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
        """Make a complete point visible; it takes over one reference of its slot from the caller (V-05, V-06)."""
        assert self._slots.state(checkpoint.slot) is CellState.LIVE, "V-05: the StateImage is not complete"
        kinds = [self._points[point].kind for _, point in checkpoint.directory.list_holders()]
        assert checkpoint.kind not in kinds, f"F2: the history has another {checkpoint.kind.value}"
        point = self._points.insert(checkpoint)
        checkpoint.directory.hold(point, checkpoint.frontier)
        self._epoch.advance()
        return point

    def restate(self, point: Handle, identity: PrefixIdentity) -> None:
        """Let a carried point name its prefix in the ledger that now writes on, so that the old one can go."""
        old = self._points[point]
        assert identity.frontier == old.frontier
        self._points.replace(point, replace(old, identity=identity))

    def retire(self, point: Handle) -> None:
        """End a point: its slot reference is dropped, its directory trimmed to the coverage left (F2)."""
        self._slots.drop(self.consume(point))

    def consume(self, point: Handle) -> SlotId:
        """End a point whose slot reference passes to the caller (Move)."""
        checkpoint = self._points.remove(point)
        checkpoint.directory.leave(point)
        self._directories.close_unheld(checkpoint.directory)
        self._epoch.advance()
        return checkpoint.slot

    def count_freed(self, points: Iterable[Handle], writers: Mapping[int, int] | None = None) -> Amounts:
        """What ending these points together really frees (B7).

        `writers`: directory serial -> frontier of a writer that comes at the same moment.
        """
        leaving = frozenset(points)
        slot_drops: dict[SlotId, int] = {}
        histories: dict[int, KvDirectory] = {}
        for point in sorted(leaving):
            checkpoint = self._points[point]
            slot_drops[checkpoint.slot] = slot_drops.get(checkpoint.slot, 0) + 1
            histories[checkpoint.directory.serial] = checkpoint.directory
        freed_slots = sum(self._slots.refs(slot) == drops for slot, drops in slot_drops.items())
        tables: dict[Pool, list[memoryview]] = {}
        for serial, directory in histories.items():
            if directory.has_writer:
                continue
            kept = directory.coverage_tokens(leaving, (writers or {}).get(serial))
            if directory.needs_fewer_pages(kept):
                for pool, above in directory.tables_above(kept).items():
                    tables.setdefault(pool, []).append(above)
        if not tables:
            return Amounts(state=freed_slots)
        freed = {pool: self._pages[pool].count_freed(views) for pool, views in tables.items()}
        return Amounts.of({Pool.STATE: freed_slots, **freed})

    def audit(self) -> None:
        """Each point has a complete StateImage and its coverage, and directories know exactly these points (V-06)."""
        self._points.audit()
        held: dict[int, list[tuple[int, Handle]]] = {}
        for point, checkpoint in self._points.items():
            assert self._slots.state(checkpoint.slot) is CellState.LIVE, f"V-06: point {point} has no StateImage"
            assert checkpoint.frontier <= checkpoint.directory.coverage_tokens(), f"V-06: point {point} lacks coverage"
            held.setdefault(checkpoint.directory.serial, []).append((checkpoint.frontier, point))
        for directory in self._directories:
            mine = sorted(held.pop(directory.serial, []))
            assert mine == directory.list_holders(), f"V-02: holders of history {directory.serial} differ"
        assert not held, "V-02: a point refers to a closed history"
