"""The engine's figures: totals are the sums of the requests' own records, and occupancy adds up (N1)."""

from __future__ import annotations

import random

import pytest
from sim_engine import Caller, SimEngine, filler

from ninfer.engine.report import EngineReport, make_report
from ninfer.ports.output import Failed, Finished


def _total(callers: list[Caller], name: str) -> int:
    ends = [caller.end for caller in callers]
    assert all(isinstance(end, Finished | Failed) for end in ends)
    return sum(getattr(end.timings, name) for end in ends if end is not None)


def _check(report: EngineReport, callers: list[Caller]) -> None:
    counters = report.counters
    assert counters["prefill_tokens"] == _total(callers, "computed_prompt_tokens")
    assert counters["replayed_tokens"] == _total(callers, "replayed_tokens")
    assert counters["pauses"] == _total(callers, "pauses")
    assert counters["snapshots"] == _total(callers, "snapshots")
    assert counters["captures"] == _total(callers, "captures")
    usages = [end.usage for end in (caller.end for caller in callers) if end is not None]
    assert counters["output_tokens"] == sum(usage.completion_tokens for usage in usages)
    assert counters["cached_tokens"] == sum(usage.cached_tokens for usage in usages)
    assert counters["finished"] + counters["cancelled"] + counters["failed"] == len(callers)
    for use in report.pools:
        assert 0 <= use.free <= use.capacity
        assert use.held >= 0
    for use in report.pools:
        assert 0 <= sum(held[use.pool] for held in report.footprints.values()) <= use.held
    assert bool(sum(report.points.values())) == any(held.state or held.host for held in report.footprints.values())


@pytest.mark.parametrize("seed", range(6))
def test_totals_are_the_sums_of_the_requests_records(seed: int) -> None:
    """[N1]: first prefill and replay apart; a cancelled request counts only what ran."""
    chance = random.Random(seed)
    engine = SimEngine(lanes=3, pages=20, max_context=640, seed=seed, delay_polls=seed % 3)
    callers: list[Caller] = []
    for number in range(14):
        prompt = filler(chance.randrange(40, 400), chance.randrange(4))
        callers.append(engine.submit(prompt, chance.randrange(1, 200), recovery=max(1, len(prompt) - 5)))
        engine.turn(chance.randrange(6))
        if number % 5 == 4:
            handle = chance.choice(callers).handle
            assert handle is not None
            handle.cancel()
    engine.run()
    _check(make_report(engine.state), callers)


def test_pauses_were_among_them() -> None:
    """Else the test above says nothing of replay."""
    engine = SimEngine(lanes=3, pages=20, max_context=640)
    callers = [engine.submit(filler(300, seed), 200) for seed in range(4)]
    engine.run()
    report = make_report(engine.state)
    assert report.counters["pauses"] > 0
    assert report.counters["replayed_tokens"] > 0
    assert report.counters["permits_lacking"] > 0
    _check(report, callers)
