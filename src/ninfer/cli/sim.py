"""`ninfer sim`: worlds from seeds, with the true engine over a simulated device. Needs no model and no torch."""

from __future__ import annotations

import click

from ninfer.sim.counts import Counts
from ninfer.sim.main import SeedReport, run_seed, run_seeds


@click.command("sim")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="The first seed.")
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="How many seeds.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes side by side.")
@click.option("--trace", is_flag=True, help="Print every event (one process).")
@click.option("--first", "stops_early", is_flag=True, help="End at the first seed that fails.")
def command(seed: int, count: int, jobs: int, *, trace: bool, stops_early: bool) -> int:
    """Run COUNT simulated worlds from SEED on and check everything they say and keep.

    A line per failing seed with the command that replays it; figures of all worlds; `N passed, M failed`.
    """
    seeds = range(seed, seed + count)
    reports = (run_seed(one, click.echo) for one in seeds) if trace else run_seeds(seeds, jobs)
    counts, passed, failed = Counts(), 0, 0
    for report in reports:
        counts.add(report.counts)
        if report.failure is None:
            passed += 1
            continue
        failed += 1
        _print_failure(report)
        if stops_early:
            break
    click.echo(counts.line())
    click.echo(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _print_failure(report: SeedReport) -> None:
    click.echo(f"seed {report.seed} failed in {report.failure}")
    click.echo(f"  ninfer sim --seed {report.seed} --count 1 --trace")
