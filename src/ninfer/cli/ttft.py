"""`ninfer ttft`: a scripted multi-turn load on a running server, and what became of it (N1). Needs no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from ninfer.base.errors import BadInput, NInferError
from ninfer.cli.engine_options import env_option
from ninfer.cli.load.chart import draw
from ninfer.cli.load.client import ChatClient
from ninfer.cli.load.drive import Sample, drive
from ninfer.cli.load.script import LoadShape
from ninfer.cli.load.totals import describe, find_growth, sum_up
from ninfer.config.secrets import read_api_keys

SCHEMA = 1
"""Version of the JSON: changed when a field ends or changes its meaning."""


@click.command("ttft")
@env_option("--url", required=True, help="The server, such as http://127.0.0.1:8000.")
@env_option("--conversations", type=click.IntRange(min=1), default=8, show_default=True, help="Conversations in all.")
@env_option("--concurrency", type=click.IntRange(1, 256), default=4, show_default=True, help="Conversations at a time.")
@env_option(
    "--turns", type=click.IntRange(min=1), default=4, show_default=True, help="Turns of each, before one retry."
)
@env_option(
    "--first-words", type=click.IntRange(min=1), default=400, show_default=True, help="Words of the first turn."
)
@env_option("--next-words", type=click.IntRange(min=1), default=40, show_default=True, help="Words of each later turn.")
@env_option("--output-tokens", type=click.IntRange(min=1), default=48, show_default=True, help="Budget of each answer.")
@env_option("--load-seed", type=int, default=1, show_default=True, help="Draws the words.")
@env_option("--model", default="", help="Model name to ask for. [default: none]")
@env_option(
    "--api-key-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the API key to use, as the server has it; NINFER_API_KEYS holds one as well.",
)
@click.option(
    "--full-length/--natural-length",
    default=True,
    show_default=True,
    help="Ask for answers that use their whole budget (min_tokens), or leave their end to the model.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Write the run as a picture (SVG).")
def command(**given: Any) -> int:
    """Hold conversations with a running server, several at a time, and report each part for itself.

    Outcome; hits and real work; physical transfers; preemption; latency as a user sees it. One run is one sample: it
    promises no distribution. Exit status 1 when a request failed.
    """
    try:
        client = ChatClient(given["url"], _read_key(given["api_key_file"]))
    except ValueError as error:
        raise click.UsageError(f"--url {given['url']}: {error}") from None
    if client.fetch("/v1/models") is None:
        raise NInferError(f"no server answers at {given['url']} (/v1/models)")
    shape = LoadShape(
        conversations=given["conversations"],
        turns=given["turns"],
        first_words=given["first_words"],
        next_words=given["next_words"],
        output_tokens=given["output_tokens"],
        seed=given["load_seed"],
    )
    fields: dict[str, Any] = {"model": given["model"], "temperature": 0}
    if given["full_length"]:
        fields["min_tokens"] = shape.output_tokens
    before = client.fetch("/metrics")
    samples = drive(client, shape, given["concurrency"], fields)
    total = sum_up(samples, find_growth(before, client.fetch("/metrics")))
    if given["as_json"]:
        requests = [describe(sample) for sample in samples]
        click.echo(json.dumps({"schema": SCHEMA, "url": given["url"], "requests": requests, "total": total}))
    else:
        _print(samples, total)
    if given["plot"] is not None:  # last: a file that cannot be written does not take the report with it
        _write_plot(given["plot"], samples, given["url"])
    return 1 if total["outcome"]["errors"] else 0


def _read_key(path: Path | None) -> str | None:
    keys = read_api_keys(path)
    return keys[0] if keys else None


def _write_plot(path: Path, samples: list[Sample], url: str) -> None:
    try:
        path.write_text(draw(samples, f"{len(samples)} requests to {url}"), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"--plot: cannot write {path}: {error.strerror}", param="plot") from None


def _print(samples: list[Sample], total: dict[str, Any]) -> None:
    console = Console(width=130, highlight=False)
    console.print(_tabulate(samples))
    for part, figures in total.items():
        console.print(f"\n{part}", style="bold")
        for name, value in figures.items():
            if isinstance(value, dict):
                for key, inner in value.items():
                    console.print(f"  {name}, {key}: {_say(inner)}")
            else:
                console.print(f"  {name}: {_say(value)}")
    console.print("\nOne run is one sample: it promises no distribution.")


def _tabulate(samples: list[Sample]) -> Table:
    table = Table(box=None)
    table.add_column("request")
    for heading in ("prompt", "reused", "computed", "output", "restored B", "pauses", "replayed", "TTFT ms", "gap ms"):
        table.add_column(heading, justify="right")
    table.add_column("outcome")
    for sample in samples:
        row = describe(sample)
        work, latency = row["work"], row["latency"]
        table.add_row(
            row["name"],
            *(_say(work[name]) for name in ("prompt_tokens", "cached_tokens", "computed_tokens", "output_tokens")),
            _say(row["transfers"]["restored_bytes"]),
            _say(row["preemption"]["pauses"]),
            _say(row["preemption"]["replayed_tokens"]),
            "-" if latency["ttft_s"] is None else f"{latency['ttft_s'] * 1000:.0f}",
            f"{latency['longest_gap_s'] * 1000:.0f}",
            row["outcome"]["error"] or row["outcome"]["finish"] or "-",
        )
    return table


def _say(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_say(inner)}" for name, inner in value.items())
    if isinstance(value, float):
        return f"{value:,.3f}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
