"""`ninfer simulate`: request traces through the true engine over a device without tensors. Needs no model, no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ninfer.base.errors import BadInput
from ninfer.cli.engine_options import ByteCount, NumberRange
from ninfer.sim.replay.geometries import GEOMETRY_NAMES
from ninfer.sim.replay.plot import draw_plot
from ninfer.sim.replay.policies import Policy
from ninfer.sim.replay.report import COLUMNS, Report, list_cells, list_details
from ninfer.sim.replay.run import Options, Order, Replay, replay
from ninfer.sim.replay.trace import Trace, read_trace

_PATH = click.Path(path_type=Path)


@click.command("simulate")
@click.argument("traces", nargs=-1, required=True, type=_PATH, metavar="TRACE...")
@click.option("--geometry", default="qwen3.5-4b", show_default=True, help=f"One of {', '.join(GEOMETRY_NAMES)}.")
@click.option("--device-bytes", type=ByteCount(), default="16GiB", show_default=True, help="States and KV together.")
@click.option("--host-bytes", type=ByteCount(), default="0", show_default=True, help="The host tier; 0: none.")
@click.option("--lanes", type=click.IntRange(1, 8), default=8, show_default=True, help="Requests that run at once.")
@click.option("--policy", type=click.Choice([one.value for one in Policy]), default="ours", show_default=True)
@click.option("--order", type=click.Choice([one.value for one in Order]), default="nominal", show_default=True)
@click.option("--max-context", type=click.IntRange(min=64), help="Default: as the longest request and the pages need.")
@click.option("--state-share", type=NumberRange(0, 1), help="Part of the device for states. Default: by a rule.")
@click.option("--audit-every", type=click.IntRange(min=0), default=0, help="Recount everything every N cycles.")
@click.option("--plot", type=_PATH, help="Draw occupancy and hit rate by turn into this SVG file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a trace.")
def command(traces: tuple[Path, ...], **given: Any) -> int:
    """Replay TRACE... and print reuse, work, transfers, evictions and planning time.

    A trace is a file of JSON lines, gzipped or not (docs/simulation.md). In nominal order every policy sees the same
    starts and finishes; in timed order every cycle costs what the geometry says.
    """
    options = Options(
        geometry=given["geometry"],
        device_bytes=given["device_bytes"],
        host_bytes=given["host_bytes"],
        lanes=given["lanes"],
        policy=Policy(given["policy"]),
        order=Order(given["order"]),
        max_context=given["max_context"],
        state_share=given["state_share"],
        audit_every=given["audit_every"],
    )
    reports = []
    plots: dict[Path, str] = {}
    for path in traces:
        trace = read_trace(path)
        done = _run(trace, options, takes_samples=given["plot"] is not None)
        reports.append(done.report)
        if given["as_json"]:
            click.echo(json.dumps(done.report.as_json()))
        if given["plot"] is not None:
            plots[_plot_path(given["plot"], trace, len(traces))] = draw_plot(done)
    if not given["as_json"]:
        _print_table(reports)
    for path, plot in plots.items():  # last: a picture that cannot be written takes no report with it
        _write_plot(path, plot)
    return 0


def _write_plot(path: Path, plot: str) -> None:
    try:
        path.write_text(plot, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"--plot: cannot write {path}: {error.strerror}", param="plot") from None


def _run(trace: Trace, options: Options, *, takes_samples: bool) -> Replay:
    """With a progress bar on a terminal."""
    progress, name = _make_progress(), f"{trace.name} {options.policy.value}"
    with progress:
        task = progress.add_task(name, total=len(trace.requests))
        return replay(trace, options, lambda ended: progress.update(task, completed=ended), takes_samples=takes_samples)


def _make_progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _plot_path(path: Path, trace: Trace, count: int) -> Path:
    """One file a trace; of several traces each has its name in it."""
    return path if count == 1 else path.with_stem(f"{path.stem}-{trace.name}")


def _print_table(reports: list[Report]) -> None:
    table = Table(*COLUMNS, box=None, pad_edge=False)
    for column in table.columns[2:]:
        column.justify = "right"
    for report in reports:
        table.add_row(*list_cells(report))
    Console(width=max(Console().width, 120), highlight=False).print(table)
    for report in reports:
        click.echo("\n  ".join((f"\n{report.trace}:", *list_details(report))))
