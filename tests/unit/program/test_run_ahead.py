"""Launches ahead of their commit: adopted they are the step that would have run, dropped they never were."""

from __future__ import annotations

import pytest

from ninfer.base.ids import Handle
from ninfer.base.pools import Pool
from ninfer.ports.native import Bound, DrawTurn, RunDone
from ninfer.sim.chain import expected_tokens
from ninfer.sim.device import SimDevice, SimFaults
from ninfer.sim.driver import GREEDY, Driver, make_prompt

PROMPT = list(range(20, 83))
"""63 tokens: the second token fed opens a page."""


def make_driver(late: int, *, pages: int = 6, slots: int = 3, ahead: int = 2, longest_run: int = 1) -> Driver:
    faults = SimFaults(seed=3, delay_polls=late)
    sizes = {Pool.MAIN_KV: pages, Pool.MTP_KV: pages}
    return Driver(
        SimDevice(
            slots=slots,
            pages=sizes,
            faults=faults,
            check_every=1,
            longest_run=longest_run,
            run_ahead_slots=ahead,
            feeds_draws=True,
        )
    )


def start(driver: Driver) -> Handle:
    bound = driver.start(make_prompt(PROMPT))
    assert isinstance(bound, Bound)
    driver.prefill(bound.sequence, len(PROMPT))
    return bound.sequence


def draw(driver: Driver, sequence: Handle, *, decode: bool, behind: int = 0) -> list[int]:
    """One draw, not committed. `behind`: how many launches follow it unread."""
    if decode:
        assert driver.program.reserve_decode(sequence) is None
    turns = [DrawTurn(sequence, decode, GREEDY, 0.0)]
    is_awaited = driver.program.count_leaving() > 0  # a dropped launch still reads the active slot: none follows it
    launched = driver.program.submit(turns, None, runs_ahead=behind > 0)
    assert launched == behind or (is_awaited and launched == 0)
    (done,) = (event for event in driver.settle(sequence) if isinstance(event, RunDone))
    return list(done.run.token_ids)


def land(driver: Driver) -> None:
    for _ in range(20):
        driver.program.poll()
        driver.program.audit()


@pytest.mark.parametrize("late", [0, 4])
@pytest.mark.parametrize("longest_run", [1, 8])
def test_an_adopted_launch_is_the_step_itself(late: int, longest_run: int) -> None:
    """[V-15], [V-08]: the same tokens as step by step, over a page's end, landed or still under way; no token is fed
    twice, and neither slots nor pages are missing in the end [V-01]."""
    driver = make_driver(late, longest_run=longest_run)
    before = driver.program.occupancy()
    sequence = start(driver)
    run = draw(driver, sequence, decode=False)
    said = list(run)
    for _ in range(12):
        assert driver.program.run_ahead([sequence]) == 1
        assert driver.program.run_ahead([sequence]) == 0, "one launch ahead, no more"
        driver.program.commit_run(sequence, len(run))
        run = draw(driver, sequence, decode=True)
        said += run
    assert said == expected_tokens(PROMPT, len(said), vocab_tokens=1000)
    assert driver.device.fed_tokens == len(PROMPT) + len(said) - len(run)
    driver.program.release(sequence)
    land(driver)
    assert driver.program.occupancy() == before


@pytest.mark.parametrize("late", [0, 4])
def test_a_dropped_launch_never_was(late: int) -> None:
    """[V-15]: of a run of which less is committed nothing that was fed ahead stays: state, KV and tokens are those of
    the accepted prefix."""
    driver = make_driver(late, longest_run=8)
    sequence = start(driver)
    run = draw(driver, sequence, decode=False)
    said: list[int] = []
    for step in range(12):
        driver.program.run_ahead([sequence])
        accepted = len(run) if step % 3 else max(1, len(run) - 1)
        driver.program.commit_run(sequence, accepted)
        said += run[:accepted]
        run = draw(driver, sequence, decode=True)
    assert said == expected_tokens(PROMPT, len(said), vocab_tokens=1000)
    assert driver.device.fed_tokens > len(PROMPT) + len(said), "some launches were for nothing"


@pytest.mark.parametrize("freezes", [False, True])
def test_a_launch_under_way_keeps_what_it_reads_and_writes(freezes: bool) -> None:
    """[V-03], [L3]: its sequence ends before it lands; cells are given out again only afterwards."""
    driver = make_driver(4, pages=3)
    sequence = start(driver)
    draw(driver, sequence, decode=False)
    driver.program.commit_run(sequence, 1)
    draw(driver, sequence, decode=True)
    assert driver.program.run_ahead([sequence]) == 1
    if freezes:
        end = driver.program.freeze_end(sequence)
        assert driver.program.list_delete_actions(Pool.STATE) == []
    else:
        driver.program.release(sequence)
    assert driver.program.count_leaving() == 1
    assert driver.program.occupancy().free.main_kv == 1, "one page is read, one is written"
    driver.program.audit()
    land(driver)
    assert driver.program.count_leaving() == 0
    assert driver.program.occupancy().free.main_kv == (2 if freezes else 3)
    if freezes:
        bound = driver.start(make_prompt([*PROMPT, *expected_tokens(PROMPT, 1, vocab_tokens=1000), 5]), end)
        assert isinstance(bound, Bound)
        driver.prefill(bound.sequence, 1)


def test_a_launch_ahead_is_optional() -> None:
    """[V-04]: without a page, a slot of the lane or a drawn run there is none, and nothing has changed."""
    driver = make_driver(0, pages=1)
    sequence = start(driver)
    assert driver.program.run_ahead([sequence]) == 0, "nothing is drawn"
    draw(driver, sequence, decode=False)
    driver.program.commit_run(sequence, 1)
    draw(driver, sequence, decode=True)
    before = driver.program.occupancy()
    assert driver.program.run_ahead([sequence]) == 0, "the next token opens a page"
    assert driver.program.occupancy() == before
    plain = make_driver(0, ahead=0)
    sequence = start(plain)
    draw(plain, sequence, decode=False)
    assert plain.program.run_ahead([sequence]) == 0


@pytest.mark.parametrize("late", [0, 4])
def test_a_launch_behind_a_draw_is_the_step_itself(late: int) -> None:
    """[V-15], [V-08], [decision 5]: fed before anybody has read the draw, over a page's end, each launch reading what
    one under way still writes; nothing is fed twice, nothing is missing in the end [V-01]."""
    driver = make_driver(late)
    before = driver.program.occupancy()
    sequence = start(driver)
    said = draw(driver, sequence, decode=False, behind=1)
    for step in range(12):
        driver.program.audit()
        assert driver.program.run_ahead([sequence]) == 0, "one launch ahead, no more"
        driver.program.commit_run(sequence, 1)
        said += draw(driver, sequence, decode=True, behind=step < 11)
    assert said == expected_tokens(PROMPT, len(said), vocab_tokens=1000)
    assert driver.device.fed_tokens == len(PROMPT) + len(said) - 1
    driver.program.release(sequence)
    land(driver)
    assert driver.program.occupancy() == before


@pytest.mark.parametrize("late", [0, 4])
def test_what_a_launch_behind_a_draw_fed_stays_only_if_just_that_is_committed(late: int) -> None:
    """[V-15]: of longer runs it feeds the first token; with none or more than that committed it never was."""
    driver = make_driver(late, longest_run=8)
    sequence = start(driver)
    run = draw(driver, sequence, decode=False, behind=1)
    said: list[int] = []
    for step in range(12):
        accepted = (1, len(run), 0)[step % 3]
        driver.program.commit_run(sequence, accepted)
        driver.program.audit()
        said += run[:accepted]
        run = draw(driver, sequence, decode=accepted > 0, behind=1)
    assert said == expected_tokens(PROMPT, len(said), vocab_tokens=1000)


@pytest.mark.parametrize("late", [0, 4])
@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("ends", ["stop", "cancel", "pause"])
def test_a_launch_behind_the_last_draw_leaves_the_end_exact(late: int, steps: int, ends: str) -> None:
    """[decision 5] [K1]: however the sequence ends, at whichever step, what comes after it says what a cold run says.

    A world's device compares every state and page with the history: a byte too many would be an assertion.
    """
    driver = make_driver(late, slots=4)
    sequence = start(driver)
    said = draw(driver, sequence, decode=False, behind=1)
    for _ in range(steps):
        driver.program.commit_run(sequence, 1)
        said += draw(driver, sequence, decode=True, behind=1)
    if ends == "cancel":
        driver.program.release(sequence)
        source, kept = None, 0
    else:
        driver.program.commit_run(sequence, 1 if ends == "stop" else 0)
        source = driver.program.freeze_end(sequence)
        kept = len(PROMPT) + steps
        assert driver.program.point_frontier(source) == kept
    history = [*PROMPT, *said]
    bound = driver.start(make_prompt([*history, 7]), source)
    assert isinstance(bound, Bound)
    driver.prefill(bound.sequence, len(history) + 1 - kept)
    again = draw(driver, bound.sequence, decode=False)
    assert again == expected_tokens([*history, 7], 1, vocab_tokens=1000)
    land(driver)
