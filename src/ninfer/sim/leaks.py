"""A long life in one engine: after thousands of requests with cancels and faults nothing is left of them.

Free cells and host bytes are what the world checks at its end. Here: how many objects of each record type the process
holds, and how many files it has open, before, with the idle engine, and after.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from ninfer.resource.demand import SUMMARY_ENTRIES
from ninfer.resource.explain import REMEMBERED_ENDS, REMEMBERED_PROMPTS

from .counts import Counts
from .device import SIM_PAGE_BYTES, SIM_STATE_BYTES
from .faults import Site
from .spec import WorldSpec, draw_world
from .world import World

RECORDS = tuple(
    f"ninfer.{package}"
    for package in ("base", "engine", "frontend", "ports.native", "program", "resource", "sched", "store")
)
"""Whose types are counted. What callers and the simulated device keep is theirs."""

REMEMBERED = {
    "ninfer.resource.demand._Evidence": SUMMARY_ENTRIES,
    "ninfer.resource.demand.Position": SUMMARY_ENTRIES + REMEMBERED_ENDS,
    "ninfer.resource.continuation.History": REMEMBERED_PROMPTS,
    "ninfer.base.identity.PrefixDigests": REMEMBERED_PROMPTS,
    "ninfer.base.buffers.IntBuffer": REMEMBERED_PROMPTS,
    "ninfer.program.footprints.Footprint": 1,  # the one of reused standing, opened with the first decision
}
"""What an engine keeps of those who left, on purpose and bounded: so many may be there after a life."""

REQUESTS_A_WORLD = 1000


@dataclass(frozen=True, slots=True)
class Stock:
    """What the process holds at one moment: objects by type, and open files."""

    objects: dict[str, int]
    open_files: int

    def list_differences(self, later: Stock, remembered: Mapping[str, int]) -> list[str]:
        """In words; empty when nothing has come or gone, but for what may be `remembered`."""
        names = sorted(self.objects.keys() | later.objects.keys())
        counts = ((name, self.objects.get(name, 0), later.objects.get(name, 0)) for name in names)
        words = [
            f"{name}: {before} -> {after}"
            for name, before, after in counts
            if not before <= after <= before + remembered.get(name, 0)
        ]
        if self.open_files != later.open_files:
            words.append(f"open files: {self.open_files} -> {later.open_files}")
        return words


@dataclass(frozen=True, slots=True)
class LifeReport:
    """One long life. `left`: what was there afterwards and not before, in words."""

    seed: int
    counts: Counts
    left: tuple[str, ...]


def live_long(seed: int, requests: int) -> Iterator[LifeReport]:
    """Worlds one after another, from `seed` on, until so many requests have been served. Raises WorldFailure."""
    while requests > 0:
        share = min(requests, REQUESTS_A_WORLD)
        report = run_life(stretch(draw_world(seed), share))
        yield report
        seed, requests = seed + 1, requests - share


def stretch(spec: WorldSpec, requests: int) -> WorldSpec:
    """The same world with more callers, a little slower, that never ends early; with a host arena and some faults."""
    workload = spec.workload
    arrival_cycles = spec.cycles * requests // workload.requests
    faults = replace(
        spec.faults,
        fail_submission=None,
        fail_copy=None,
        fail_landing=None,
        cancelled_share=max(0.1, spec.faults.cancelled_share),
        host_failures=max(0.1, spec.faults.host_failures),
        refused={site: max(0.1, spec.faults.refused.get(site, 0.0)) for site in Site},
    )
    return replace(
        spec,
        cycles=100 * requests + 20 * arrival_cycles,
        max_queue=requests,
        host_bytes=spec.host_bytes or spec.lanes * SIM_STATE_BYTES + sum(spec.pages.values()) * SIM_PAGE_BYTES,
        workload=replace(workload, requests=requests, arrival_cycles=arrival_cycles, deaf_share=0.02),
        faults=faults,
    )


def run_life(spec: WorldSpec) -> LifeReport:
    """Run a world to its end; the engine is asked before and after, and the process when the engine has gone."""
    before_engine = take_stock()
    world = World(spec, remembers_callers=False)
    before = take_stock()
    world.run()
    left = before.list_differences(take_stock(), REMEMBERED)
    counts = world.counts
    del world
    left += (f"{words} (without the engine)" for words in before_engine.list_differences(take_stock(), {}))
    return LifeReport(spec.seed, counts, tuple(left))


def take_stock() -> Stock:
    """Count what is alive now."""
    gc.collect()
    types = Counter(map(type, gc.get_objects()))
    objects = Counter[str]()
    for kind, count in types.items():
        if str(kind.__module__).startswith(RECORDS) and not issubclass(kind, Enum):
            objects[f"{kind.__module__}.{kind.__qualname__}"] += count
    files = Path("/proc/self/fd")
    return Stock(dict(objects), len(list(files.iterdir())) if files.is_dir() else 0)
