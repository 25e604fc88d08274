"""One replay from the words of the command line: geometry, budget, policy, order; a report and what a plot needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from ninfer.base.pools import Pool
from ninfer.engine.report import make_report as make_engine_report
from ninfer.resource.sources import CostModel

from .budget import split_budget
from .costs import HOST_BYTES_PER_S, GeometryCosts
from .geometries import find_geometry, image_bytes, page_bytes
from .nominal import NominalDriver
from .policies import Policy, make_resources
from .report import Conditions, Report, make_report
from .timed import TimedDriver
from .trace import Trace
from .world import Ran, ReplaySettings, ReplayWorld

TIMED_CHUNK_TOKENS = 2048
_SAMPLES = 200


class Order(Enum):
    """The values are those of `--order`."""

    NOMINAL = "nominal"
    TIMED = "timed"


@dataclass(frozen=True, slots=True)
class Options:
    """What may be said about a replay."""

    geometry: str = "qwen3.5-4b"
    device_bytes: int = 16 << 30
    host_bytes: int = 0
    lanes: int = 8
    policy: Policy = Policy.OURS
    order: Order = Order.NOMINAL
    max_context: int | None = None
    state_share: float | None = None
    audit_every: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """A moment: bytes of the device by class, after so many requests had ended."""

    ended: int
    running_bytes: int
    reused_bytes: int
    ordinary_bytes: int
    free_bytes: int


@dataclass(slots=True)
class Replay:
    """A replay that has ended."""

    report: Report
    ran: list[Ran]
    samples: list[Sample] = field(default_factory=list)


def replay(
    trace: Trace, options: Options, note: Callable[[int], None] | None = None, *, takes_samples: bool = False
) -> Replay:
    """Play a trace. `note`: how many requests have ended. Raises BadInput for a budget off the curve."""
    geometry = find_geometry(options.geometry)
    split = split_budget(
        geometry,
        device_bytes=options.device_bytes,
        lanes=options.lanes,
        longest_tokens=trace.longest_tokens,
        max_context=options.max_context,
        state_share=options.state_share,
    )
    costs = GeometryCosts(geometry)
    is_timed = options.order is Order.TIMED
    settings = ReplaySettings(
        slots=split.slots,
        pages=split.pages,
        page_bytes=page_bytes(geometry),
        state_bytes=image_bytes(geometry),
        host_bytes=options.host_bytes,
        lanes=options.lanes,
        max_context=split.max_context,
        chunk_tokens=TIMED_CHUNK_TOKENS if is_timed else split.max_context,
        run_tokens=1 if is_timed else None,
        audit_every_cycles=options.audit_every,
    )
    source_costs = CostModel(costs.prefill_s_per_token(), 1 / HOST_BYTES_PER_S)
    world = ReplayWorld(
        settings,
        make_resources(options.policy, source_costs, options.lanes),
        costs if is_timed else None,
    )
    driver = TimedDriver(world, trace) if is_timed else NominalDriver(world, trace)
    watcher = _Watcher(world, len(trace.requests), note, takes_samples=takes_samples)
    ran = driver.run(watcher.note)
    conditions = Conditions(trace.name, options.geometry, options.policy.value, options.order.value)
    report = make_report(conditions, geometry, split, world, ran, driver.deferred)
    return Replay(report, ran, watcher.samples)


class _Watcher:
    """Passes progress on and takes samples now and then."""

    def __init__(
        self, world: ReplayWorld, requests: int, note: Callable[[int], None] | None, *, takes_samples: bool
    ) -> None:
        self._world = world
        self._note = note
        self._every = max(1, requests // _SAMPLES) if takes_samples else 0
        self._sampled = -1
        self._noted = 0
        self.samples: list[Sample] = []

    def note(self, ended: int) -> None:
        """After a moment of the driver."""
        if ended == self._noted:
            return
        self._noted = ended
        if self._note is not None:
            self._note(ended)
        if self._every and ended // self._every != self._sampled:
            self._sampled = ended // self._every
            self.samples.append(self._take(ended))

    def _take(self, ended: int) -> Sample:
        settings = self._world.settings
        report = make_engine_report(self._world.state)
        block_bytes = {Pool.STATE: settings.state_bytes, Pool.MAIN_KV: settings.page_bytes}
        held = {
            name: sum(block_bytes[pool] * held[pool] for pool in block_bytes)
            for name, held in report.footprints.items()
        }
        pools = {use.pool: use for use in report.pools if use.pool in block_bytes}
        free = sum(block_bytes[pool] * use.free for pool, use in pools.items())
        whole = sum(block_bytes[pool] * use.capacity for pool, use in pools.items())
        reused, ordinary = held.get("reused", 0), held.get("ordinary", 0)
        return Sample(ended, max(0, whole - free - reused - ordinary), reused, ordinary, free)
