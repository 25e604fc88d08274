"""Pause by Snapshot, and captures on the host: what a request leaves there is what it goes on from."""

from __future__ import annotations

import pytest
from host_rig import IMAGE, MAIN, PAGE, bind, drain, go_on, make_driver, make_end

from ninfer.base.ids import Handle
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import Bound, CaptureRequest, Demoting, HandOver, PointKind
from ninfer.ports.transactions import TransactionEnd, TransactionKind
from ninfer.sim.chain import expected_tokens
from ninfer.sim.driver import Driver, make_prompt


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
