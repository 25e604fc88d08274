"""The KV directory of one history: its pages in every KV pool, and who needs them up to where.

The generation endpoint, the input point and the active writer of a history share one directory, each with its own
coverage; saving an inner point therefore copies neither KV nor a tail page (F2). Coverage is told in tokens fed to the
model; what a backend's pool holds of them is its own frontier (D7). Does not know tokens or states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ninfer.base.frontier import backend_frontier, page_of, pages_for, tail_tokens
from ninfer.base.ids import Handle, PageId
from ninfer.base.pools import PAGE_TOKENS, Pool

from .epoch import Epoch
from .extents import HostArena
from .pages import PagePool
from .tables import PageTable


class KvDirectory:
    """Pages and coverage of one history. At most one writer; what others can see is immutable (V-09)."""

    __slots__ = (
        "_changed",
        "_epoch",
        "_holders",
        "_note_move",
        "_reach_tokens",
        "_writer_frontier",
        "serial",
        "tables",
    )

    def __init__(
        self,
        pools: Mapping[Pool, PagePool],
        arena: HostArena,
        serial: int,
        epoch: Epoch,
        changed: set[int],
        note_move: Callable[[int], None],
    ) -> None:
        """`changed`: gets the serial whenever points or writer change. `note_move`: is told it when content changes its
        medium."""
        self.serial = serial
        self._note_move = partial(note_move, serial)
        self.tables = {pool: PageTable(pages, arena, self._note_move) for pool, pages in pools.items()}
        self._epoch = epoch
        self._changed = changed
        self._holders: dict[Handle, int] = {}
        self._writer_frontier: int | None = None
        self._reach_tokens = 0

    @property
    def has_writer(self) -> bool:
        """Whether an active sequence writes this history."""
        return self._writer_frontier is not None

    @property
    def is_unheld(self) -> bool:
        """Nobody needs this history any more."""
        return self._writer_frontier is None and not self._holders

    def page_count(self, pool: Pool) -> int:
        """Pages in the table of one pool."""
        return _pages(pool, self._reach_tokens)

    def coverage_tokens(self, leaving: frozenset[Handle] = frozenset(), writer_frontier: int | None = None) -> int:
        """The largest coverage somebody needs, once the points in `leaving` are gone and a writer has come."""
        coverage = max(self._writer_frontier or 0, writer_frontier or 0)
        for point, tokens in self._holders.items():
            if tokens > coverage and point not in leaving:
                coverage = tokens
        return coverage

    def list_holders(self) -> list[tuple[int, Handle]]:
        """Points of this history with their coverage, shallowest first."""
        return sorted((tokens, point) for point, tokens in self._holders.items())

    def hold(self, point: Handle, tokens: int) -> None:
        """A point needs the first `tokens` tokens. Only landed content may be promised (V-05, V-06)."""
        assert point not in self._holders
        assert 0 < tokens <= self.coverage_tokens(), f"V-06: coverage of {tokens} tokens was never computed"
        self._holders[point] = tokens
        self._note_change()

    def note_image(self) -> None:
        """The StateImage of one of its points went to the host."""
        self._note_move()
        self._epoch.advance()

    def leave(self, point: Handle) -> None:
        """A point ends; pages that only it needed are dropped. With a writer there are none: it is never behind."""
        del self._holders[point]
        self._note_change()
        if self._writer_frontier is None:
            self._trim()

    def open_writer(self, frontier: int) -> None:
        """A sequence writes on from `frontier`; every point that stays lies at or below it (V-09)."""
        assert self._writer_frontier is None, "V-09: the history has a writer"
        assert frontier <= self.coverage_tokens() or not self._holders, "V-06: the writer starts beyond the coverage"
        assert all(tokens <= frontier for tokens in self._holders.values()), "V-09: the writer starts below a point"
        self._writer_frontier = frontier
        self._reach_tokens = max(self._reach_tokens, frontier)
        self._note_change()
        self._trim()

    def close_writer(self) -> None:
        """The sequence ended; what no point covers is dropped."""
        assert self._writer_frontier is not None, "V-09: the history has no writer"
        self._writer_frontier = None
        self._note_change()
        self._trim()

    def need_pages(self, tokens: int) -> dict[Pool, int]:
        """Pages each table lacks to cover [0, tokens); pools that lack none are left out."""
        lacks = ((pool, _pages(pool, tokens) - self.page_count(pool)) for pool in self.tables)
        return {pool: count for pool, count in lacks if count > 0}

    def grow(self, tokens: int, fresh: Mapping[Pool, Sequence[PageId]], *, follows_copies: bool = False) -> None:
        """Cover [0, tokens) for a unit, with filling pages for what is missing. The writable part is not shared.

        A reader on the tail page is no obstacle: points lie at or below the writer, so it reads what is not written.
        `follows_copies`: the unit is given the targets of copies under way in place of what is shared or on the host.
        """
        assert self._writer_frontier is not None, "V-09: only the writer grows a history"
        on_host = any(table.host_pages for table in self.tables.values())
        assert follows_copies or not on_host, "V-06: a unit over pages on the host"
        for pool, page in self.list_tails(self._writer_frontier):
            pages = self.tables[pool].pages
            owners = pages.refs(page) - pages.readers(page)
            assert follows_copies or owners == 1, f"V-09: the unit would write page {page}, which {owners} owners see"
            if owners == 1:
                pages.note_write(page)
        for pool, table in self.tables.items():
            if pool in fresh:
                table.append(fresh[pool])
        self._reach_tokens = max(self._reach_tokens, tokens)

    def detach_growth(self) -> list[tuple[Pool, PageId]]:
        """What was grown beyond the frontier will not be committed: its pages pass to the caller, unfinished."""
        assert self._writer_frontier is not None, "V-09: only the writer takes its growth back"
        keep = self.coverage_tokens()
        self._reach_tokens = keep
        self._note_change()
        tables = self.tables.items()
        return [(pool, page) for pool, table in tables for page in table.detach(_pages(pool, keep))]

    def commit(self, frontier: int) -> None:
        """The unit landed: [0, frontier) is complete. What was grown beyond it belongs to a unit behind this one."""
        assert self._writer_frontier is not None, "V-09: only the writer commits"
        assert self._writer_frontier <= frontier <= self._reach_tokens
        self._writer_frontier = frontier
        for pool, table in self.tables.items():
            table.publish(_pages(pool, frontier))

    def list_shared_tails(self, frontier: int) -> list[tuple[Pool, PageId]]:
        """Partly filled pages at `frontier` that others own or read: a writer that comes copies them first (F2)."""
        tails = self.list_tails(frontier)
        return [(pool, page) for pool, page in tails if self.tables[pool].pages.refs(page) > 1]

    def list_tails(self, frontier: int) -> list[tuple[Pool, PageId]]:
        """Partly filled pages at `frontier` on the device, shared or not; each backend has its own frontier there."""
        tails = ((pool, self.tables[pool].entries[index]) for pool, index in self._tail_indexes(frontier))
        return [(pool, PageId(page)) for pool, page in tails if page > 0]

    def list_host_tails(self, frontier: int) -> list[tuple[Pool, Handle]]:
        """Partly filled pages at `frontier` that are on the host only."""
        tails = ((pool, self.tables[pool].find_extent(index)) for pool, index in self._tail_indexes(frontier))
        return [(pool, extent) for pool, extent in tails if extent is not None]

    def list_missing(self, frontier: int) -> list[tuple[Pool, int, Handle]]:
        """Full pages below `frontier` that are on the host only: pool, index in the history, extent."""
        return [
            (pool, index, extent)
            for pool, table in self.tables.items()
            if table.host_pages
            for index, extent in table.list_missing(backend_frontier(pool, frontier) // PAGE_TOKENS)
        ]

    def covered_tokens(self, pool: Pool, index: int) -> int:
        """Tokens of the page at `index` that somebody needs."""
        return min(PAGE_TOKENS, backend_frontier(pool, self.coverage_tokens()) - index * PAGE_TOKENS)

    def needs_fewer_pages(self, tokens: int) -> bool:
        """Whether coverage of only `tokens` tokens would leave pages over."""
        return any(_pages(pool, tokens) < self.page_count(pool) for pool in self.tables)

    def tables_above(self, tokens: int) -> dict[Pool, memoryview]:
        """Views of the pages that coverage of only `tokens` tokens would not need."""
        keeps = ((pool, min(_pages(pool, tokens), self.page_count(pool))) for pool in self.tables)
        return {pool: self.tables[pool].entries.view(keep) for pool, keep in keeps}

    def list_needing(self, pool: Pool, index: int) -> list[Handle]:
        """Points that need the page at `index` of one pool, shallowest first."""
        start = index * PAGE_TOKENS
        return [point for tokens, point in self.list_holders() if backend_frontier(pool, tokens) > start]

    def audit(self) -> None:
        """Tables, coverage and reach agree (V-06, V-09)."""
        for pool, table in self.tables.items():
            table.audit(self.page_count(pool))
        coverage = self.coverage_tokens()
        assert coverage <= self._reach_tokens, "V-06: coverage beyond the pages"
        if self._writer_frontier is None:
            assert not self.needs_fewer_pages(coverage), "V-06: pages nobody covers"
        else:
            assert all(tokens <= self._writer_frontier for tokens in self._holders.values()), "V-09: a point is ahead"

    def _note_change(self) -> None:
        self._changed.add(self.serial)
        self._epoch.advance()

    def _trim(self) -> None:
        keep = self.coverage_tokens()
        if keep < self._reach_tokens:
            for pool, table in self.tables.items():
                table.trim(_pages(pool, keep))
            self._reach_tokens = keep

    def _tail_indexes(self, frontier: int) -> list[tuple[Pool, int]]:
        """Where each backend's own frontier lies inside a page."""
        own = ((pool, backend_frontier(pool, frontier)) for pool in self.tables)
        return [(pool, page_of(tokens)) for pool, tokens in own if tail_tokens(tokens)]


def _pages(pool: Pool, tokens: int) -> int:
    return pages_for(backend_frontier(pool, tokens))


class Directories:
    """All histories of one Program, in order of creation."""

    def __init__(self, pools: Mapping[Pool, PagePool], arena: HostArena, epoch: Epoch) -> None:
        self._pools = dict(pools)
        self._arena = arena
        self._epoch = epoch
        self._next_serial = 0
        self._open: dict[int, KvDirectory] = {}
        self._changed: set[int] = set()
        self.moves = 0
        """How often content of any history went to the host, came back, or was copied to another page."""

    def __iter__(self) -> Iterator[KvDirectory]:
        return iter(list(self._open.values()))

    def __getitem__(self, serial: int) -> KvDirectory:
        return self._open[serial]

    def __contains__(self, serial: int) -> bool:
        return serial in self._open

    def take_changed(self) -> set[int]:
        """Serials of histories that changed since the last call, ended ones included. For who keeps answers.

        Growth that a writer commits is no change: nothing is offered of what is being written.
        """
        changed = self._changed.copy()
        self._changed.clear()
        return changed

    def open(self) -> KvDirectory:
        """A history without pages."""
        directory = KvDirectory(
            self._pools, self._arena, self._next_serial, self._epoch, self._changed, self._note_move
        )
        self._open[directory.serial] = directory
        self._next_serial += 1
        self._epoch.advance()
        return directory

    def fork(self, source: KvDirectory, frontier: int, tails: Mapping[Pool, PageId]) -> KvDirectory:
        """A branch at `frontier`: full pages are shared, `tails` are the filling copies of the partly filled ones."""
        assert frontier <= source.coverage_tokens(), "V-06: the branch point was never computed"
        child = self.open()
        for pool, table in child.tables.items():
            table.append_shared(source.tables[pool], backend_frontier(pool, frontier) // PAGE_TOKENS)
            if pool in tails:
                table.append([tails[pool]])
        child.open_writer(frontier)
        return child

    def list_sharing(self, pool: Pool, index: int, entry: int) -> list[KvDirectory]:
        """Histories whose page at `index` is this one. A page stands at the same index wherever it is shared."""
        return [directory for directory in self._open.values() if directory.tables[pool].shows(index, entry)]

    def close_unheld(self, directory: KvDirectory) -> None:
        """Forget a history that nobody needs."""
        if directory.is_unheld:
            assert not any(map(directory.page_count, directory.tables)), "V-02: a history ends with pages"
            del self._open[directory.serial]

    def audit(self) -> None:
        """Every open history is held, and sound in itself."""
        for directory in self:
            assert not directory.is_unheld, f"V-02: history {directory.serial} is kept by nobody"
            directory.audit()

    def _note_move(self, serial: int) -> None:
        self._changed.add(serial)
        self.moves += 1
