"""Who may replace whom, and which set is carried out ([I7] [I8] [I9] [I10] [I11] [G7])."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from ninfer.base.ids import Handle, Ticket
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import DeleteAction, DemoteAction, HostGap, PageGroup
from ninfer.resource.admission import RULES, Budget, Claim, Revokes, Right, may_replace
from ninfer.resource.plans import plan_batch, plan_device, plan_host
from ninfer.resource.ranking import Ranked, order_of_source, place
from ninfer.resource.retention import Retention
from ninfer.resource.uses import Uses
from ninfer.resource.waiters import Waiters, WaitHold

ORDINARY, REUSED = Retention.ORDINARY, Retention.REUSED


def claim(
    right: Right, retention: Retention = ORDINARY, at: int = 0, budget: int = 100, keep: Sequence[int] = ()
) -> Claim:
    kept = frozenset(Handle(point, 0) for point in keep)
    return Claim(right, kept, Ticket(5), retention, at, Budget(budget) if RULES[right].is_budgeted else None)


def entry(number: int, loss: int = 0, frees: int = 1, retention: Retention = ORDINARY, at: int = 0) -> Ranked:
    action = DeleteAction((Handle(number, 0),), Amounts(main_kv=frees, host=frees), loss, 0)
    return Ranked(action, retention, loss, frees, at, number)


@pytest.mark.parametrize("right", Right)
def test_the_table_of_rights(right: Right) -> None:
    """[I8] [I9] necessary work takes anything; a save what its class or its own demand allows, within its budget."""
    hot = claim(right, REUSED, 7)
    cases = {
        "ordinary": may_replace(hot, ORDINARY, 0, 50),
        "older": may_replace(hot, REUSED, 6, 50),
        "newer": may_replace(hot, REUSED, 8, 50),
        "too dear": may_replace(hot, ORDINARY, 0, 100),
    }
    anything = dict.fromkeys(cases, True)
    by_class = {"ordinary": True, "older": True, "newer": False, "too dear": False}
    expected = {
        Right.NECESSARY: anything,
        Right.RESUME: anything,
        Right.ENTRY: anything,
        Right.SNAPSHOT: anything,
        Right.CAPTURE: by_class,
        Right.WRITE_BACK: by_class,
        Right.DEMANDED_CAPTURE: {**by_class, "too dear": True},
        Right.SPARE: dict.fromkeys(cases, False),
    }
    assert cases == expected[right]
    if right in (Right.CAPTURE, Right.WRITE_BACK):
        assert not may_replace(claim(right), REUSED, 0, 50), "an ordinary owner replaces ordinary content only"


def test_a_budget_is_spent_and_never_grows() -> None:
    """[I9] losses of several steps add up; the gain must exceed them, not equal them."""
    budget = Budget(100)
    assert budget.covers(99) and not budget.covers(100)
    budget.spend(60)
    assert budget.covers(39) and not budget.covers(40)


def test_optional_saves_revoke_nobody_and_entries_only_younger_holds() -> None:
    """[G7] the youngest first, after a whole set was found; the own hold bars nothing."""
    assert RULES[Right.CAPTURE].revokes is RULES[Right.WRITE_BACK].revokes is Revokes.NOBODY
    waiters = Waiters()
    for ticket, point in ((3, 0), (8, 1), (9, 2)):
        waiters.keep(WaitHold(Ticket(ticket), Handle(point, 0)))
    ranked = [entry(0), entry(1), entry(2)]
    assert plan_device(claim(Right.CAPTURE), ranked, Pool.MAIN_KV, 1, waiters) is None
    plan = plan_device(claim(Right.ENTRY), ranked, Pool.MAIN_KV, 1, waiters)
    assert plan is not None and plan.revokes == (Ticket(9),)
    assert plan_device(claim(Right.ENTRY), ranked, Pool.MAIN_KV, 3, waiters) is None, "ticket 3 is older"
    plan = plan_device(claim(Right.NECESSARY), ranked, Pool.MAIN_KV, 3, waiters)
    assert plan is not None and plan.revokes == (Ticket(9), Ticket(8), Ticket(3))


def test_only_whole_gaps_are_paid_for_and_needless_victims_dropped() -> None:
    """[I8] an entry gives nothing up in vain; five small ones go free when a big one is needed anyway."""
    small = [entry(number, loss=1) for number in range(5)]
    big = entry(9, loss=90, frees=8)
    plan = plan_device(claim(Right.ENTRY), [*small, big], Pool.MAIN_KV, 8, Waiters())
    assert plan is not None and plan.actions == (big,)
    assert plan_device(claim(Right.ENTRY), small, Pool.MAIN_KV, 6, Waiters()) is None
    part = plan_device(claim(Right.NECESSARY), small, Pool.MAIN_KV, 6, Waiters())
    assert part is not None and len(part.actions) == 5


def test_a_batch_is_a_run_of_migrations_and_skips_covered_deletions() -> None:
    """[I7] by physical pages; another deletion, or host victims, end it."""
    moves = [
        Ranked(
            DemoteAction(Pool.MAIN_KV, (Handle(n, 0),), Amounts(main_kv=2), 9, PageGroup(n, 0, 2), 0),
            ORDINARY,
            0,
            2,
            0,
            n,
        )
        for n in range(4)
    ]
    pages = {id(move): frozenset((2 * n, 2 * n + 1)) for n, move in enumerate(moves)}
    covered, other = entry(7), entry(8)
    pages |= {id(covered): frozenset((1, 2)), id(other): frozenset((50,))}
    by_action = {id(one.action): pages[id(one)] for one in (*moves, covered, other)}

    def covers(gone: Sequence[DemoteAction], deletion: DeleteAction) -> bool:
        return by_action[id(deletion)] <= frozenset().union(*(by_action[id(one)] for one in gone))

    order = [moves[0], moves[1], covered, moves[2], other, moves[3]]
    assert plan_batch(claim(Right.NECESSARY), order, covers) == moves[:3]
    assert plan_batch(claim(Right.NECESSARY), [moves[0], covered], covers) == [moves[0]]
    assert plan_batch(claim(Right.NECESSARY), [covered, moves[0]], covers) == []


@pytest.mark.parametrize("sizes", list(itertools.product((1, 2, 3), repeat=4)))
def test_host_victims_are_an_admissible_smallest_set_or_none(sizes: tuple[int, ...]) -> None:
    """[I11] over every small arena: what goes makes everything fit and none of it is needless, or nothing goes."""
    starts = list(itertools.accumulate(sizes, initial=1))  # one free unit before, none between, one behind
    capacity = starts[-1] + 1
    for needs, reused in itertools.product(
        ((2,), (3,), (1, 1), (2, 2), (5,)), itertools.product((False, True), repeat=4)
    ):

        def gap_after(gone: Sequence[DeleteAction], needs: tuple[int, ...] = needs) -> HostGap | None:
            free = [True] * capacity
            for index, size in enumerate(sizes):
                if all(action.points != (Handle(index, 0),) for action in gone):
                    free[starts[index] : starts[index] + size] = [False] * size
            total = sum(free)
            for need in needs:
                at = next((at for at in range(capacity - need + 1) if all(free[at : at + need])), None)
                if at is None:
                    return HostGap(max(need, sum(needs) - total), total >= sum(needs))
                free[at : at + need] = [False] * need
            return None

        ranked = [entry(n, loss=10 + n, frees=size, retention=Retention(reused[n])) for n, size in enumerate(sizes)]
        ranked = sorted((place(one, order_of_source, Uses()) for one in ranked), key=Ranked.order)
        chosen = plan_host(claim(Right.WRITE_BACK, budget=1000), ranked, gap_after, Waiters())
        open_now = [one for one in ranked if one.retention is ORDINARY]
        sets = [
            one
            for size in range(5)
            for one in itertools.combinations(open_now, size)
            if gap_after([r.action for r in one]) is None
        ]
        assert (chosen is None) == (not sets), (sizes, needs, reused)
        if chosen is not None:
            assert gap_after([one.action for one in chosen]) is None
            assert all(one.retention is ORDINARY for one in chosen)
            for left in chosen:
                assert gap_after([one.action for one in chosen if one is not left]) is not None, "a needless victim"
