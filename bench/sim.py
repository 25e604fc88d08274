"""Simulated worlds, audits and oracle included: how many engine cycles one core turns in a second."""

from __future__ import annotations

from time import process_time

from bench.table import Row
from ninfer.sim.counts import Counts
from ninfer.sim.main import run_seed
from ninfer.sim.spec import draw_world
from ninfer.sim.world import World

SEEDS = range(1, 61)
LANES = 4
CI_SEEDS = 300
CI_CPU_S = 240.0
"""Two minutes of two cores."""


def measure() -> list[Row]:
    """Seconds are of the processor, so that work beside it does not count."""
    total = Counts()
    start = process_time()
    for seed in SEEDS:
        total.add(run_seed(seed).counts)
    used_s = process_time() - start
    rate, ci_s = total.cycles / used_s, used_s / len(SEEDS) * CI_SEEDS
    four_lane = _measure_lanes(LANES)
    return [
        Row("engine cycles, all worlds", rate, "cycles/s", ">= 1,000", rate >= 1000),
        Row(f"engine cycles, worlds of {LANES} lanes", four_lane, "cycles/s", ">= 1,000", four_lane >= 1000),
        Row(f"{CI_SEEDS} seeds, each request alone in one of ten", ci_s, "s of CPU", "<= 240", ci_s <= CI_CPU_S),
    ]


def _measure_lanes(lanes: int) -> float:
    cycles = 0
    start = process_time()
    for seed in SEEDS:
        spec = draw_world(seed)
        if spec.lanes == lanes:
            world = World(spec)
            world.run()
            cycles += world.counts.cycles
    return cycles / (process_time() - start)
