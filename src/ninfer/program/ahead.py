"""Launches ahead of their commit: what is drawn is fed before anybody has said that it stays (settled decision 5).

Either the run is known and not committed, or its draw is still under way and the device feeds what comes of it. The
launch writes the run-ahead slot of its lane and KV past the frontier, which its permit covers; the active slot and
everything below the frontier stay as they are. Adopted, the two slots are exchanged, and it is a unit like any other,
landed or not: the device runs units in order, so the next launch may write the slot that this one reads. Dropped,
nothing has happened; while it is under way it keeps what it writes until it has landed (V-03).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from enum import Enum

from ninfer.base.ids import Handle, LaneId, PageId, SlotId
from ninfer.base.pools import Pool
from ninfer.ports.device import UnitRow
from ninfer.store.audit import Owned
from ninfer.store.stores import ContextStores

from .permits import reserve_coverage, spend_coverage
from .sequence import Sequence
from .units import Work, find_stop, positions_between

_TO_BE_DRAWN = array("i", [0])
"""In place of the one token that nobody knows yet."""


class Fate(Enum):
    """What became of a launch."""

    OPEN = "open"
    ADOPTED = "adopted"
    DROPPED = "dropped"


@dataclass(slots=True, eq=False)
class Ahead:
    """One launch. `lease`: the state it reads and the pages it writes on; all that it reads, once its sequence may end
    before it. `pages`: its own ones, once it is dropped.
    """

    stop: int
    slot: SlotId
    lease: Handle
    fate: Fate = Fate.OPEN
    has_landed: bool = False
    pages: tuple[tuple[Pool, PageId], ...] = ()

    def owned(self) -> Owned:
        """For the audit."""
        return Owned(slots=(), pages=self.pages, reservations=(), leases=(self.lease,))


class RunAhead:
    """The run-ahead slots, one a lane, and the dropped launches that have not landed."""

    def __init__(self, stores: ContextStores) -> None:
        self._stores = stores
        self._slots = [SlotId(slot) for slot in stores.slots.reserve(stores.run_ahead_slots)]
        stores.slots.fill(self._slots)
        self._orphans: list[Ahead] = []

    def launch(self, sequence: Sequence) -> UnitRow | None:
        """The row that feeds the drawn run, or None: it is not this sequence's turn, or there is no room (V-04)."""
        run = sequence.run
        if run is None or sequence.outstanding or sequence.ledger.pending_tokens:
            return None
        return self._launch(sequence, array("i", run.token_ids))

    def launch_behind_draw(self, sequence: Sequence) -> UnitRow | None:
        """The row that feeds the token whose draw was submitted just now; None as above."""
        return self._launch(sequence, _TO_BE_DRAWN)

    def _launch(self, sequence: Sequence, token_ids: array[int]) -> UnitRow | None:
        if sequence.lane >= len(self._slots) or sequence.ahead is not None:
            return None
        if sequence.source is not None or not sequence.slot_is_live:
            return None
        if any(orphan.slot == self._slots[sequence.lane] for orphan in self._orphans):
            return None  # a dropped launch still reads the active slot, which an adopted one would pass on
        start = sequence.ledger.ledger_frontier  # everything committed is fed, or on its way
        stop = find_stop(sequence, Work.AHEAD, len(token_ids))
        if reserve_coverage(self._stores, sequence, stop) is not None:
            return None
        tails = sequence.directory.list_tails(sequence.ledger.execution_frontier)
        lease = self._stores.leases.acquire(sequence.slot, tails)
        spend_coverage(self._stores, sequence, stop)
        sequence.ahead = Ahead(stop, self._slots[sequence.lane], lease)
        return UnitRow(
            lane=sequence.lane,
            token_ids=memoryview(token_ids),
            start=start,
            positions=positions_between(sequence.prompt, start, stop),
            pages={pool: table.entries.view() for pool, table in sequence.directory.tables.items()},
            read_slot=sequence.slot,
            write_slot=sequence.ahead.slot,
        )

    def adopt(self, sequence: Sequence) -> bool:
        """Just what it feeds was committed. True: it has landed, and is to be committed as any unit."""
        ahead = sequence.ahead
        assert ahead is not None
        assert ahead.fate is Fate.OPEN
        assert ahead.stop == sequence.ledger.ledger_frontier, "V-08: a launch ahead fed what is not committed"
        ahead.fate = Fate.ADOPTED
        self._exchange(sequence, ahead)
        return ahead.has_landed

    def drop(self, sequence: Sequence) -> None:
        """Forget a launch that is not wanted; without one nothing happens."""
        ahead, sequence.ahead = sequence.ahead, None
        if ahead is None:
            return
        assert ahead.fate is Fate.OPEN
        ahead.fate = Fate.DROPPED
        ahead.pages = tuple(sequence.directory.detach_growth())
        if ahead.has_landed:
            self._end(ahead)
            return
        read = [(pool, PageId(page)) for pool, table in sequence.directory.tables.items() for page in table.entries]
        written, ahead.lease = ahead.lease, self._stores.leases.acquire(sequence.slot, read)
        self._stores.leases.release(written)
        self._orphans.append(ahead)

    def land(self, ahead: Ahead) -> bool:
        """The unit is complete. True: it was adopted, and the sequence is to be committed."""
        ahead.has_landed = True
        if ahead.fate is Fate.DROPPED:
            self._orphans.remove(ahead)
            self._end(ahead)
        return ahead.fate is Fate.ADOPTED

    def count_orphans(self) -> int:
        """Dropped launches whose pages come back by themselves."""
        return len(self._orphans)

    def list_owned(self) -> list[Owned]:
        """The slots, and what orphans hold. For audits."""
        slots = Owned(slots=tuple(self._slots), pages=(), reservations=(), leases=())
        return [slots, *(ahead.owned() for ahead in self._orphans)]

    def _exchange(self, sequence: Sequence, ahead: Ahead) -> None:
        """The slot written becomes the active one, the one read becomes the lane's."""
        sequence.ahead = None
        self._stores.leases.release(ahead.lease)
        self._stores.slots.exchange(sequence.slot, ahead.slot)
        lane: LaneId = sequence.lane
        self._slots[lane], sequence.slot = sequence.slot, ahead.slot

    def _end(self, ahead: Ahead) -> None:
        for pool, page in ahead.pages:
            self._stores.pages[pool].drop(page)
        self._stores.leases.release(ahead.lease)
