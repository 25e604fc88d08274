"""An engine from its parts: device, frontend, options. No torch here: tests and simulations come in this way too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ninfer.base.clock import Clock, SystemClock
from ninfer.config.options import EngineOptions
from ninfer.engine.core import EngineCore
from ninfer.engine.cycle import Cycle
from ninfer.engine.facade import Engine, EngineDescription
from ninfer.engine.metering import MeteredHost
from ninfer.engine.state import CycleSettings, EngineState
from ninfer.frontend.frontend import Frontend
from ninfer.ports.device import Device, HostTier
from ninfer.ports.sampling import SamplingParams
from ninfer.program.program import Program
from ninfer.resource.manager import ResourceManager
from ninfer.resource.ranking import order_of_expectation, order_of_source
from ninfer.resource.sources import CostModel
from ninfer.sched.chunks import EVEN_WORK, PrefillWork
from ninfer.sched.members import Members


@dataclass(frozen=True, slots=True)
class EngineParts:
    """What an engine is made of. `max_context` is the planned one; `plan` is for people.

    `host`: the host tier of the device; None where there is none (C2).
    """

    device: Device
    frontend: Frontend
    options: EngineOptions
    max_context: int
    model_name: str
    plan: Mapping[str, object] = field(default_factory=dict)
    default_sampling: SamplingParams = field(default_factory=SamplingParams)
    clock: Clock = field(default_factory=SystemClock)
    costs: CostModel = field(default_factory=CostModel)
    prefill_work: PrefillWork = EVEN_WORK
    on_close: Callable[[], None] | None = None
    host: HostTier | None = None
    runs_ahead: bool = False
    """Whether steps are launched before their tokens are decided on: a device beside the processor would idle."""

    def description(self) -> EngineDescription:
        """What the engine is, for people."""
        return EngineDescription(self.model_name, self.max_context, self.options.max_concurrency, self.plan)


def make_core(parts: EngineParts) -> EngineCore:
    """Program, policies, cycle and control thread; the thread is not started."""
    options = parts.options
    meter = None if parts.host is None else MeteredHost(parts.host, parts.device.facts)
    program = Program(parts.device, meter)
    lanes = options.max_concurrency
    key_of = order_of_source if options.reclaim_order == "source" else order_of_expectation
    resources = ResourceManager(program, parts.costs, keeps_points=options.reuse, lane_count=lanes, key_of=key_of)
    settings = CycleSettings(
        max_context=parts.max_context,
        lane_count=lanes,
        prefill_chunk_tokens=options.prefill_chunk_tokens,
        queue_timeout_s=options.queue_timeout_s,
        request_timeout_s=options.request_timeout_s,
        audit_every_cycles=options.audit_every_cycles,
        max_gap_s=None if options.max_gap_ms is None else options.max_gap_ms / 1000,
        prefill_work=parts.prefill_work,
        runs_ahead=parts.runs_ahead,
        prefill_rate_per_s=parts.prefill_work.per_token / parts.costs.prefill_s_per_token,
    )
    state = EngineState(settings, program, resources, parts.clock, Members(lanes))
    if meter is not None:
        state.transfers = meter.totals
    return EngineCore(
        Cycle(state),
        decoder=parts.frontend.detokenizer,
        max_queue=options.max_queue,
        vocab_tokens=parts.device.facts.vocab_tokens,
        device_wait=parts.device.wait,
    )


def make_engine(parts: EngineParts) -> Engine:
    """A running engine."""
    core = make_core(parts)
    core.start()
    return Engine(
        core,
        parts.frontend,
        parts.options,
        parts.description(),
        default_sampling=parts.default_sampling,
        on_close=parts.on_close or parts.device.close,
    )
