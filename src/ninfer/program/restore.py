"""Restore: content that a bind needs and that is on the host alone comes back to the device (C6, L2, L4).

The whole destination is taken at bind. Full pages return to every history that shares them, and their extents stay as
replicas; a partly filled tail comes to the one writer alone; the StateImage comes into the active slot, and its point
stays on the host. Unfinished copies are visible to nobody (V-05).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ninfer.base.frontier import backend_frontier, page_of, tail_tokens
from ninfer.base.ids import Handle, PageId, SlotId
from ninfer.base.pools import PAGE_TOKENS, Pool
from ninfer.ports.device import HostCopy, PageFromHost, StateFromHost
from ninfer.ports.native import SourceQuote
from ninfer.store.directory import KvDirectory
from ninfer.store.stores import ContextStores


@dataclass(frozen=True, slots=True)
class Missing:
    """Replicas that a source lacks on the device. `pages`: full ones, as pool, index in the history, extent."""

    pages: tuple[tuple[Pool, int, Handle], ...] = ()
    tails: tuple[tuple[Pool, Handle], ...] = ()
    image: Handle | None = None

    def __bool__(self) -> bool:
        return bool(self.pages or self.tails or self.image is not None)

    def list_extents(self) -> list[Handle]:
        """Everything that is read, once."""
        extents = [extent for _, _, extent in self.pages] + [extent for _, extent in self.tails]
        return extents if self.image is None else [*extents, self.image]

    def count_pages(self) -> dict[Pool, int]:
        """Full pages to bring back, per pool."""
        counts: dict[Pool, int] = {}
        for pool, _, _ in self.pages:
            counts[pool] = counts.get(pool, 0) + 1
        return counts


@dataclass(frozen=True, slots=True)
class Restoring:
    """A restore under way: the extents read are leased, `pages` are the targets of `missing.pages`, in order.

    `tail_targets`: pages of the writer's own that take the place of its tail on the host; a branch has them in its
    table from the start.
    """

    missing: Missing
    lease: Handle
    pages: tuple[PageId, ...]
    tail_targets: tuple[tuple[Pool, PageId], ...]

    def list_targets(self, frontier: int) -> list[tuple[Pool, int, PageId]]:
        """Where in the writer's tables everything will stand: pool, index, page."""
        full = [(pool, index, page) for (pool, index, _), page in zip(self.missing.pages, self.pages, strict=True)]
        return full + [(pool, page_of(backend_frontier(pool, frontier)), page) for pool, page in self.tail_targets]

    def owned_pages(self) -> tuple[tuple[Pool, PageId], ...]:
        """Targets that stand in no table yet."""
        pools = (pool for pool, _, _ in self.missing.pages)
        return (*zip(pools, self.pages, strict=True), *self.tail_targets)


def find_missing(stores: ContextStores, quote: SourceQuote) -> Missing:
    """What the source of a quote lacks on the device below its frontier."""
    if quote.checkpoint is None or not len(stores.arena):
        return Missing()
    checkpoint = stores.checkpoints[quote.checkpoint]
    pages = tuple(checkpoint.directory.list_missing(quote.frontier))
    return Missing(pages, tuple(checkpoint.directory.list_host_tails(quote.frontier)), checkpoint.image)


def take_destinations(stores: ContextStores, missing: Missing, permit: Handle) -> tuple[PageId, ...]:
    """Pages of the permit for the full pages that come back, in their order."""
    fresh = {pool: stores.reservations.take_pages(permit, pool, n) for pool, n in missing.count_pages().items()}
    return tuple(fresh[pool].pop(0) for pool, _, _ in missing.pages)


def list_restores(
    stores: ContextStores,
    quote: SourceQuote,
    missing: Missing,
    pages: Sequence[PageId],
    slot: SlotId,
    tails: Mapping[Pool, PageId],
) -> list[HostCopy]:
    """The copies, the StateImage first. `tails`: targets of partly filled pages."""
    copies: list[HostCopy] = []
    if missing.image is not None:
        copies.append(StateFromHost(stores.arena.offset(missing.image), slot))
    for (pool, _, extent), page in zip(missing.pages, pages, strict=True):
        copies.append(PageFromHost(pool, stores.arena.offset(extent), page, PAGE_TOKENS))
    for pool, extent in missing.tails:
        copies.append(PageFromHost(pool, stores.arena.offset(extent), tails[pool], _tail_tokens(pool, quote.frontier)))
    return copies


def land_restore(stores: ContextStores, restoring: Restoring, directory: KvDirectory, frontier: int) -> None:
    """The copies are complete: publish them in every history that misses them, and let the extents go (V-05)."""
    for (pool, index, extent), page in zip(restoring.missing.pages, restoring.pages, strict=True):
        _return_page(stores, pool, index, extent, page)
    for pool, page in restoring.tail_targets:
        stores.pages[pool].publish([page])
        directory.tables[pool].restore(page_of(backend_frontier(pool, frontier)), page)
    stores.leases.release(restoring.lease)


def forfeit_restore(stores: ContextStores, restoring: Restoring) -> None:
    """The copies failed: destinations are free again, the host keeps what it had."""
    for pool, page in restoring.owned_pages():
        stores.pages[pool].drop(page)
    stores.leases.release(restoring.lease)


def _return_page(stores: ContextStores, pool: Pool, index: int, extent: Handle, page: PageId) -> None:
    """To every history that has it on the host; one that ended meanwhile needs it no more."""
    pages = stores.pages[pool]
    pages.publish([page])
    owners = stores.directories.list_sharing(pool, index, ~extent.index)
    for owner in owners:
        pages.share(page)
        owner.tables[pool].restore(index, page)
    if owners:
        stores.arena.share(extent)
        stores.copies.adopt_replica(pool, page, extent)
    pages.drop(page)


def _tail_tokens(pool: Pool, frontier: int) -> int:
    return tail_tokens(backend_frontier(pool, frontier))
