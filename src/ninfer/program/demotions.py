"""The finite demote actions: StateImages, and groups of pages with the same owners, the deepest first (I1, I6)."""

from __future__ import annotations

from collections.abc import Iterator

from ninfer.base.frontier import backend_frontier
from ninfer.base.ids import Handle
from ninfer.base.pools import PAGE_TOKENS, Amounts, Pool
from ninfer.ports.native import DemoteAction, PageGroup
from ninfer.store.directory import KvDirectory
from ninfer.store.stores import ContextStores
from ninfer.store.tables import PageTable

from .releases import Releases, find_run

GROUP_PAGES = 16
"""Most pages of one action: 1,024 tokens."""


def find_demotions(stores: ContextStores, releases: Releases, directory: KvDirectory, pool: Pool) -> list[DemoteAction]:
    """What one history alone has: images of its points, or pages at the end of its table."""
    facts = releases.facts(directory)
    if pool is Pool.STATE:
        own = (point for _, point in facts.holders if point not in facts.sharing)
        return [action for point in own for action in _list_image(stores, (point,))]
    if facts.tails is None:
        return []
    table, tail = directory.tables[pool], facts.tails[pool]
    holders = [(backend_frontier(pool, tokens), point) for tokens, point in facts.holders]
    return list(_list_pages(stores, pool, directory.serial, table, (tail.first, tail.stop), holders))


def find_shared_demotions(stores: ContextStores, releases: Releases, pool: Pool) -> list[DemoteAction]:
    """What several histories have together: shared images, or runs of pages with the same owners, each found once."""
    if pool is Pool.STATE:
        groups = (tuple(point for point, _ in sharing) for sharing in releases.list_shared_images())
        return [action for points in groups for action in _list_image(stores, points)]
    actions: list[DemoteAction] = []
    ends: set[int] = set()
    for bound, serials in releases.bounds[pool].items():
        serial = min(serials)
        table = stores.directories[serial].tables[pool]
        stop = _index_of(table, bound)
        while stop and table.entries[stop - 1] not in ends:
            ends.add(table.entries[stop - 1])
            first, _ = find_run(stores, table, stop)
            owners = stores.directories.list_sharing(pool, first, table.entries[first])
            if any(owner.has_writer for owner in owners):
                break  # whoever shares a page shares all before it
            facts = (releases.facts(owner) for owner in owners)
            holders = [(backend_frontier(pool, tokens), point) for fact in facts for tokens, point in fact.holders]
            actions += _list_pages(stores, pool, owners[0].serial, table, (first, stop), holders)
            stop = first
    return actions


def _index_of(table: PageTable, entry: int) -> int:
    """Index after the entry, which stands in the table once."""
    return table.entries.view().tolist().index(entry) + 1


def _list_image(stores: ContextStores, points: tuple[Handle, ...]) -> Iterator[DemoteAction]:
    """The image of these points, if it is on the device and nobody else owns or reads it."""
    slot = stores.checkpoints[points[0]].slot
    if slot is not None and stores.slots.refs(slot) == len(points):
        moved = 0 if stores.copies.find_host(Pool.STATE, slot) is not None else stores.copies.block_bytes(Pool.STATE)
        yield DemoteAction(Pool.STATE, points, Amounts(state=1), moved, None, stores.epoch.value)


def _list_pages(
    stores: ContextStores,
    pool: Pool,
    serial: int,
    table: PageTable,
    run: tuple[int, int],
    holders: list[tuple[int, Handle]],
) -> Iterator[DemoteAction]:
    """The run in groups. Groups that the same points need name them by one tuple."""
    page_bytes, points = stores.copies.block_bytes(pool), tuple[Handle, ...]()
    ordered = sorted((tokens for tokens, _ in holders), reverse=True)
    for first, stop in _list_groups(table, *run):
        needing = sum(1 for tokens in ordered if tokens > first * PAGE_TOKENS) if len(points) < len(holders) else 0
        if needing > len(points):
            points = tuple(point for tokens, point in holders if tokens > first * PAGE_TOKENS)
        unsaved = stop - first
        if stores.copies.replicas:
            unsaved = sum(stores.copies.find_host(pool, page) is None for page in table.entries.view(first, stop))
        frees = Amounts.of({pool: stop - first})
        group = PageGroup(serial, first, stop)
        yield DemoteAction(pool, points, frees, unsaved * page_bytes, group, stores.epoch.value)


def _list_groups(table: PageTable, first: int, stop: int) -> Iterator[tuple[int, int]]:
    """At most GROUP_PAGES adjoining device pages that nobody reads, the deepest first."""
    if not table.host_pages and not table.pages.leased_cells:
        yield from ((max(first, end - GROUP_PAGES), end) for end in range(stop, first, -GROUP_PAGES))
        return
    end = stop
    for index in range(stop - 1, first - 2, -1):
        page = table.entries[index] if index >= first else 0
        movable = page > 0 and not table.pages.readers(page)
        if not movable or end - index > GROUP_PAGES:
            if index + 1 < end:
                yield index + 1, end
            end = index + 1 if movable else index
