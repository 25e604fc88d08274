"""Which source comes first, and which candidates are not even quoted (G1-G3)."""

from __future__ import annotations

import itertools
from dataclasses import replace

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import PrefixDigests
from ninfer.base.ids import Handle
from ninfer.base.pools import ZERO
from ninfer.ports.native import HandOver, Prompt, SourceQuote
from ninfer.resource.continuation import Continuation, History
from ninfer.resource.shared import SharedEntry
from ninfer.resource.sources import CostModel, Source, SourceAsk, cost_order, rank_sources

PROMPT = IntBuffer(range(1000))
HISTORY = History(PROMPT, PrefixDigests(b"x"))
ASK = SourceAsk(Prompt(PROMPT, 1000, b"x"), HISTORY.digests, 1000, lambda at: at + 64)
COSTS = CostModel(prefill_s_per_token=0.001, transfer_s_per_byte=1e-6)
ROOT = SourceQuote(None, 0, HandOver.ROOT, False, (), (), ZERO, 0, 0)


def source(
    frontier: int, *, copied_bytes: int = 0, public: bool = False, named: bool = False, order: int = 1, number: int = 0
) -> Source:
    quote = replace(
        ROOT, checkpoint=Handle(number, 0), frontier=frontier, hand_over=HandOver.FORK, copied_bytes=copied_bytes
    )
    cost_s = COSTS.restore_s(copied_bytes, 1000 - frontier)
    if public:
        return Source(quote, None, cost_s, SharedEntry(number, HISTORY, Handle(number, 0), frontier, order))
    record = Continuation(number, HISTORY, publication_order=order)
    return Source(quote, record, cost_s, takes_record=True, is_named=named)


def rank(*sources: Source) -> list[Source]:
    known: dict[Handle | None, list[Source]] = {}
    for item in sources:
        known.setdefault(item.quote.checkpoint, []).append(item)
    deepest = sorted({(item.quote.checkpoint, item.quote.frontier) for item in sources}, key=lambda entry: -entry[1])
    return rank_sources(ASK, [*deepest, (None, 0)], lambda point, _: known.get(point) or [root()], COSTS)


def root() -> Source:
    return Source(ROOT, None, COSTS.restore_s(0, 1000))


def test_transfer_and_computation_count_together() -> None:
    """[G2]: a deeper point loses when its transfer costs more than it saves."""
    deep, shallow = source(900, copied_bytes=200_000, number=1), source(800, number=2)
    assert rank(deep, shallow)[0] is shallow
    deep = source(900, copied_bytes=50_000, number=1)
    assert rank(deep, shallow)[0] is deep
    assert rank()[0].quote.checkpoint is None


def test_ties_break_by_bytes_depth_session_private_use_order_and_handle() -> None:
    """[G2]: in this order, whatever the order of the candidates."""
    base = source(800, number=5, named=True)
    worse = [
        source(900, copied_bytes=100_000, number=1),  # same cost, more bytes
        source(800, number=2),  # no session
        source(800, public=True, number=3),
        source(800, order=0, number=4),
    ]
    for permutation in itertools.permutations([base, *worse]):
        assert sorted(permutation, key=cost_order)[0] is base
    private, public = source(800, number=9), source(800, public=True, order=7, number=1)
    assert sorted([public, private], key=cost_order) == [private, public]
    plain = [source(800, order=2, number=7), source(800, order=2, number=6), source(800, order=1, number=1)]
    ordered = sorted(plain, key=cost_order)
    assert [item.quote.checkpoint for item in ordered] == [Handle(6, 0), Handle(7, 0), Handle(1, 0)]


def test_the_same_way_in_is_one_source_and_equal_positions_are_two() -> None:
    """[G2]: handle, takeover and carried points decide; computed apart stays apart."""
    private, again = source(800, number=1), source(800, number=1)
    public, apart = source(800, public=True, number=1), source(800, number=2)
    ranked = rank(private, again, public, apart)
    assert [item.quote.checkpoint for item in ranked] == [Handle(1, 0), Handle(2, 0), Handle(1, 0), None]
    carrying = replace(private, carried=(Handle(3, 0),))
    assert len(rank(private, carrying)) == 3


def test_candidates_that_cannot_win_are_not_quoted() -> None:
    asked: list[int] = []

    def quote(point: Handle | None, frontier: int) -> list[Source]:
        asked.append(frontier)
        return [root() if point is None else source(frontier, number=point.index)]

    candidates = [(Handle(number, 0), 1000 - 10 * number) for number in range(1, 50)]
    ranked = rank_sources(ASK, [*candidates, (None, 0)], quote, COSTS)
    assert asked == [990, 0], "root is always there"
    assert [item.quote.frontier for item in ranked] == [990, 0]


def test_points_that_do_not_verify_are_left_out() -> None:
    """[D10]"""
    ranked = rank_sources(
        ASK,
        [(Handle(1, 0), 900), (Handle(2, 0), 700), (None, 0)],
        lambda point, frontier: (
            [] if frontier == 900 else [root() if point is None else source(frontier, number=point.index)]
        ),
        COSTS,
    )
    assert [item.quote.frontier for item in ranked] == [700, 0]
