"""The page table of one history in one pool: which page stands at which index, on the device or on the host.

Knows pages and extents. Does not know tokens, coverage, or who needs the history.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from ninfer.base.buffers import IntBuffer
from ninfer.base.ids import Handle, PageId

from .cells import CellState
from .extents import HostArena
from .pages import PagePool


class PageTable:
    """Entry > 0: a device page. Entry < 0: a page on the host only, in the extent of index `~entry`.

    The table owns one reference of each page and each extent in it. The last `_filling` pages have not landed.
    """

    __slots__ = ("_arena", "_filling", "_note_move", "entries", "host_pages", "pages")

    def __init__(self, pages: PagePool, arena: HostArena, note_move: Callable[[], None]) -> None:
        """`note_move`: called when content of the table goes to the host, comes back, or is copied to another page."""
        self.pages = pages
        self._note_move = note_move
        self.entries = IntBuffer()
        self.host_pages = 0
        """Entries that are on the host only."""
        self._arena = arena
        self._filling = 0

    def append(self, pages: Sequence[PageId]) -> None:
        """Add filling pages, owned from here on by this table."""
        self.entries.extend(pages)
        self._filling += len(pages)

    def append_shared(self, source: PageTable, count: int) -> None:
        """Share the first `count` pages of another table."""
        view = source.entries.view(0, count)
        if source.host_pages:
            self.pages.share_table(memoryview(array("i", (entry for entry in view if entry > 0))))
            for entry in view:
                if entry < 0:
                    self._arena.share(self._arena.at(~entry))
                    self.host_pages += 1
        else:
            self.pages.share_table(view)
        self.entries.extend(view)

    def publish(self, count: int) -> None:
        """The unit that filled the first `count` pages has landed."""
        first = len(self.entries) - self._filling
        if first < count:
            self.pages.publish(self.entries.view(first, count))
            self._filling = len(self.entries) - count

    def trim(self, count: int) -> None:
        """Drop the pages beyond the first `count`."""
        have = len(self.entries)
        if count < have:
            for entry in self.entries.view(count, have):
                if entry > 0:
                    self.pages.drop(entry)
                else:
                    self._arena.drop(self._arena.at(~entry))
                    self.host_pages -= 1
            self.entries.truncate(count)
            self._filling = max(0, self._filling - (have - count))

    def detach(self, count: int) -> list[PageId]:
        """Give the unfinished pages beyond the first `count` to the caller; views of them stay as they are."""
        pages = [PageId(page) for page in self.entries.view(count)]
        assert len(pages) <= self._filling, "V-05: a finished page is detached"
        self.entries.truncate(count)
        self.entries.renew()
        self._filling -= len(pages)
        return pages

    def replace(self, index: int, page: PageId) -> None:
        """The copy of a shared tail page takes its place; the shared one loses this owner."""
        self._note_move()
        shared = self.entries[index]
        self.entries.view(index, index + 1)[0] = page
        self.pages.publish([page])
        self.pages.drop(shared)

    def shows(self, index: int, entry: int) -> bool:
        """Whether this page, or this page on the host, stands at `index`."""
        return index < len(self.entries) and self.entries[index] == entry

    def find_extent(self, index: int) -> Handle | None:
        """Where the page at `index` is when it is on the host only."""
        entry = self.entries[index]
        return self._arena.at(~entry) if entry < 0 else None

    def list_missing(self, stop: int) -> list[tuple[int, Handle]]:
        """Pages below index `stop` that are on the host only."""
        entries = enumerate(self.entries.view(0, stop))
        return [(index, self._arena.at(~entry)) for index, entry in entries if entry < 0]

    def demote(self, index: int, extent: Handle) -> None:
        """The device copy goes, its host replica stays. Takes over a reference of the extent (V-05)."""
        page = self.entries[index]
        assert page > 0
        self._note_move()
        self.entries.view(index, index + 1)[0] = ~extent.index
        self.host_pages += 1
        self.pages.drop(page)

    def restore(self, index: int, page: PageId) -> None:
        """The page is on the device again. Takes over a reference of it and drops the extent's."""
        extent = self.find_extent(index)
        assert extent is not None
        assert self.pages.state(page) is CellState.LIVE, f"V-05: page {page} is not complete"
        self._note_move()
        self.entries.view(index, index + 1)[0] = page
        self.host_pages -= 1
        self._arena.drop(extent)

    def audit(self, page_count: int) -> None:
        """As many pages as the directory says; exactly the last `_filling` are unfinished."""
        assert len(self.entries) == page_count, f"V-06: {len(self.entries)} pages in the table, {page_count} expected"
        on_host = [entry for entry in self.entries if entry < 0]
        assert self.host_pages == len(on_host), "V-01: pages on the host differ"
        for entry in on_host:
            self._arena.at(~entry)
        states = self.pages.list_states()
        found = [states[entry] if entry >= 0 else CellState.LIVE for entry in self.entries]
        wanted = [CellState.LIVE] * (page_count - self._filling) + [CellState.FILLING] * self._filling
        if found != wanted:
            index = next(index for index, state in enumerate(found) if state != wanted[index])
            name = wanted[index].name
            raise AssertionError(f"V-05: entry {self.entries[index]} at {index} is not a {name} page of the device")
