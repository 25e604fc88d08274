"""Main and MTP have frontiers of their own: an MTP entry waits for the token after it."""

from __future__ import annotations

import pytest
from host_rig import drain

from ninfer.base.frontier import backend_frontier
from ninfer.base.ids import Handle
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import Bound
from ninfer.program.program import Program
from ninfer.sim.chain import expected_tokens
from ninfer.sim.device import SimDevice
from ninfer.sim.driver import Driver, make_prompt

MAIN, MTP, DFLASH = Pool.MAIN_KV, Pool.MTP_KV, Pool.DFLASH_KV


def make_driver(*, pages: int = 8, mtp_pages: int = 8, host: int = 0) -> Driver:
    device = SimDevice(slots=4, pages={MAIN: pages, MTP: mtp_pages, DFLASH: pages}, check_every=1, host_bytes=host)
    driver = Driver(device)
    driver.program = Program(device, device)
    return driver


def start(driver: Driver, tokens: list[int], point: Handle | None = None, *, takes_over: bool = False) -> Handle:
    bound = driver.start(make_prompt(tokens), point, takes_over=takes_over)
    assert isinstance(bound, Bound)
    driver.prefill(bound.sequence, len(tokens) - bound.frontier)
    return bound.sequence


def taken(driver: Driver) -> Amounts:
    occupancy = driver.program.occupancy()
    return occupancy.capacity - occupancy.free


def test_frontiers_are_read_apart() -> None:
    """[D7]"""
    assert [backend_frontier(pool, 64) for pool in (MAIN, MTP, DFLASH)] == [64, 63, 64]
    assert backend_frontier(MTP, 0) == 0


def test_a_unit_takes_of_each_pool_what_that_backend_needs() -> None:
    """[C6], [V-06]: the 65th token opens a page of Main, the 66th one of MTP."""
    driver = make_driver()
    sequence = start(driver, list(range(65)))
    assert (taken(driver).main_kv, taken(driver).mtp_kv, taken(driver).dflash_kv) == (2, 1, 2)
    driver.draw(sequence, decode=False)
    driver.draw(sequence, decode=True)
    assert (taken(driver).main_kv, taken(driver).mtp_kv) == (2, 2)


def test_all_typed_pools_of_a_unit_or_none() -> None:
    """[C6], [V-04]: one backend's shortage is named, and nothing of the others is kept."""
    driver = make_driver(mtp_pages=1)
    sequence = start(driver, list(range(65)))
    driver.draw(sequence, decode=False)
    before = driver.program.occupancy()
    shortfall = driver.program.reserve_decode(sequence)
    assert shortfall == Shortfall(MTP, 1, 0)
    assert driver.program.occupancy() == before


@pytest.mark.parametrize("length", [63, 64, 65, 66, 128])
@pytest.mark.parametrize("host", [0, 8 << 20])
def test_branches_at_page_ends_have_their_own_bridge(length: int, host: int) -> None:
    """[D9], [F2]: where Main ends on a page MTP does not; each branch writes the entry that its own token completes."""
    driver = make_driver(host=host)
    tokens = list(range(100, 100 + length))
    end = driver.program.freeze_end(start(driver, tokens))
    if host:
        for pool in (Pool.STATE, MAIN, MTP, DFLASH):
            while actions := driver.program.list_demote_actions(pool):
                assert not isinstance(driver.program.demote(actions[0]), Shortfall)
                drain(driver)
        assert taken(driver).mtp_kv == 0
    for salt in (1, 2):
        prompt = [*tokens, salt, 7, 8]
        sequence = start(driver, prompt, end, takes_over=salt == 2)
        assert driver.generate(sequence, 4) == expected_tokens(prompt, 4, vocab_tokens=1000)
        driver.program.release(sequence)
    assert driver.program.list_points() == []


def test_a_resume_takes_its_whole_destination_or_nothing() -> None:
    """[L4], [C9]: a snapshot that does not fit by one page changes nothing, and waits; with the page it is whole."""
    driver = make_driver(pages=4, mtp_pages=4, host=8 << 20)
    tokens = list(range(200, 350))
    sequence = start(driver, tokens)
    snapshot = driver.program.pause(sequence)
    assert isinstance(snapshot, Handle)
    drain(driver)
    assert taken(driver) == Amounts(host=taken(driver).host)
    other = start(driver, list(range(100)))
    before = driver.program.occupancy()
    outcome = driver.start(make_prompt(tokens), snapshot, takes_over=True, first_unit_tokens=1)
    assert isinstance(outcome, Shortfall)
    assert driver.program.occupancy() == before
    assert snapshot in driver.program.list_points()
    driver.program.release(other)
    bound = driver.start(make_prompt(tokens), snapshot, takes_over=True, first_unit_tokens=1)
    assert isinstance(bound, Bound)
    assert driver.generate(bound.sequence, 3) == expected_tokens(tokens, 3, vocab_tokens=1000)
