"""`/metrics` in Prometheus' text form: the engine's totals and occupancy, and sums over the requests' own records (N1).

Knows names and labels; docs/metrics.md lists them. Counts nothing itself that the engine or a record does not say.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector
from starlette.types import Receive, Scope, Send

from ninfer.engine.core import HealthFacts
from ninfer.engine.report import EngineReport
from ninfer.ports.output import GAP_BOUNDS_S
from ninfer.server.gate import find_record
from ninfer.server.journal import RequestRecord
from ninfer.server.service import Phase, Service

_WAIT_BOUNDS_S = (*GAP_BOUNDS_S, 60.0, 120.0, 300.0, 600.0)


class Spread:
    """A histogram: how many values lie in each class, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """One value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def add_all(self, counts: Sequence[int], total: float) -> None:
        """Values that were counted elsewhere in the same classes."""
        for index, count in enumerate(counts):
            self._counts[index] += count
        self._sum += total

    def render(self, name: str, about: str) -> Metric:
        """As Prometheus has it: counts add up from class to class."""
        family = HistogramMetricFamily(name, about)
        buckets, below = [], 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            below += count
            buckets.append((str(bound), below))
        family.add_metric([], buckets, self._sum)
        return family


class RequestTally:
    """Sums over ended requests; a journal among others. Lives on the event loop."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, str]] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._paths: Counter[str] = Counter()
        self._losses: Counter[str] = Counter()
        self._queued = Spread(_WAIT_BOUNDS_S)
        self._ttft = Spread(_WAIT_BOUNDS_S)
        self._longest_gap = Spread(_WAIT_BOUNDS_S)
        self._gaps = Spread(GAP_BOUNDS_S)

    def write(self, record: RequestRecord) -> None:
        """Add an ended request."""
        self._answers[record.route, str(record.status)] += 1
        if record.prompt_tokens is None:  # never was a generation
            return
        self._outcomes[record.outcome or "?"] += 1
        if record.path is not None:
            self._paths[record.path] += 1
            self._losses[record.loss or "?"] += 1
        if record.queued_s is not None:
            self._queued.add(record.queued_s)
        if record.output_tokens and record.ttft_s is not None:
            self._ttft.add(record.ttft_s)
            self._longest_gap.add(record.longest_gap_s or 0.0)
            self._gaps.add_all(record.gap_counts or (), record.gaps_s or 0.0)

    def render(self) -> Iterator[Metric]:
        """The families."""
        answers = CounterMetricFamily("ninfer_http_requests", "Answered requests.", labels=("route", "status"))
        for labels, count in sorted(self._answers.items()):
            answers.add_metric(labels, count)
        yield answers
        yield _count("ninfer_requests", "Generations that ended.", "outcome", self._outcomes)
        yield _count("ninfer_restores", "Where executions began.", "path", self._paths)
        yield _count("ninfer_losses", "Why they began no deeper.", "reason", self._losses)
        yield self._queued.render("ninfer_queued_seconds", "From submission to the first lane.")
        yield self._ttft.render("ninfer_ttft_seconds", "From submission to the first token.")
        yield self._gaps.render("ninfer_gap_seconds", "Between two pieces of output, pauses included.")
        yield self._longest_gap.render("ninfer_longest_gap_seconds", "The longest such gap of each request.")


def render_engine(report: EngineReport, load: HealthFacts | None) -> Iterator[Metric]:
    """Families of the engine itself. Totals include requests under way."""
    if load is not None:
        yield GaugeMetricFamily("ninfer_lanes", "Requests that can run at once.", load.lanes)
        yield GaugeMetricFamily("ninfer_running", "Requests with a lane.", load.residents)
        yield GaugeMetricFamily("ninfer_waiting", "Requests that never had a lane.", load.waiting)
        yield GaugeMetricFamily("ninfer_paused", "Requests that lost theirs.", load.paused)
    for name, total in report.counters.items():
        yield CounterMetricFamily(f"ninfer_{name}", f"Total of {name.replace('_', ' ')}.", total)
    capacity = GaugeMetricFamily("ninfer_pool_capacity", "Slots, pages or bytes of a pool.", labels=("pool",))
    use = GaugeMetricFamily("ninfer_pool", "What they are used for.", labels=("pool", "use"))
    for pool in report.pools:
        capacity.add_metric((pool.pool.value,), pool.capacity)
        for name, amount in (("free", pool.free), ("reserved", pool.reserved), ("held", pool.held)):
            use.add_metric((pool.pool.value, name), amount)
    points = GaugeMetricFamily("ninfer_points", "Restore points kept, by class.", labels=("class",))
    kept = GaugeMetricFamily("ninfer_pool_kept", "What they hold of a pool.", labels=("pool", "class"))
    for name, count in report.points.items():
        points.add_metric((name,), count)
        for pool in report.pools:
            kept.add_metric((pool.pool.value, name), report.footprints[name][pool.pool])
    yield from (capacity, use, points, kept)
    yield GaugeMetricFamily("ninfer_records", "Conversations remembered.", report.records)


def render_phase(phase: Phase, stalls: int) -> Iterator[Metric]:
    """One gauge a phase; the current one is 1."""
    family = GaugeMetricFamily("ninfer_phase", "The phase that /health tells.", labels=("phase",))
    for each in Phase:
        family.add_metric((each.value,), each is phase)
    yield family
    yield CounterMetricFamily("ninfer_stalls", "Times that the control thread made no progress.", stalls)


class _Fixed(Collector):
    """Families that are there already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


class MetricsRoute:
    """An ASGI application. Answers in every phase; needs a key where keys are set."""

    def __init__(self, service: Service, tally: RequestTally) -> None:
        self._service = service
        self._tally = tally

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        service = self._service
        find_record(scope).route = scope["path"]
        report = await service.find_report()
        phase, _ = service.find_phase()
        registry = CollectorRegistry()
        engine = render_engine(report, service.find_load())
        registry.register(_Fixed(chain(render_phase(phase, service.stalls), engine, self._tally.render())))
        body = generate_latest(registry)
        headers = [(b"content-type", CONTENT_TYPE_PLAIN_0_0_4.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})


def _count(name: str, about: str, label: str, counts: Counter[str]) -> Metric:
    family = CounterMetricFamily(name, about, labels=(label,))
    for value, count in sorted(counts.items()):
        family.add_metric((value,), count)
    return family
