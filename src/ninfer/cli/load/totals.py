"""What a load adds up to, in five parts that are never mixed: outcome, work, transfers, preemption, latency (N1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import median
from typing import Any

from .drive import Sample

_ENGINE_TOTALS = (
    "captures",
    "host_captures",
    "demotions",
    "write_backs",
    "transfers",
    "to_host_bytes",
    "from_host_bytes",
    "failed_transfers",
    "permits_lacking",
    "snapshots_revoked",
)
"""Counters of /metrics whose growth belongs to a load: what no single request can tell."""


def describe(sample: Sample) -> dict[str, Any]:
    """One request as JSON has it."""
    question, seen = sample.question, sample.seen
    usage, timings = seen.usage, seen.timings
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    return {
        "name": question.name,
        "kind": question.kind,
        "outcome": {"error": seen.error, "finish": seen.finish},
        "work": {
            "prompt_tokens": usage.get("prompt_tokens"),
            "cached_tokens": cached,
            "computed_tokens": timings.get("computed_prompt_tokens"),
            "output_tokens": usage.get("completion_tokens"),
            "restore_path": timings.get("restore_path"),
        },
        "transfers": {name: timings.get(name) for name in ("captures", "restored_bytes")},
        "preemption": {name: timings.get(name) for name in ("pauses", "snapshots", "paused_s", "replayed_tokens")},
        "latency": {
            "ttft_s": seen.ttft_s,
            "longest_gap_s": seen.longest_gap_s,
            "total_s": seen.total_s,
            "queued_s": timings.get("queued_s"),
        },
    }


def sum_up(samples: list[Sample], engine: dict[str, int] | None) -> dict[str, Any]:
    """The whole load. `engine`: growth of the server's own totals; None where it tells none."""
    rows = [describe(sample) for sample in samples]
    good = [row for row in rows if row["outcome"]["error"] is None]
    begin = min((sample.seen.begin_s for sample in samples), default=0.0)
    elapsed_s = max((sample.seen.end_s for sample in samples), default=0.0) - begin
    output_tokens = _sum(good, "work", "output_tokens")
    prompt_tokens, cached_tokens = _sum(good, "work", "prompt_tokens"), _sum(good, "work", "cached_tokens")
    return {
        "outcome": {
            "requests": len(rows),
            "completed": len(good),
            "errors": dict(Counter(row["outcome"]["error"] for row in rows if row not in good)),
        },
        "work": {
            "prompt_tokens": prompt_tokens,
            "cached_tokens": cached_tokens,
            "hit_rate": cached_tokens / prompt_tokens if prompt_tokens else 0.0,
            "computed_tokens": _sum(good, "work", "computed_tokens"),
            "output_tokens": output_tokens,
            "restore_paths": dict(Counter(row["work"]["restore_path"] for row in good)),
        },
        "transfers": {
            "restored_bytes": _sum(good, "transfers", "restored_bytes"),
            "captures": _sum(good, "transfers", "captures"),
            "engine": engine,
        },
        "preemption": {
            "pauses": _sum(good, "preemption", "pauses"),
            "snapshots": _sum(good, "preemption", "snapshots"),
            "paused_s": _sum(good, "preemption", "paused_s"),
            "replayed_tokens": _sum(good, "preemption", "replayed_tokens"),
        },
        "latency": {
            "elapsed_s": elapsed_s,
            "output_tokens_per_s": output_tokens / elapsed_s if elapsed_s > 0 else 0.0,
            **{
                name: {
                    kind: _spread([row["latency"][name] for row in good if row["kind"] == kind])
                    for kind in dict.fromkeys(row["kind"] for row in good)
                }
                for name in ("ttft_s", "longest_gap_s", "total_s")
            },
        },
    }


def find_growth(before: str | None, after: str | None) -> dict[str, int] | None:
    """Counts and bytes: by how much the server's own totals grew between two scrapes of /metrics."""
    if before is None or after is None:
        return None
    earlier, later = _read_totals(before), _read_totals(after)
    return {name: later[name] - earlier.get(name, 0) for name in _ENGINE_TOTALS if name in later}


def _read_totals(text: str) -> dict[str, int]:
    totals = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name.startswith("ninfer_") and name.endswith("_total"):
            totals[name.removeprefix("ninfer_").removesuffix("_total")] = int(float(value))
    return totals


def _sum(rows: Iterable[dict[str, Any]], part: str, name: str) -> Any:
    return sum(row[part][name] or 0 for row in rows)


def _spread(values: list[float | None]) -> dict[str, float] | None:
    """Least, middle and most of one run: no distribution is promised."""
    known = [value for value in values if value is not None]
    return {"least": min(known), "median": median(known), "most": max(known)} if known else None
