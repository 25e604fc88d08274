"""Evidence and standing: what proves demand, what does not, and how far standing reaches ([H1] [H2] [H3])."""

from __future__ import annotations

from collections.abc import Sequence

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import PrefixDigests
from ninfer.base.ids import Handle, Ticket
from ninfer.base.pools import Amounts
from ninfer.resource.demand import SUMMARY_ENTRIES, Demand, DemandSummary, position_at
from ninfer.resource.retention import find_reused

TOKENS = IntBuffer(range(1000))
DIGESTS = PrefixDigests(b"x")
DIGESTS.extend_to(TOKENS, 1000)


def at(frontier: int):
    return position_at(TOKENS, DIGESTS, frontier)


def test_two_requests_that_computed_a_position_prove_its_demand() -> None:
    """[H2] [M9] once per request and position, whoever comes in between; own work again proves nothing."""
    summary = DemandSummary()
    for _ in range(3):
        summary.note_computed(at(100), Ticket(1), 1)
    assert summary.find_repeated(at(100)) is None
    summary.note_computed(at(100), Ticket(2), 5)
    assert summary.find_repeated(at(100)) == 5
    summary.note_computed(at(100), Ticket(1), 9)
    assert summary.find_repeated(at(100)) == 5, "request 1 has said so before"
    assert summary.find_repeated(at(101)) is None, "exactly this position"


def test_an_adoption_is_repeated_demand_at_once_and_root_is_none() -> None:
    """[H2]"""
    summary = DemandSummary()
    summary.note_adopted(at(0), Ticket(1), 1)
    summary.note_adopted(at(200), Ticket(1), 2)
    assert len(summary) == 1 and summary.find_repeated(at(200)) == 2


def test_the_summary_is_bounded_and_forgets_requests() -> None:
    """[H2] [C5]"""
    summary = DemandSummary()
    for frontier in range(1, 400):
        summary.note_computed(at(frontier), Ticket(1), frontier)
    assert len(summary) == SUMMARY_ENTRIES and at(1) not in summary and at(399) in summary
    summary.close([Ticket(1)])
    summary.audit(frozenset())


def test_positions_that_a_prompt_crosses_are_found_exactly() -> None:
    """[H2] another token before it, and it is another position."""
    summary = DemandSummary()
    for frontier in (64, 100, 500):
        summary.note_computed(at(frontier), Ticket(1), 1)
    assert summary.list_crossed(TOKENS, DIGESTS, 64, 500) == [at(100), at(500)]
    other = IntBuffer([*range(99), 7, *range(100, 1000)])
    digests = PrefixDigests(b"x")
    digests.extend_to(other, 1000)
    assert summary.list_crossed(other, digests, 0, 1000) == [at(64)]


def footprints(groups: Sequence[Sequence[Handle]]) -> list[Amounts]:
    """One slot and ten pages a point, shared ones once."""
    seen: set[Handle] = set()
    amounts = []
    for group in groups:
        fresh = set(group) - seen
        seen |= fresh
        amounts.append(Amounts(state=len(fresh), main_kv=10 * len(fresh)))
    return amounts


def test_standing_reaches_to_three_quarters_of_each_pool_by_unique_footprint() -> None:
    """[H3] the newest demand first; older records fall back; what is shared counts once; one alone may exceed it."""
    points = [Handle(number, 0) for number in range(9)]
    owners = [(number, Demand(number + 1, 5), [points[number]]) for number in range(8)]
    assert find_reused(owners, Amounts(state=8, main_kv=1000), footprints) == {2, 3, 4, 5, 6, 7}
    assert find_reused(owners, Amounts(state=8, main_kv=40), footprints) == {5, 6, 7}
    shared = [(number, Demand(number + 1, 5), [points[0]]) for number in range(8)]
    assert find_reused(shared, Amounts(state=2, main_kv=1000), footprints) == set(range(8))
    assert find_reused([(1, Demand(1, 5), points)], Amounts(state=2, main_kv=20), footprints) == {1}
    assert find_reused([(1, None, points)], Amounts(state=20, main_kv=200), footprints) == frozenset()
