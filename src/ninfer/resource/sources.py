"""Which restore point a request starts from: verified candidates in order of cost (G1-G3).

Chooses and changes nothing. Program says what is a source and what it needs; this file only orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ninfer.base.identity import PrefixDigests
from ninfer.base.ids import Handle
from ninfer.ports.native import Prompt, SourceQuote

from .continuation import Continuation


@dataclass(frozen=True, slots=True)
class CostModel:
    """Seconds a prompt token and a copied byte cost. They order choices and decide nothing else (G3)."""

    prefill_s_per_token: float = 1 / 2000
    transfer_s_per_byte: float = 1 / 4e9

    def restore_s(self, copied_bytes: int, remaining_tokens: int) -> float:
        """Restore transfer now plus computation left."""
        return copied_bytes * self.transfer_s_per_byte + remaining_tokens * self.prefill_s_per_token


@dataclass(frozen=True, slots=True)
class SourceAsk:
    """What a request asks of the index.

    `limit`: deepest frontier it may start from. `first_unit_end`: from a start frontier to the frontier that the
    first permit must cover; a resume covers its whole rebuild plus one new unit (C9).
    """

    prompt: Prompt
    digests: PrefixDigests
    limit: int
    first_unit_end: Callable[[int], int]
    session: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """One way to start: Program's quote and the record behind the point (None for root)."""

    quote: SourceQuote
    record: Continuation | None
    cost_s: float


def cost_order(source: Source, session: str | None) -> tuple[float, int, int, int, int, int, Handle]:
    """Sort key: cost, bytes moved, depth, session hint, takeover, newest publication, stable handle (G2)."""
    quote, record = source.quote, source.record
    return (
        source.cost_s,
        quote.copied_bytes,
        -quote.frontier,
        0 if record is not None and session is not None and record.session == session else 1,
        0 if quote.takes_over else 1,
        -(record.publication_order if record is not None else 0),
        quote.checkpoint or Handle(-1, 0),
    )


def rank_sources(
    ask: SourceAsk,
    candidates: Iterable[tuple[Handle | None, int]],
    quote: Callable[[Handle | None, int], Source | None],
    costs: CostModel,
) -> list[Source]:
    """Quote the candidates, deepest first, as long as a shallower one could still be cheaper, then order them.

    `candidates`: points with their frontiers, root last. Root is always part of the answer.
    """
    ranked: list[Source] = []
    best_s = float("inf")
    for point, frontier in candidates:
        if point is not None and costs.restore_s(0, ask.limit - frontier) > best_s:
            continue  # even free of transfers it computes longer than the best one takes
        source = quote(point, frontier)
        if source is not None:
            best_s = min(best_s, source.cost_s)
            ranked.append(source)
    ranked.sort(key=lambda source: cost_order(source, ask.session))
    return ranked
