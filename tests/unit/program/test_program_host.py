"""Demotion and restore over the simulated device, whose host blocks are compared when they come back."""

from __future__ import annotations

import pytest
from host_rig import IMAGE, MAIN, PAGE, bind, demote_all, drain, go_on, make_driver, make_end

from ninfer.base.ids import LaneId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import BindDone, Bound, Demoting, PrefillDone, PrefillTurn
from ninfer.ports.transactions import TransactionEnd, TransactionKind
from ninfer.sim.chain import expected_tokens
from ninfer.sim.device import SimFaults
from ninfer.sim.driver import make_prompt


@pytest.mark.parametrize("takes_over", [True, False])
@pytest.mark.parametrize("length", [64, 100, 128, 300])
def test_what_left_for_the_host_comes_back_whole(length: int, takes_over: bool) -> None:
    """[B7], [C6], [F3], [L2]: state and all pages demoted, restored by bind; the oracle holds."""
    driver = make_driver()
    tokens = list(range(length))
    end = make_end(driver, tokens)
    free = driver.program.occupancy().free
    assert demote_all(driver, Pool.STATE) == 1
    assert demote_all(driver, MAIN) == 1
    now = driver.program.occupancy()
    assert now.free == Amounts(state=4, main_kv=20, host=free.host - IMAGE - PAGE * -(-length // 64))
    go_on(driver, tokens, end, takes_over=takes_over)
    driver.program.audit()


def test_a_restored_page_keeps_its_replica_and_leaves_at_once_the_next_time() -> None:
    """[I6]: with a complete host replica the device copy is dropped directly; nothing is copied."""
    driver = make_driver()
    tokens = list(range(256))
    end = make_end(driver, tokens)
    demote_all(driver, MAIN)
    go_on(driver, tokens, end, takes_over=False)
    (action,) = driver.program.list_demote_actions(MAIN)
    assert action.moved_bytes == 0
    assert driver.program.demote(action) == Demoting(Amounts(main_kv=4), Amounts())
    assert not driver.program.transaction_open
    go_on(driver, tokens, end, takes_over=True)


def test_a_shared_page_leaves_from_all_its_histories_and_returns_to_all() -> None:
    """[B7], [D10], [I1]: the holders of shared content pass together."""
    driver = make_driver()
    trunk = list(range(192))
    root = make_end(driver, trunk)
    left, right = [*trunk, 7, 7], [*trunk, 8]
    ends = []
    for tokens in (left, right):
        bound = bind(driver, tokens, root)
        driver.prefill(bound.sequence, len(tokens) - bound.frontier)
        ends.append(driver.program.freeze_end(bound.sequence))
    shared = [action for action in driver.program.list_demote_actions(MAIN) if len(action.points) == 3]
    assert [action.frees for action in shared] == [Amounts(main_kv=3)]
    demote_all(driver, MAIN)
    assert driver.program.occupancy().free.main_kv == 20
    go_on(driver, left, ends[0], takes_over=True)
    assert driver.program.occupancy().free.main_kv == 20 - 3, "the trunk is back, once"
    go_on(driver, right, ends[1], takes_over=True)
    assert driver.program.occupancy().free.main_kv == 20 - 3
    go_on(driver, trunk, root, takes_over=True)


def test_pages_that_a_running_request_uses_do_not_leave() -> None:
    """[I8]: an active reader is a bar."""
    driver = make_driver()
    trunk = list(range(128))
    root = make_end(driver, trunk)
    bound = bind(driver, [*trunk, 5], root)
    driver.prefill(bound.sequence, 1)
    assert driver.program.list_demote_actions(MAIN) == []
    driver.program.release(bound.sequence)
    assert len(driver.program.list_demote_actions(MAIN)) == 1


def test_a_group_is_halved_until_a_part_of_it_fits() -> None:
    """[I11]: KV destinations are halved on failure; the deepest pages go first."""
    driver = make_driver(host=3 * PAGE)
    make_end(driver, list(range(640)))
    (action,) = driver.program.list_demote_actions(MAIN)
    outcome = driver.program.demote(action)
    assert outcome == Demoting(Amounts(), Amounts(main_kv=2))
    drain(driver)
    assert driver.program.occupancy().free.main_kv == 20 - 8


def test_a_few_missing_pages_move_a_few_pages() -> None:
    """[I6], [M6]"""
    driver = make_driver()
    make_end(driver, list(range(640)))
    (action,) = driver.program.list_demote_actions(MAIN)
    assert driver.program.demote(action, most=3) == Demoting(Amounts(), Amounts(main_kv=3))


def test_without_room_on_the_host_nothing_changes() -> None:
    """[V-04], [C4]"""
    driver = make_driver(host=IMAGE - 1)
    make_end(driver, list(range(100)))
    before = driver.program.occupancy()
    (action,) = driver.program.list_demote_actions(Pool.STATE)
    outcome = driver.program.demote(action)
    assert isinstance(outcome, Shortfall)
    assert (outcome.pool, outcome.gap) == (Pool.HOST, 1)
    assert driver.program.occupancy() == before


def test_safe_duplicates_make_room_first_and_only_when_it_helps() -> None:
    """[I11]"""
    driver = make_driver(host=4 * PAGE)
    tokens = list(range(256))
    end = make_end(driver, tokens)
    demote_all(driver, MAIN)
    go_on(driver, tokens, end, takes_over=False)
    assert driver.program.occupancy().free.host == 0, "duplicates of what is back on the device"
    other = make_end(driver, list(range(500, 640)))
    actions = driver.program.list_demote_actions(MAIN)
    (fresh,) = [action for action in actions if action.points == (other,)]
    assert isinstance(driver.program.demote(fresh), Demoting)
    drain(driver)
    assert driver.program.occupancy().free.host == 0
    (state,) = [a for a in driver.program.list_demote_actions(Pool.STATE) if a.points == (other,)]
    assert isinstance(driver.program.demote(state), Shortfall)
    (old,) = [a for a in driver.program.list_demote_actions(MAIN) if a.points == (end,)]
    assert old.moved_bytes == 3 * PAGE, "only as many duplicates went as had to; the useless try took none"


def test_a_demotion_that_fails_or_is_cancelled_changes_nothing() -> None:
    """[L3]: the extents are free again, the device copy was never touched."""
    for cancels in (False, True):
        driver = make_driver(failures=0.0 if cancels else 1.0)
        tokens = list(range(150))
        end = make_end(driver, tokens)
        for pool in (Pool.STATE, MAIN):
            before = driver.program.occupancy()
            (action,) = driver.program.list_demote_actions(pool)
            assert isinstance(driver.program.demote(action), Demoting)
            if cancels:
                driver.program.cancel_demotion()
                assert not driver.program.transaction_open, "what drains blocks nobody"
            ends = drain(driver)
            for _ in range(5):
                driver.program.poll()
            assert ends == ([] if cancels else [TransactionEnd(TransactionKind.DEMOTION, True, Amounts())])
            assert driver.program.occupancy() == before
        driver.device._faults = SimFaults()
        go_on(driver, tokens, end, takes_over=True)


def test_points_may_end_while_they_are_being_demoted() -> None:
    """[L3], [V-03]: the reader is waited for; its late landing publishes nothing for nobody."""
    driver = make_driver()
    make_end(driver, list(range(150)))
    (action,) = driver.program.list_demote_actions(MAIN)
    driver.program.demote(action)
    (delete,) = driver.program.list_delete_actions(Pool.STATE)
    assert driver.program.delete(delete).main_kv == 0
    drain(driver)
    assert driver.program.occupancy().free == driver.program.occupancy().capacity


def test_a_failed_restore_is_told_and_its_request_only_released() -> None:
    """[L3], [C4]: destinations return, the host keeps what it has, and the next try may succeed."""
    driver = make_driver()
    tokens = list(range(200))
    end = make_end(driver, tokens)
    demote_all(driver, Pool.STATE)
    demote_all(driver, MAIN)
    before = driver.program.occupancy()
    driver.device._faults = SimFaults(host_failures=1.0)
    for takes_over in (False, True):
        prompt = make_prompt([*tokens, 1])
        quote = driver.program.quote_source(prompt, end, takes_over=takes_over, first_unit_tokens=1)
        assert quote is not None
        bound = driver.program.bind(quote, prompt, LaneId(0))
        assert isinstance(bound, Bound)
        (failed,) = drain(driver)
        assert (failed.kind, failed.failed, failed.subject) == (TransactionKind.BIND, True, bound.sequence)
        driver.program.release(bound.sequence)
        driver.program.audit()
        if not takes_over:
            assert driver.program.occupancy() == before
    assert driver.program.occupancy().free == driver.program.occupancy().capacity


@pytest.mark.parametrize("takes_over", [True, False])
def test_a_cancelled_restore_is_waited_for_and_others_go_on(takes_over: bool) -> None:
    """[L1], [L3]: what drains blocks nobody, and its pages belong to whoever still has the history."""
    driver = make_driver(late=6, seed=5)
    tokens = list(range(200))
    end = make_end(driver, tokens)
    demote_all(driver, Pool.STATE)
    demote_all(driver, MAIN)
    prompt = make_prompt([*tokens, 1])
    quote = driver.program.quote_source(prompt, end, takes_over=takes_over, first_unit_tokens=1)
    assert quote is not None
    bound = driver.program.bind(quote, prompt, LaneId(0))
    assert isinstance(bound, Bound)
    assert driver.program.transaction_open
    driver.program.release(bound.sequence)
    assert not driver.program.transaction_open
    if takes_over:
        go_on(driver, list(range(40)), make_end(driver, list(range(40))), takes_over=False)
    else:
        go_on(driver, tokens, end, takes_over=False)
    for _ in range(20):
        driver.program.poll()
        driver.program.audit()


def test_an_input_point_with_a_replica_stays_on_the_host_while_its_slot_moves_on() -> None:
    """[F3]: few device slots; the old identity lives on the host, the slot passes to the active one."""
    driver = make_driver(slots=2)
    prompt = make_prompt(list(range(150)), [100])
    bound = driver.start(prompt)
    assert isinstance(bound, Bound)
    point = driver.prefill(bound.sequence, 150, capture_at=100)
    assert point is not None
    driver.program.release(bound.sequence)
    (action,) = driver.program.list_demote_actions(Pool.STATE)
    assert driver.program.demote(action, keeps_device=True) == Demoting(Amounts(), Amounts())
    assert drain(driver) == [TransactionEnd(TransactionKind.DEMOTION, False, Amounts())]
    assert driver.program.occupancy().free == Amounts(state=1, main_kv=18, host=7 * IMAGE)
    bound = driver.start(make_prompt(list(range(105))), point, takes_over=True, gives_up_point=True)
    assert isinstance(bound, Bound)
    assert point in bound.carried
    assert bound.consumed == ()
    assert driver.program.occupancy().free == Amounts(state=1, main_kv=18, host=7 * IMAGE)
    driver.prefill(bound.sequence, 5)
    driver.program.release(bound.sequence)
    go_on(driver, list(range(100)), point, takes_over=True)


def test_a_stale_action_is_refused() -> None:
    """[V-14]"""
    driver = make_driver()
    make_end(driver, list(range(100)))
    (action,) = driver.program.list_demote_actions(Pool.STATE)
    make_end(driver, list(range(50, 100)))
    with pytest.raises(AssertionError, match="V-14"):
        driver.program.demote(action)


def test_one_transaction_at_a_time() -> None:
    """[L1], [V-07]"""
    driver = make_driver()
    make_end(driver, list(range(100)))
    (action,) = driver.program.list_demote_actions(Pool.STATE)
    driver.program.demote(action)
    assert driver.program.transaction_open
    (again,) = driver.program.list_demote_actions(MAIN)
    with pytest.raises(AssertionError, match="V-07"):
        driver.program.demote(again)


def test_groups_of_one_pool_leave_in_one_transaction() -> None:
    """[I7]: in reclaim order, each page once, cut at what is wanted; what comes back is what left."""
    driver = make_driver(pages=40)
    histories = [[seed * 100 + index for index in range(length)] for seed, length in ((1, 320), (2, 200), (3, 64))]
    ends = [make_end(driver, tokens) for tokens in histories]
    actions = driver.program.list_demote_actions(MAIN)
    assert [action.frees.main_kv for action in actions] == [5, 4, 1]
    outcome = driver.program.demote_batch(actions, 7)
    assert outcome == Demoting(Amounts(), Amounts(main_kv=7))
    (end,) = drain(driver)
    assert (end.kind, end.freed) == (TransactionKind.DEMOTION, Amounts(main_kv=7))
    left = driver.program.list_demote_actions(MAIN)
    assert [action.frees.main_kv for action in left] == [2, 1], "the deepest pages of the second history went"
    assert driver.program.demote_batch(left, 100) == Demoting(Amounts(), Amounts(main_kv=3))
    drain(driver)
    assert driver.program.occupancy().free.main_kv == 40
    for tokens, point in zip(histories, ends, strict=True):
        go_on(driver, tokens, point, takes_over=False)


def test_a_batch_is_cut_where_the_host_ends_and_frees_at_once_what_has_its_replica() -> None:
    """[I7], [I6], [C4]: no hole, no page of a later group before one of an earlier; without room nothing changes."""
    driver = make_driver(pages=40, host=6 * PAGE)
    ends = [make_end(driver, [seed * 100 + index for index in range(256)]) for seed in (1, 2)]
    first, second = driver.program.list_demote_actions(MAIN)
    driver.program.demote(second, most=2, keeps_device=True)
    drain(driver)
    first, second = driver.program.list_demote_actions(MAIN)
    assert (first.moved_bytes, second.moved_bytes) == (4 * PAGE, 2 * PAGE)
    assert driver.program.demote_batch([second, first], 8) == Demoting(Amounts(main_kv=2), Amounts(main_kv=4))
    drain(driver)
    (rest,) = driver.program.list_demote_actions(MAIN)
    assert (rest.points, rest.frees) == ((ends[0],), Amounts(main_kv=2)), "its deepest pages went"
    before = driver.program.occupancy()
    shortfall = driver.program.demote_batch([rest], 2)
    assert isinstance(shortfall, Shortfall)
    assert shortfall.pool is Pool.HOST
    assert driver.program.occupancy() == before
    assert not driver.program.transaction_open


def test_a_batch_of_another_epoch_is_refused_whole() -> None:
    """[I7], [V-14]: one stale group, and nothing of the batch is begun."""
    driver = make_driver(pages=40)
    for seed in (1, 2):
        make_end(driver, [seed * 100 + index for index in range(128)])
    stale = driver.program.list_demote_actions(MAIN)[0]
    make_end(driver, list(range(64)))
    fresh = driver.program.list_demote_actions(MAIN)[1]
    before = driver.program.occupancy()
    with pytest.raises(AssertionError, match="V-14"):
        driver.program.demote_batch([fresh, stale], 4)
    assert driver.program.occupancy() == before
    assert not driver.program.transaction_open


def test_a_deletion_adds_nothing_where_all_that_it_frees_has_left() -> None:
    """[I7]: told by physical pages; a page that others keep would not come free, and a deeper one has not left."""
    driver = make_driver(pages=40, slots=6)
    trunk = list(range(192))
    root = make_end(driver, trunk)
    tokens = [*trunk, *range(500, 564)]
    bound = bind(driver, tokens, root)
    driver.prefill(bound.sequence, len(tokens) - bound.frontier)
    leaf = driver.program.freeze_end(bound.sequence)
    by_points = {action.points: action for action in driver.program.list_demote_actions(MAIN)}
    tail, shared = by_points[(leaf,)], by_points[(root, leaf)]
    deletions = {action.points: action for action in driver.program.list_delete_actions(MAIN)}
    assert driver.program.covers([tail], deletions[(leaf,)]), "the trunk stays for its own end"
    assert not driver.program.covers([shared], deletions[(leaf,)])
    both = next(action for points, action in deletions.items() if set(points) == {root, leaf})
    assert not driver.program.covers([tail], both)
    assert driver.program.covers([tail, shared], both)


@pytest.mark.parametrize("takes_over", [True, False])
@pytest.mark.parametrize("length", [100, 128])
def test_a_chunk_may_land_before_the_copies_that_it_followed_are_told(length: int, takes_over: bool) -> None:
    """[decision 2], [L2]: completions in any order; the bind is settled first, and both are whole."""
    driver = make_driver(late=0)
    tokens = list(range(length))
    end = make_end(driver, tokens)
    demote_all(driver, Pool.STATE)
    demote_all(driver, MAIN)
    prompt = [*tokens, *range(300, 350)]
    poll = driver.device.poll
    driver.device.poll = lambda: list(reversed(poll()))  # type: ignore[method-assign]
    quote = driver.program.quote_source(make_prompt(prompt), end, takes_over=takes_over, first_unit_tokens=50)
    assert quote is not None
    bound = driver.program.bind(quote, make_prompt(prompt), LaneId(0))
    assert isinstance(bound, Bound)
    assert driver.program.may_start(bound.sequence)
    driver.program.submit([], PrefillTurn(bound.sequence, 50))
    with pytest.raises(AssertionError, match="turn at a time"):
        driver.program.submit([], PrefillTurn(bound.sequence, 50))
    assert [type(event) for event in driver.program.poll()] == [BindDone, PrefillDone]
    driver.program.audit()
    assert driver.generate(bound.sequence, 3) == expected_tokens(prompt, 3, vocab_tokens=1000)
    driver.program.release(bound.sequence)
