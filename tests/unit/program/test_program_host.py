"""Demotion, snapshot and restore over the simulated device, whose host blocks are compared when they come back."""

from __future__ import annotations

import pytest

from ninfer.base.ids import Handle, LaneId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import (
    Bound,
    CaptureRequest,
    Demoting,
    HandOver,
    PointKind,
    TransactionEnd,
    TransactionKind,
)
from ninfer.program.program import Program
from ninfer.sim.chain import expected_tokens
from ninfer.sim.device import SimDevice, SimFaults
from ninfer.sim.driver import Driver, make_prompt

PAGE = 64 * 1024
IMAGE = 1024 * 1024
MAIN = Pool.MAIN_KV


def make_driver(
    *, slots: int = 4, pages: int = 20, host: int = 8 * IMAGE, late: int = 2, failures: float = 0.0, seed: int = 1
) -> Driver:
    faults = SimFaults(seed, late, host_failures=failures)
    device = SimDevice(slots=slots, pages={MAIN: pages}, faults=faults, check_every=1, host_bytes=host)
    driver = Driver(device)
    driver.program = Program(device, device)
    return driver


def drain(driver: Driver) -> list[TransactionEnd]:
    """Poll until no transaction is under way."""
    for _ in range(50):
        driver.program.poll()
        driver.program.audit()
        if not driver.program.transaction_open:
            break
    return driver.program.collect_ends()


def bind(driver: Driver, tokens: list[int], point: Handle | None, *, takes_over: bool = False) -> Bound:
    bound = driver.start(make_prompt(tokens), point, takes_over=takes_over)
    assert isinstance(bound, Bound)
    return bound


def make_end(driver: Driver, tokens: list[int]) -> Handle:
    bound = bind(driver, tokens, None)
    driver.prefill(bound.sequence, len(tokens))
    return driver.program.freeze_end(bound.sequence)


def go_on(driver: Driver, tokens: list[int], point: Handle, *, takes_over: bool) -> None:
    """Continue from the point and compare with the closed form (V-15)."""
    prompt = [*tokens, 1, 2, 3]
    bound = bind(driver, prompt, point, takes_over=takes_over)
    driver.prefill(bound.sequence, len(prompt) - bound.frontier)
    assert driver.generate(bound.sequence, 5) == expected_tokens(prompt, 5, vocab_tokens=1000)
    driver.program.release(bound.sequence)


def demote_all(driver: Driver, pool: Pool) -> int:
    """Every action of a pool, one after another; returns how many there were."""
    count = 0
    while actions := driver.program.list_demote_actions(pool):
        before = driver.program.occupancy().free
        outcome = driver.program.demote(actions[0])
        assert isinstance(outcome, Demoting)
        drain(driver)
        gained = driver.program.occupancy().free - before
        assert gained[pool] == actions[0].frees[pool]
        count += 1
    return count


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


@pytest.mark.parametrize("draws", [0, 1, 70])
def test_a_snapshot_goes_on_as_if_nothing_had_been(draws: int) -> None:
    """[K1], [K2], [K4]: in the prompt or after it, everything unique leaves the device and comes back."""
    driver = make_driver()
    tokens = list(range(150))
    prompt = make_prompt(tokens)
    bound = driver.start(prompt)
    assert isinstance(bound, Bound)
    driver.prefill(bound.sequence, 150 if draws else 90)
    drawn = driver.generate(bound.sequence, draws)
    snapshot = driver.program.pause(bound.sequence)
    assert isinstance(snapshot, Handle)
    with pytest.raises(AssertionError, match="V-13"):
        driver.program.in_flight(bound.sequence)
    (end,) = drain(driver)
    pages = -(-driver.program.point_frontier(snapshot) // 64)
    assert end == TransactionEnd(TransactionKind.PAUSE, False, Amounts(state=1, main_kv=pages), snapshot)
    assert driver.program.occupancy().free == Amounts(state=4, main_kv=20, host=7 * IMAGE - pages * PAGE)
    assert driver.program.list_delete_actions(MAIN) == [], "K3: a snapshot ends by revocation alone"
    again = bind(driver, list(prompt.tokens), snapshot, takes_over=True)
    assert again.frontier == (149 + draws if draws else 90)
    assert snapshot in again.consumed
    assert driver.program.occupancy().free.host >= 7 * IMAGE, "the image is given up once it is back"
    driver.prefill(again.sequence, len(prompt.tokens) - again.frontier)
    drawn += driver.generate(again.sequence, 5)
    assert drawn == expected_tokens(tokens, draws + 5, vocab_tokens=1000)


def test_a_snapshot_copies_only_what_is_unique() -> None:
    """[K2]: pages that another history has stay on the device."""
    driver = make_driver()
    trunk = list(range(128))
    root = make_end(driver, trunk)
    bound = bind(driver, [*trunk, 1, 2], root)
    driver.prefill(bound.sequence, 2)
    snapshot = driver.program.pause(bound.sequence)
    assert isinstance(snapshot, Handle)
    (end,) = drain(driver)
    assert end.freed == Amounts(state=1, main_kv=1)
    assert driver.program.occupancy().free.host == 7 * IMAGE - PAGE


def test_a_request_paused_before_its_first_unit_shares_its_source() -> None:
    """[D9], [K2]: nothing unique is left to copy but the tail."""
    driver = make_driver()
    tokens = list(range(100))
    root = make_end(driver, tokens)
    bound = bind(driver, [*tokens, 1], root)
    snapshot = driver.program.pause(bound.sequence)
    assert isinstance(snapshot, Handle)
    (end,) = drain(driver)
    assert end.freed == Amounts(main_kv=1)
    go_on(driver, tokens, snapshot, takes_over=True)


def test_without_room_a_pause_changes_nothing() -> None:
    """[K2]: the caller pauses destructively then."""
    driver = make_driver(host=IMAGE + PAGE)
    bound = bind(driver, list(range(150)), None)
    driver.prefill(bound.sequence, 150)
    before = driver.program.occupancy()
    assert isinstance(driver.program.pause(bound.sequence), Shortfall)
    assert driver.program.occupancy() == before
    assert driver.generate(bound.sequence, 3) == expected_tokens(list(range(150)), 3, vocab_tokens=1000)


@pytest.mark.parametrize("while_copying", [True, False])
def test_a_revoked_snapshot_leaves_nothing_and_input_points_stay(while_copying: bool) -> None:
    """[K3], [L3]"""
    driver = make_driver()
    prompt = make_prompt(list(range(150)), [100])
    bound = driver.start(prompt)
    assert isinstance(bound, Bound)
    point = driver.prefill(bound.sequence, 150, capture_at=100)
    assert point is not None
    snapshot = driver.program.pause(bound.sequence)
    assert isinstance(snapshot, Handle)
    if not while_copying:
        drain(driver)
    driver.program.revoke_snapshot(snapshot)
    assert not driver.program.transaction_open
    for _ in range(8):
        driver.program.poll()
        driver.program.audit()
    free = driver.program.occupancy().free
    assert (free.state, free.main_kv) == ((3, 18) if while_copying else (3, 20))
    go_on(driver, list(range(100)), point, takes_over=True)


def test_a_failed_pause_leaves_the_snapshot_on_the_device() -> None:
    """[L3]: it resumes from there, or is revoked."""
    driver = make_driver(failures=1.0)
    tokens = list(range(150))
    bound = bind(driver, tokens, None)
    driver.prefill(bound.sequence, 150)
    snapshot = driver.program.pause(bound.sequence)
    assert isinstance(snapshot, Handle)
    assert drain(driver) == [TransactionEnd(TransactionKind.PAUSE, True, Amounts(), snapshot)]
    again = driver.program.quote_source(make_prompt(tokens), snapshot, takes_over=True, first_unit_tokens=1)
    assert again is not None
    assert again.hand_over is HandOver.MOVE
    go_on(driver, tokens, snapshot, takes_over=True)


def test_nobody_else_starts_from_a_snapshot_or_takes_over_its_history() -> None:
    """[F1], [K1]"""
    driver = make_driver()
    prompt = make_prompt(list(range(150)), [100])
    bound = driver.start(prompt)
    assert isinstance(bound, Bound)
    point = driver.prefill(bound.sequence, 150, capture_at=100)
    snapshot = driver.program.pause(bound.sequence)
    assert isinstance(snapshot, Handle)
    drain(driver)
    ask = make_prompt(list(range(160)))
    assert driver.program.quote_source(ask, snapshot, takes_over=False, first_unit_tokens=1) is None
    quote = driver.program.quote_source(ask, point, takes_over=True, first_unit_tokens=1)
    assert quote is not None
    assert not quote.takes_over


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


def host_capture(driver: Driver, *, retires: bool = False) -> tuple[Handle, Handle | None]:
    """A sequence whose state stands at an execution frontier, and the point there that is outdated."""
    bound = driver.start(make_prompt(list(range(150)), [64, 100]))
    assert isinstance(bound, Bound)
    old = driver.prefill(bound.sequence, 64, capture_at=64) if retires else None
    driver.prefill(bound.sequence, 100 - (64 if retires else 0))
    return bound.sequence, old


def test_a_state_is_captured_on_the_host_where_no_slot_is_to_be_had() -> None:
    """[E2], [V-05]: visible once it has landed, and a source like any other."""
    driver = make_driver(slots=1)
    sequence, _ = host_capture(driver)
    capture = CaptureRequest(100, PointKind.INPUT_POINT)
    assert isinstance(driver.program.reserve_capture(sequence, CaptureRequest(150, capture.kind), None), Shortfall)
    assert driver.program.capture_on_host(sequence, capture, None) is None
    assert driver.program.in_flight(sequence), "V-03: the state is being read"
    assert len(driver.program._stores.checkpoints) == 0
    (end,) = drain(driver)
    assert end.kind is TransactionKind.CAPTURE
    assert end.subject is not None
    driver.prefill(sequence, 50)
    assert driver.generate(sequence, 3) == expected_tokens(list(range(150)), 3, vocab_tokens=1000)
    driver.program.release(sequence)
    assert driver.program.occupancy().free == Amounts(state=1, main_kv=18, host=7 * IMAGE)
    go_on(driver, list(range(100)), end.subject, takes_over=True)


@pytest.mark.parametrize("how", ["fails", "released"])
def test_a_capture_that_fails_or_is_not_wanted_leaves_nothing(how: str) -> None:
    """[E3], [L3]: the request goes on, or ends when the reader is done."""
    driver = make_driver(slots=1, failures=float(how == "fails"))
    sequence, _ = host_capture(driver)
    assert driver.program.capture_on_host(sequence, CaptureRequest(100, PointKind.INPUT_POINT), None) is None
    if how == "released":
        driver.program.release(sequence)
        assert not driver.program.transaction_open
        for _ in range(5):
            driver.program.poll()
            driver.program.audit()
        assert driver.program.occupancy().free == driver.program.occupancy().capacity
        return
    assert drain(driver) == [TransactionEnd(TransactionKind.CAPTURE, True, Amounts())]
    assert driver.program.occupancy().free.host == 8 * IMAGE
    driver.prefill(sequence, 50)
    assert driver.generate(sequence, 3) == expected_tokens(list(range(150)), 3, vocab_tokens=1000)


def test_an_outdated_point_gives_its_room_to_the_new_one_or_stays() -> None:
    """[D6], [E2], [V-04]"""
    driver = make_driver(slots=3, host=IMAGE)
    sequence, old = host_capture(driver, retires=True)
    assert old is not None
    (action,) = driver.program.list_demote_actions(Pool.STATE)
    assert isinstance(driver.program.demote(action), Demoting)
    drain(driver)
    capture = CaptureRequest(100, PointKind.INPUT_POINT)
    assert driver.program.occupancy().free.host == 0
    assert driver.program.capture_on_host(sequence, capture, old) is None
    (end,) = drain(driver)
    assert end.subject is not None
    assert driver.program.point_frontier(end.subject) == 100
    with pytest.raises(AssertionError, match="V-13"):
        driver.program.point_frontier(old)
