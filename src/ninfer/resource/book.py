"""Who owns which point: records, shared entries and waiters over the same physical points (B4, D11, G6).

A point lives as long as somebody owns it. It can be found while a record or an entry owns it; one that only waiters
keep is no public entry. Keeps the prefix index and the tree of fallbacks in step with that.
"""

from __future__ import annotations

from collections.abc import Iterator

from ninfer.base.ids import Handle, Ticket
from ninfer.base.pools import PAGE_TOKENS

from .continuation import Continuation, History
from .demand import Position, position_at
from .index import PrefixIndex
from .loss import RestorePaths
from .shared import SharedEntry
from .waiters import Waiters

Owner = Continuation | SharedEntry


class PointBook:
    """Points, their owners, and the ways to find them."""

    def __init__(self) -> None:
        self.index = PrefixIndex()
        self.paths = RestorePaths()
        """Fallbacks that count as a loss: what a conversation left behind is not among them (docs/adr/0006)."""
        self.all_paths = RestorePaths()
        """All of them."""
        self.waiters = Waiters()
        self._owners: dict[Handle, list[Owner]] = {}
        self._histories: dict[Handle, History] = {}
        self._changed_points: set[Handle] = set()
        self._changed_owners: dict[int, Owner] = {}

    def take_changed(self) -> tuple[list[Owner], set[Handle]]:
        """Owners that got or lost points, or were left behind, and points with other owners, another fallback or other
        company, since the last call (I2)."""
        owners, points = list(self._changed_owners.values()), self._changed_points
        self._changed_owners, self._changed_points = {}, set()
        return owners, points | self.paths.take_changed() | self.all_paths.take_changed()

    def count_changes(self) -> int:
        """Marks that nobody has taken yet."""
        return len(self._changed_points) + len(self._changed_owners)

    def __len__(self) -> int:
        return len(self._owners)

    def list_points(self) -> list[Handle]:
        """Every point that somebody owns or keeps."""
        return sorted({*self._owners, *self.waiters.list_points()})

    def list_owned(self) -> list[Handle]:
        """Every point that a record or an entry owns."""
        return sorted(self._owners)

    def owners_of(self, point: Handle) -> tuple[Owner, ...]:
        """Records and entries, in order of ownership."""
        return tuple(self._owners.get(point, ()))

    def list_sole(self, record: Continuation, without: frozenset[Ticket] = frozenset()) -> frozenset[Handle]:
        """Points that only this record owns and no waiter keeps, holds of `without` left out: they may end with it."""
        return frozenset(
            point
            for point in record.frontiers
            if self._owners[point] == [record] and without.issuperset(self.waiters.list_holders(point))
        )

    def history(self, point: Handle) -> History:
        """The ledger in which the point names its prefix."""
        return self._histories[point]

    def restate(self, point: Handle, history: History) -> None:
        """Name the same prefix in another ledger, so that the old one can go."""
        self._histories[point] = history
        self.all_paths.restate(point, history)
        if point in self.paths:
            self.paths.restate(point, history)

    def add(self, owner: Owner, point: Handle, frontier: int, history: History) -> None:
        """`owner` owns the point from now on. What may fail comes first."""
        owners = self._owners.get(point)
        if owners is None:
            if history.digests.pages < frontier // PAGE_TOKENS:
                history.digests.extend_to(history.tokens, frontier)
            self.index.publish(point, history.digests, frontier)
            owners = self._owners[point] = []
            self._histories[point] = history
            self._enter(self.all_paths, point)
        assert owner not in owners, f"{owner.serial} owns {point} already"
        owners.append(owner)
        self._note_change(owner, point)
        self.weigh(point)

    def drop(self, owner: Owner, point: Handle) -> bool:
        """`owner` lets go. True: nobody has the point any more, and Program should end it."""
        owners = self._owners[point]
        self._note_change(owner, point)
        owners.remove(owner)
        if owners:
            self.weigh(point)
            return False
        self._unlist(point)
        return not self.waiters.list_holders(point)

    def forget(self, point: Handle) -> list[Owner]:
        """Program ended the point. Returns who owned it."""
        owners = self._owners.get(point, [])
        if owners:
            self._unlist(point)
        for owner in owners:
            self._note_change(owner, point)
        return owners

    def weigh(self, point: Handle) -> None:
        """A point that only superseded entries own is nobody's fallback and no loss; any other stands in the tree."""
        for owner in self._owners[point]:
            self._note_change(owner, point)
        counts = any(not (isinstance(owner, SharedEntry) and owner.is_superseded) for owner in self._owners[point])
        if counts and point not in self.paths:
            self._enter(self.paths, point)
        elif not counts and point in self.paths:
            self.paths.retire(point)

    def position(self, point: Handle) -> Position:
        """Where the point stands."""
        history = self._histories[point]
        return position_at(history.tokens, history.digests, self.index.frontier(point))

    def list_at(self, history: History, frontier: int) -> list[Handle]:
        """Points at exactly this place of a history."""
        return sorted(point for point, at in self.find_exact(history, frontier) if at == frontier)

    def find_exact(self, history: History, limit: int) -> Iterator[tuple[Handle, int]]:
        """Points on this prefix at or below `limit`, deepest first, verified token by token (D10)."""
        for point, frontier in self.index.find(history.digests, limit):
            mine = self._histories[point]
            if mine.tokens is history.tokens or mine.match(history.tokens, history.digests) >= frontier:
                yield point, frontier

    def find_entry(self, history: History, frontier: int) -> SharedEntry | None:
        """A shared entry at exactly this place that its conversation has not left behind."""
        for point in self.list_at(history, frontier):
            for owner in self._owners[point]:
                if isinstance(owner, SharedEntry) and not owner.is_superseded:
                    return owner
        return None

    def audit(self) -> None:
        """Index, tree, owners and waiters agree (V-02)."""
        self.index.audit()
        self.paths.audit()
        self.all_paths.audit()
        assert len(self.all_paths) == len(self._owners), "V-02: the tree of all points differs"
        assert len(self.index) == len(self._owners) == len(self._histories), "V-02: owned points are not all listed"
        for point, owners in self._owners.items():
            assert point in self.index, "V-02: an owned point cannot be found"
            assert owners, "V-02: a point without owners is listed"
            counts = any(not (isinstance(owner, SharedEntry) and owner.is_superseded) for owner in owners)
            assert counts == (point in self.paths), "I5: the tree of fallbacks differs"
            assert len(owners) == len({owner.serial for owner in owners}), "V-02: an owner twice"
            assert all(point in owner.points() for owner in owners), "V-02: an owner does not know its point"

    def _note_change(self, owner: Owner, point: Handle) -> None:
        self._changed_owners[owner.serial] = owner
        self._changed_points.add(point)

    def _enter(self, paths: RestorePaths, point: Handle) -> None:
        history, frontier = self._histories[point], self.index.frontier(point)
        shallower = next((at for at, _ in self.find_exact(history, frontier - 1) if at in paths), None)
        paths.publish(point, position_at(history.tokens, history.digests, frontier), history, shallower)

    def _unlist(self, point: Handle) -> None:
        del self._owners[point]
        del self._histories[point]
        self.index.retire(point)
        self.all_paths.retire(point)
        if point in self.paths:
            self.paths.retire(point)
