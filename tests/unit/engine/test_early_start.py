"""A first chunk behind a restore under way: it starts on the layers that are there, and changes nothing else."""

from __future__ import annotations

import pytest
from sim_engine import SimEngine, filler

from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Pool
from ninfer.ports.device import UnitBatch, UnitKind
from ninfer.ports.output import Finished
from ninfer.sim.device import SIM_STATE_BYTES, SimFaults

PLENTY = 32 * SIM_STATE_BYTES
LATE = SimFaults(seed=3, delay_polls=1, delay_copy_polls=60)


def make_engine(faults: SimFaults = LATE, *, lanes: int = 1) -> SimEngine:
    pools = (Pool.MAIN_KV, Pool.MTP_KV)
    return SimEngine(lanes=lanes, slots=3 * lanes, pages=16, max_context=512, host=PLENTY, faults=faults, pools=pools)


def leave_on_host(engine: SimEngine, history: list[int]) -> None:
    """One finished turn whose content is on the host alone."""
    caller = engine.ask(history, 6)
    history += caller.tokens
    program = engine.program
    for pool in (Pool.STATE, Pool.MAIN_KV, Pool.MTP_KV):
        while actions := program.list_demote_actions(pool):
            assert not isinstance(program.demote(actions[0]), Shortfall)
            while program.transaction_open:
                engine.turn()
            program.collect_ends()
    assert program.occupancy().free.main_kv == 16


def count_early(engine: SimEngine) -> list[int]:
    """Fills up with the number of transfers that each unit follows, where it follows any."""
    seen: list[int] = []
    submit = engine.device.submit_unit

    def spy(batch: UnitBatch, after: tuple[int, ...] = ()) -> int:
        if after:
            assert batch.kind in (UnitKind.PREFILL, UnitKind.REPLAY)
            seen.append(len(after))
        return submit(batch, after)  # type: ignore[arg-type]

    engine.device.submit_unit = spy  # type: ignore[method-assign, assignment]
    return seen


@pytest.mark.parametrize("length", [100, 128, 200])
@pytest.mark.parametrize("more", [1, 30, 150])
def test_the_first_chunk_follows_the_copies(length: int, more: int) -> None:
    """[decision 2] [decision 18] [C9]: submitted while the restore is under way, whether it ends inside a page or not;
    the transfer's own end is told first, and what is said is what a cold run says."""
    engine = make_engine()
    history = filler(length, 1)
    leave_on_host(engine, history)
    seen = count_early(engine)
    again = engine.ask([*history, *filler(more, 2)], 5)
    again.check_output()
    assert again.start.cached_tokens == len(history) - 1
    assert len(seen) == 1
    engine.state.audit()
    third = engine.ask([*history, *filler(more, 2), *again.tokens, 7], 3)
    third.check_output()


def test_nobody_who_decodes_is_held_up() -> None:
    """[J6] [J7]: the device runs units in order; while another lane decodes, the chunk waits for its copies instead."""
    engine = make_engine(lanes=2)
    history = filler(150, 1)
    leave_on_host(engine, history)
    other = engine.submit(filler(40, 5), 60)
    while not other.tokens:
        engine.turn()
    seen = count_early(engine)
    again = engine.submit([*history, 1, 2], 4)
    engine.run()
    assert not seen
    again.check_output()
    other.check_output()


@pytest.mark.parametrize("seed", range(6))
def test_a_copy_that_fails_takes_the_chunk_with_it(seed: int) -> None:
    """[L3] [V-03]: the chunk computes nothing, its targets stay its own until it has landed, and the request computes
    again what it was to find."""
    engine = make_engine()
    history = filler(150, 1)
    leave_on_host(engine, history)
    seen = count_early(engine)
    engine.device._faults = SimFaults(seed, delay_polls=seed % 3, delay_copy_polls=50 + seed, host_failures=1.0)
    again = engine.ask([*history, 1, 2], 4)
    again.check_output()
    assert seen
    assert again.finished.timings.failed_restores == 1
    assert engine.state.counters.failed_transfers >= 1
    assert engine.program.occupancy().free.state + len(engine.program.list_points()) >= 3


@pytest.mark.parametrize("failures", [0.0, 1.0])
@pytest.mark.parametrize("after", range(1, 20))
def test_a_cancel_at_any_moment_leaves_nothing(after: int, failures: float) -> None:
    """[L3] [F4]: before, while and after the chunk follows its copies."""
    engine = make_engine()
    history = filler(150, 1)
    leave_on_host(engine, history)
    engine.device._faults = SimFaults(7, delay_polls=2, delay_copy_polls=9, host_failures=failures)
    again = engine.submit([*history, *filler(40, 2)], 3)
    assert again.handle is not None
    engine.turn(after)
    again.handle.cancel()
    engine.run()
    assert isinstance(again.end, Finished)
    engine.land()
    engine.state.audit()
    for point in engine.program.list_points():
        engine.program.discard_point(point)
    assert engine.program.occupancy().free == engine.program.occupancy().capacity
