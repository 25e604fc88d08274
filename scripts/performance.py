"""Reuse on recorded traces, beside what other engines' cache code reaches: runs cells and writes docs/performance.md.

    python -m scripts.performance TRACES_DIR [--only CELL,...] [--policies ours,lru]   run cells, then write the page
    python -m scripts.performance                                                      write the page from results.json

The page is made from docs/performance/results.json and peers.json alone; a test checks that it is.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "performance"
PAGE = ROOT / "docs" / "performance.md"


@dataclass(frozen=True)
class Cell:
    """One column: a trace, a geometry, a budget. `share`: None is the default split. `goal`: token hit % to reach."""

    name: str
    trace: str
    device_gib: int
    geometry: str = "qwen3.5-4b"
    share: float | None = None
    host_gib: int = 0
    goal: float | None = None

    def words(self, policy: str) -> list[str]:
        """The command line, without the folder of the traces."""
        words = [f"{self.trace}.jsonl.gz", "--geometry", self.geometry, "--device-bytes", f"{self.device_gib}GiB"]
        words += ["--host-bytes", f"{self.host_gib}GiB"] if self.host_gib else []
        words += ["--state-share", str(self.share)] if self.share is not None else []
        return [*words, "--policy", policy]


CELLS = (
    Cell("cc-8", "cc_sessions", 8, goal=75.0),
    Cell("cc-16", "cc_sessions", 16, goal=87.5),
    Cell("cc-32", "cc_sessions", 32, goal=90.5),
    Cell("cc-64", "cc_sessions", 64, goal=91.8),
    Cell("synth-8", "synth_agent", 8, share=0.17, goal=65.0),
    Cell("synth-16", "synth_agent", 16, share=0.2, goal=89.5),
    Cell("synth-32", "synth_agent", 32, share=0.2, goal=90.5),
    Cell("tau-4", "tau_airline", 4, share=0.4, goal=97.4),
    Cell("tau-16", "tau_airline", 16, share=0.3),
    Cell("mooncake-16", "mooncake_conv", 16, share=0.14),
    Cell("mooncake-64", "mooncake_conv", 64, share=0.14, goal=28.5),
    Cell("cc-35b-16", "cc_sessions", 16, geometry="qwen3.5-35b-a3b", goal=89.5),
    Cell("synth-35b-16", "synth_agent", 16, geometry="qwen3.5-35b-a3b", share=0.3),
    Cell("cc-8-host-64", "cc_sessions", 8, host_gib=64, goal=91.4),
    Cell("synth-8-host-64", "synth_agent", 8, share=0.2, host_gib=64, goal=89.7),
    Cell("tau-8-host-64", "tau_airline", 8, share=0.3, host_gib=64, goal=96.6),
    Cell("cc-large-16", "cc_sessions_large", 16),
)
"""Goals of the cells with a host tier: within 1 point of endless memory with the same save points."""

_KEPT = (
    "hit_rate",
    "prompt_tokens",
    "reused_tokens",
    "state_share",
    "lost_tokens",
    "planning_ms_p50",
    "planning_ms_p99",
)


def main() -> int:
    """Run what was asked for, then write the page."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="?", type=Path, help="Folder of the trace files.")
    parser.add_argument("--only", default="", help="Names of cells, separated by commas.")
    parser.add_argument("--policies", default="ours,lru", help="Of each cell.")
    asked = parser.parse_args()
    names = set(filter(None, asked.only.split(",")))
    unknown = names - {cell.name for cell in CELLS}
    if unknown:
        print(f"unknown cells: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    for cell in CELLS if asked.traces is not None else ():
        if not names or cell.name in names:
            for policy in asked.policies.split(","):
                _run(cell, policy, asked.traces)
    PAGE.write_text(render(), encoding="utf-8")
    return 0


def _run(cell: Cell, policy: str, traces: Path) -> None:
    words = cell.words(policy)
    start_s = time.monotonic()
    command = [sys.executable, "-m", "ninfer", "simulate", str(traces / words[0]), *words[1:], "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    report = json.loads(done.stdout)
    results = _read("results.json")
    results[f"{cell.name} {policy}"] = {name: report[name] for name in _KEPT} | {"commit": _find_commit()}
    (FOLDER / "results.json").write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n", encoding="utf-8")
    print(f"{cell.name} {policy}: {100 * report['hit_rate']:.1f} % ({time.monotonic() - start_s:.0f} s)")


def _find_commit() -> str:
    words = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()


def render() -> str:
    """The whole page."""
    return (FOLDER / "head.md").read_text(encoding="utf-8") + "\n".join(
        ["", *_list_cells(), "", *_list_peers(), "", *_list_losses(), ""]
    )


def _list_cells() -> list[str]:
    """One line a cell: our rows, goal, best peer and the command."""
    results, peers = _read("results.json"), _read("peers.json")
    lines = [
        "| cell | ours | our points, LRU | goal | best of vLLM, SGLang, Marconi-like | states | "
        "planning p50 / p99, ms | `ninfer simulate` |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for cell in CELLS:
        ours, lru = results.get(f"{cell.name} ours"), results.get(f"{cell.name} lru")
        goal = "-" if cell.goal is None else f"{cell.goal:.1f}"
        planning = "-" if ours is None else f"{ours['planning_ms_p50']:.1f} / {ours['planning_ms_p99']:.1f}"
        share = "-" if ours is None else f"{100 * ours['state_share']:.1f} %"
        command = " ".join(cell.words("ours"))
        best = _find_best(peers, cell.name)
        lines.append(
            f"| {cell.name} | {_show(ours)} | {_show(lru)} | {goal} | {best} | {share} | {planning} | `{command}` |"
        )
    return lines


def _list_peers() -> list[str]:
    """The peers' table with our rows at its head."""
    results, peers = _read("results.json"), _read("peers.json")
    lines = ["| token hit % | " + " | ".join(peers["cells"]) + " |", "|---|" + "---:|" * len(peers["cells"])]
    for policy, title in (("ours", "**ninfer**"), ("lru", "our points, LRU")):
        cells = (_show(results.get(f"{name} {policy}")) for name in peers["cells"])
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    for title, values in peers["rows"].items():
        lines.append(f"| {title} | " + " | ".join("-" if value is None else f"{value:.1f}" for value in values) + " |")
    return [*lines, "", f"Peers: {peers['source']}"]


def _list_losses() -> list[str]:
    """What each cell lost, in percent of its prompt tokens, by the reason in the request log."""
    results = _read("results.json")
    lines = [
        "## What each cell lost",
        "",
        "| cell | computed again although it had been computed, % of all prompt tokens |",
    ]
    lines.append("|---|---|")
    for cell in CELLS:
        ours = results.get(f"{cell.name} ours")
        if ours is not None:
            shares = (
                f"{reason} {100 * lost / ours['prompt_tokens']:.2f}" for reason, lost in ours["lost_tokens"].items()
            )
            lines.append(f"| {cell.name} | {', '.join(shares) or '-'} |")
    return lines


def _find_best(peers: dict[str, Any], name: str) -> str:
    if name not in peers["cells"]:
        return "-"
    at = peers["cells"].index(name)
    engines = ("vLLM", "SGLang", "Marconi")
    values = [values[at] for title, values in peers["rows"].items() if title.startswith(engines)]
    return f"{max(value for value in values if value is not None):.1f}"


def _show(result: dict[str, Any] | None) -> str:
    return "-" if result is None else f"{100 * result['hit_rate']:.1f}"


def _read(name: str) -> dict[str, Any]:
    path = FOLDER / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


if __name__ == "__main__":
    sys.exit(main())
