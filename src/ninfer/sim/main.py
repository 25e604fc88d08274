"""Runs seeds, alone or in several processes, and says what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from ninfer.base.events import TraceEvent

from .check import Caller
from .counts import Counts
from .faults import FaultPlan
from .spec import WorldSpec, draw_world
from .world import World, WorldFailure

ALONE_EVERY = 10
"""In one seed of so many each request also runs alone on a fresh engine."""
_ALONE_CYCLES = 20_000
_ALONE_AUDITED_EVERY = 16
_SEEDS_A_BATCH = 8


@dataclass(frozen=True, slots=True)
class SeedReport:
    """What came of one seed. `failure`: None when it passed."""

    seed: int
    counts: Counts
    failure: str | None


def run_seed(seed: int, print_line: Callable[[str], None] | None = None) -> SeedReport:
    """One world; with `print_line`, told event by event."""
    world = World(draw_world(seed), None if print_line is None else _Printer(print_line).tell)
    if print_line is not None:
        print_line(f"seed {seed}: {world.spec}")
    failure = None
    try:
        world.run()
        if seed % ALONE_EVERY == 0:
            for caller in world.callers:
                run_alone(world.spec, caller)
    except WorldFailure as found:
        failure = str(found)
    return SeedReport(seed, world.counts, failure)


def run_seeds(seeds: range, jobs: int) -> Iterator[SeedReport]:
    """Reports in order of the seeds."""
    if jobs <= 1:
        yield from map(run_seed, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_seed, seeds, chunksize=_SEEDS_A_BATCH)


def run_alone(spec: WorldSpec, caller: Caller) -> None:
    """The same request on an engine of its own, with room for everything: it must say the same (V-15)."""
    tokens = spec.max_context
    roomy = replace(
        spec,
        cycles=_ALONE_CYCLES,
        lanes=1,
        slots=2,
        pages=dict.fromkeys(spec.pages, tokens // 64 + 2),
        longest_run=1,
        host_bytes=0,
        audit_every=_ALONE_AUDITED_EVERY,
        faults=FaultPlan(),
    )
    together = caller.said()
    most = caller.ask.max_tokens if caller.is_whole else min(caller.ask.max_tokens, len(together) + 1)
    world = World(roomy)
    world.run_one(
        replace(caller.ask, max_tokens=most, min_tokens=min(most, caller.ask.min_tokens), cancel=None, deaf_after=None)
    )
    alone = world.callers[0]
    said = alone.said()
    if caller.is_whole:
        if (alone.end_words(), said) != (caller.end_words(), together):
            raise WorldFailure(f"V-15: request {caller.ticket} says something else when it is alone")
    elif said[: len(together)] != together:
        raise WorldFailure(f"V-15: request {caller.ticket} began otherwise when it was alone")


class _Printer:
    """Writes each event with its cycle."""

    def __init__(self, print_line: Callable[[str], None]) -> None:
        self._print_line = print_line

    def tell(self, cycle: int, event: TraceEvent) -> None:
        """One line."""
        self._print_line(f"{cycle:5} {event}")
