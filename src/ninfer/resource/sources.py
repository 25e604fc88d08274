"""Which restore point a request starts from: verified candidates in order of cost (G1-G3).

Chooses and changes nothing. Program says what is a source and what it needs; this file only orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ninfer.base.identity import PrefixDigests
from ninfer.base.ids import Handle, Ticket
from ninfer.ports.native import Prompt, SourceQuote

from .continuation import Continuation, Use
from .shared import SharedEntry


@dataclass(frozen=True, slots=True)
class CostModel:
    """Seconds a prompt token and a copied byte cost. They order choices and decide nothing else (G3)."""

    prefill_s_per_token: float = 1 / 2000
    transfer_s_per_byte: float = 1 / 4e9

    def restore_s(self, copied_bytes: int, remaining_tokens: int) -> float:
        """Restore transfer now plus computation left."""
        return copied_bytes * self.transfer_s_per_byte + remaining_tokens * self.prefill_s_per_token


@dataclass(frozen=True, slots=True)
class Wishes:
    """Positions that a request would like to keep: its recovery frontier, anchors and shared markers (E1)."""

    recovery_frontier: int | None = None
    anchors: tuple[int, ...] = ()
    shared_markers: tuple[int, ...] = ()
    moving_marker: int | None = None
    """The marker at the end of the input, which the next turn's replaces."""

    def uses_at(self, frontier: int) -> frozenset[Use]:
        """What a point at this frontier would be to the request."""
        wanted = {
            Use.INPUT: frontier == self.recovery_frontier,
            Use.ANCHOR: frontier in self.anchors,
            Use.SHARED: frontier in self.shared_markers,
        }
        return frozenset(use for use, is_wanted in wanted.items() if is_wanted)

    def list_frontiers(self, start: int, stop: int) -> list[int]:
        """Wanted frontiers in (start, stop], shallowest first."""
        own = () if self.recovery_frontier is None else (self.recovery_frontier,)
        return sorted({at for at in (*own, *self.anchors, *self.shared_markers) if start < at <= stop})


@dataclass(frozen=True, slots=True)
class SourceAsk:
    """What a request asks of the index.

    `limit`: deepest frontier it may start from. `first_unit_end`: from a start frontier to the frontier that the
    first permit must cover; a resume covers its whole rebuild plus one new unit (C9). `order`: order of publication
    when the request came; what was published later is not taken over (G8).
    """

    prompt: Prompt
    digests: PrefixDigests
    limit: int
    first_unit_end: Callable[[int], int]
    session: str | None = None
    ticket: Ticket | None = None
    order: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """One way to start: Program's quote and the logical side of it.

    `record`: the private record behind the point, None for root and for public use. `entry`: the shared entry in
    public use. `takes_record`: the request writes that record on; else a branch is made, whatever Program does with
    state and pages (F1). `carried`: points of the record that ride along, the source itself included where it stays.
    """

    quote: SourceQuote
    record: Continuation | None
    cost_s: float
    entry: SharedEntry | None = None
    takes_record: bool = False
    carried: tuple[Handle, ...] = ()
    is_named: bool = False
    """The record is the one that the caller's session names."""
    revokes: frozenset[Ticket] = frozenset()
    """Waiters that lose what they keep of it, if the whole bind succeeds (G8)."""


def cost_order(source: Source) -> tuple[float, int, int, int, int, int, Handle]:
    """Sort key: cost, bytes moved, depth, session hint, private use, newest publication, stable handle (G2)."""
    quote, owner = source.quote, source.record or source.entry
    return (
        source.cost_s,
        quote.copied_bytes,
        -quote.frontier,
        0 if source.is_named else 1,
        0 if source.record is not None else 1,
        -(owner.publication_order if owner is not None else 0),
        quote.checkpoint or Handle(-1, 0),
    )


def rank_sources(
    ask: SourceAsk,
    candidates: Iterable[tuple[Handle | None, int]],
    quote: Callable[[Handle | None, int], Iterable[Source]],
    costs: CostModel,
) -> list[Source]:
    """Quote the candidates, deepest first, as long as a shallower one could still be cheaper, then order them.

    `candidates`: points with their frontiers, root last. Root is always part of the answer. What differs neither in
    point nor in takeover nor in carried points is one source; equal positions computed apart are two (G2).
    """
    ranked: dict[tuple[Handle | None, bool, tuple[Handle, ...]], Source] = {}
    best_s = float("inf")
    for point, frontier in candidates:
        if point is not None and costs.restore_s(0, ask.limit - frontier) > best_s:
            continue  # even free of transfers it computes longer than the best one takes
        for source in quote(point, frontier):
            best_s = min(best_s, source.cost_s)
            key = (point, source.takes_record, source.carried)
            if key not in ranked or cost_order(source) < cost_order(ranked[key]):
                ranked[key] = source
    return sorted(ranked.values(), key=cost_order)
