"""What a replay says: one record of figures, as JSON or as rows of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ninfer.config.geometry import ModelGeometry

from .budget import Split
from .geometries import prefill_flops
from .world import Ran, ReplayWorld


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds at three percentiles, on the replay's own clock."""

    p50_s: float
    p95_s: float
    p99_s: float


@dataclass(frozen=True, slots=True)
class Report:
    """One trace through one engine. `lost_tokens`: prompt tokens computed although they had been computed before, by
    the reason of the loss report. `evictions`: by what the point was. Latencies only where the order was timed.
    """

    trace: str
    geometry: str
    policy: str
    order: str
    device_bytes: int
    host_bytes: int
    lanes: int
    max_context: int
    state_share: float
    state_slots: int
    kv_pages: int
    requests: int
    prompt_tokens: int
    reused_tokens: int
    hit_rate: float
    prefill_tokens: int
    prefill_flops: float
    root_prefill_flops: float
    replayed_tokens: int
    to_host_bytes: int
    from_host_bytes: int
    captures: int
    saved_points: int
    used_points: int
    save_yield: float
    demotions: int
    evictions: dict[str, int]
    lost_tokens: dict[str, int]
    pauses: int
    deferred_starts: int
    planning_ms_p50: float
    planning_ms_p99: float
    ttft: Latency | None = None
    completion: Latency | None = None
    longest_gap_s: float | None = None

    def as_json(self) -> dict[str, object]:
        """For `--json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which a replay ran, in the words of the command line."""

    trace: str
    geometry_name: str
    policy: str
    order: str


def make_report(
    conditions: Conditions, geometry: ModelGeometry, split: Split, world: ReplayWorld, ran: Sequence[Ran], deferred: int
) -> Report:
    """All figures of a replay that has ended."""
    prompt_tokens = sum(one.request.prompt_tokens for one in ran)
    reused_tokens = sum(one.reused_tokens for one in ran)
    counters, program = world.state.counters, world.program
    attempts_ms = [1000 * seconds for seconds in world.cycle.timed.attempts_s]
    is_timed = conditions.order == "timed"
    timings = [one.timings for one in ran if one.timings is not None]
    return Report(
        trace=conditions.trace,
        geometry=conditions.geometry_name,
        policy=conditions.policy,
        order=conditions.order,
        device_bytes=split.device_bytes,
        host_bytes=world.settings.host_bytes,
        lanes=world.settings.lanes,
        max_context=split.max_context,
        state_share=round(split.state_share, 4),
        state_slots=split.slots,
        kv_pages=split.pages,
        requests=len(ran),
        prompt_tokens=prompt_tokens,
        reused_tokens=reused_tokens,
        hit_rate=reused_tokens / prompt_tokens,
        prefill_tokens=counters.prefill_tokens,
        prefill_flops=sum(prefill_flops(geometry, one.reused_tokens, one.request.prompt_tokens) for one in ran),
        root_prefill_flops=sum(prefill_flops(geometry, 0, one.request.prompt_tokens) for one in ran),
        replayed_tokens=counters.replayed_tokens,
        to_host_bytes=world.state.transfers.to_host_bytes,
        from_host_bytes=world.state.transfers.from_host_bytes,
        captures=counters.captures,
        saved_points=program.saved,
        used_points=program.yielded,
        save_yield=program.yielded / program.saved if program.saved else 0.0,
        demotions=counters.demotions,
        evictions=dict(sorted(program.evictions.items())),
        lost_tokens=count_lost(ran),
        pauses=counters.pauses,
        deferred_starts=deferred,
        planning_ms_p50=find_percentile(attempts_ms, 50),
        planning_ms_p99=find_percentile(attempts_ms, 99),
        ttft=_latency([one.ttft_s for one in timings]) if is_timed else None,
        completion=_latency([one.queued_s + one.prefill_s + one.decode_s for one in timings]) if is_timed else None,
        longest_gap_s=max((one.longest_gap_s for one in timings), default=0.0) if is_timed else None,
    )


def count_lost(ran: Sequence[Ran]) -> dict[str, int]:
    """Tokens between the start and the deepest match, by reason, largest first (settled decision 14)."""
    lost: Counter[str] = Counter()
    for one in ran:
        if one.started is not None:
            loss = one.started.loss
            lost[loss.reason] += max(0, loss.deepest_token_match - loss.chosen_point)
    return {reason: tokens for reason, tokens in lost.most_common() if tokens}


def find_percentile(values: Sequence[float], percent: float) -> float:
    """Nearest rank; 0 for no values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


COLUMNS = ("trace", "policy", "requests", "prompt", "reused", "hit %", "PFLOP", "evicted", "yield %", "plan p99 ms")


def list_cells(report: Report) -> tuple[str, ...]:
    """One row under `COLUMNS`."""
    return (
        report.trace,
        report.policy,
        f"{report.requests:,}",
        f"{report.prompt_tokens:,}",
        f"{report.reused_tokens:,}",
        f"{100 * report.hit_rate:.1f}",
        f"{report.prefill_flops / 1e15:.1f}",
        f"{sum(report.evictions.values()):,}",
        f"{100 * report.save_yield:.0f}",
        f"{report.planning_ms_p99:.2f}",
    )


def list_details(report: Report) -> list[str]:
    """What a row has no room for."""
    gib = 2**30
    lines = [
        f"{report.geometry}, {report.device_bytes / gib:.1f} GiB device = {report.state_slots} states "
        f"({100 * report.state_share:.1f} %) + {report.kv_pages} pages, {report.host_bytes / gib:.1f} GiB host, "
        f"{report.lanes} lanes, max context {report.max_context}, {report.order} order",
        f"to host {report.to_host_bytes / gib:.1f} GiB, from host {report.from_host_bytes / gib:.1f} GiB, "
        f"demotions {report.demotions}, pauses {report.pauses}, starts put off {report.deferred_starts}",
        "evicted: " + _show(report.evictions),
        "tokens lost: " + _show(report.lost_tokens),
    ]
    if report.ttft is not None and report.completion is not None:
        for name, latency in (("TTFT", report.ttft), ("completion", report.completion)):
            lines.append(f"{name} p50/p95/p99 {latency.p50_s:.3f} / {latency.p95_s:.3f} / {latency.p99_s:.3f} s")
        lines.append(f"longest output gap {report.longest_gap_s:.3f} s")
    return lines


def _latency(seconds: Sequence[float]) -> Latency:
    return Latency(*(find_percentile(seconds, percent) for percent in (50, 95, 99)))


def _show(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "nothing"
