"""What each kind of unit takes from the pools, and what its commit leaves [C6]."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ninfer.base.ids import Handle
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import Bound, ControlTurn, DecodeTurn, DrawTurn, NormalizeDone, NormalizeTurn, RunDone
from ninfer.sim.chain import expected_tokens
from ninfer.sim.device import SimDevice, SimFaults
from ninfer.sim.driver import GREEDY, Driver, make_prompt

PAGE = 64
POOLS = (Pool.MAIN_KV, Pool.MTP_KV, Pool.DFLASH_KV)


def pages(tokens: int) -> Amounts:
    """Of a history that the model was fed so far: the MTP layer waits for the token after [D9]."""
    main, mtp = -(-tokens // PAGE), -(-max(0, tokens - 1) // PAGE)
    return Amounts(main_kv=main, mtp_kv=mtp, dflash_kv=main)


def start(prompt: list[int], *, pool_pages: int = 6, longest_run: int = 1, late: int = 2) -> tuple[Driver, Handle]:
    device = SimDevice(
        slots=3,
        pages=dict.fromkeys(POOLS, pool_pages),
        faults=SimFaults(seed=1, delay_polls=late),
        check_every=1,
        longest_run=longest_run,
        run_ahead_slots=1,
    )
    driver = Driver(device)
    bound = driver.start(make_prompt(prompt), first_unit_tokens=len(prompt))
    assert isinstance(bound, Bound)
    driver.prefill(bound.sequence, len(prompt))
    return driver, bound.sequence


def turn(driver: Driver, sequence: Handle, work: DecodeTurn) -> list[int]:
    """One turn up to its landing; the run that it gave."""
    driver.program.submit([work], None)
    done = driver.settle(sequence)
    return [token for event in done if isinstance(event, RunDone) for token in event.run.token_ids]


def take(driver: Driver, reserve: Callable[[Handle], Shortfall | None], sequence: Handle) -> Amounts:
    before = driver.program.occupancy().free
    assert reserve(sequence) is None
    return before - driver.program.occupancy().free


@pytest.mark.parametrize("length", [62, 63, 64, 65, 127, 128])
def test_each_kind_of_unit_costs_the_pages_that_its_tokens_open(length: int) -> None:
    """[C6] in every pool by that backend's own frontier: a decode feeds the token that waits, control feeds it and not
    the one that it says, and the speculative peak of a drawn run is counted from where everything committed ends."""
    driver, sequence = start(list(range(length)))
    program, have = driver.program, pages(length)
    assert take(driver, program.reserve_control, sequence) == Amounts(), "the first token is said without any feeding"
    run = turn(driver, sequence, ControlTurn(sequence, 7))
    assert run == [7]
    before = program.occupancy().free
    assert program.run_ahead([sequence]) == 1
    assert before - program.occupancy().free == pages(length + 1) - have, "a launch ahead covers the whole run"
    program.commit_run(sequence, 0)
    for _ in range(8):
        program.poll()
    assert program.occupancy().free == before, "a launch that was dropped gives its pages back"
    assert turn(driver, sequence, ControlTurn(sequence, 7)) == [7]
    program.commit_run(sequence, 1)
    assert take(driver, program.reserve_control, sequence) == pages(length + 1) - have
    assert take(driver, program.reserve_decode, sequence) == Amounts(), "a decode reaches no further"
    said = turn(driver, sequence, DrawTurn(sequence, True, GREEDY, 0.0))
    assert said == expected_tokens([*range(length), 7], 1, vocab_tokens=1000)


def test_a_token_that_is_said_goes_on_like_one_that_was_drawn() -> None:
    """[C6] [J1] [K4]: the row asks for its decode in the next cycle, and what follows depends on what was said."""
    driver, sequence = start(list(range(60)))
    history = list(range(60))
    for step in range(12):
        pending = step > 0
        if step % 3 == 1:
            assert driver.program.reserve_control(sequence) is None
            run = turn(driver, sequence, ControlTurn(sequence, 500 + step))
            assert run == [500 + step]
        else:
            assert not pending or driver.program.reserve_decode(sequence) is None
            run = turn(driver, sequence, DrawTurn(sequence, pending, GREEDY, 0.0))
            assert run == expected_tokens(history, 1, vocab_tokens=1000)
        driver.program.commit_run(sequence, 1)
        history += run
    end = driver.program.freeze_end(sequence)
    assert driver.program.point_frontier(end) == len(history) - 1


@pytest.mark.parametrize("late", [0, 3])
@pytest.mark.parametrize("is_ahead", [False, True])
def test_normalising_leaves_one_token_to_feed(late: int, is_ahead: bool) -> None:
    """[C6] [K2] [D8]: of a longer run all but the last token are fed, or all where a launch ahead has done so; nothing
    that is said afterwards changes."""
    driver, sequence = start(list(range(60)), longest_run=8, late=late)
    history = list(range(60))
    left = seen = 0
    for _ in range(12):
        assert not left or driver.program.reserve_decode(sequence) is None
        run = turn(driver, sequence, DrawTurn(sequence, left > 0, GREEDY, 0.0))
        assert run == expected_tokens(history, len(run), vocab_tokens=1000)
        launched = driver.program.run_ahead([sequence]) if is_ahead else 0
        driver.program.commit_run(sequence, len(run))
        history += run
        left = len(run)
        if driver.program.is_normal(sequence):
            continue
        seen += 1
        took = take(driver, driver.program.reserve_normalize, sequence)
        assert took == (Amounts() if launched else pages(len(history) - 1) - pages(len(history) - len(run)))
        driver.program.submit([NormalizeTurn(sequence)], None)
        (done,) = (event for event in driver.settle(sequence) if isinstance(event, NormalizeDone))
        left = len(history) - done.frontier
        assert left == (0 if launched else 1)
        assert driver.program.is_normal(sequence)
    assert seen
