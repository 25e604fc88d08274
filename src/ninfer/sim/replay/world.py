"""One engine over a replay device: the true scheduler, policies, program and stores, turned by hand.

Knows plans, replies and what became of each request. When requests come and go is the driver's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ninfer.base.clock import ManualClock, SystemClock
from ninfer.base.errors import NInferError
from ninfer.base.ids import Ticket
from ninfer.engine.core import EngineCore
from ninfer.engine.cycle import Cycle
from ninfer.engine.failure import Endings
from ninfer.engine.metering import MeteredHost
from ninfer.engine.request import Phase, Request
from ninfer.engine.state import CycleSettings, EngineState
from ninfer.engine.turns import Turns
from ninfer.ports.output import Event, Failed, Finished, GenerationStart, Timings
from ninfer.ports.sampling import SamplingParams
from ninfer.program.program import Program
from ninfer.resource.manager import ResourceManager
from ninfer.resource.sources import CostModel
from ninfer.sched.members import Members

from .adapter import make_plan
from .device import NoCosts, ReplayDevice, UnitCosts
from .stream import VOCAB_TOKENS
from .trace import TraceRequest, tokens_of
from .watched import CountedProgram, TimedAdmission

_NEVER_S = 1e12


@dataclass(slots=True)
class Ran:
    """What became of one request of the trace."""

    request: TraceRequest
    ticket: Ticket
    started: GenerationStart | None = None
    finished: Finished | None = None
    error: NInferError | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the last event came."""
        return self.finished is not None or self.error is not None

    @property
    def reused_tokens(self) -> int:
        """Prompt tokens that were not computed."""
        return 0 if self.started is None else self.started.cached_tokens

    @property
    def timings(self) -> Timings | None:
        """Of a request that ended well."""
        return None if self.finished is None else self.finished.timings

    def hear(self, event: Event) -> None:
        """The sink of the request."""
        match event:
            case GenerationStart():
                self.started = event
            case Finished():
                self.finished = event
            case Failed():
                self.error = event.error
            case _:
                pass


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """What a replay's engine is made of."""

    slots: int
    pages: int
    page_bytes: int
    state_bytes: int
    host_bytes: int
    lanes: int
    max_context: int
    chunk_tokens: int
    run_tokens: int | None = None
    """Reply tokens of one draw; None: equal decode stretches go in one step."""
    audit_every_cycles: int = 0
    costs: CostModel = field(default_factory=CostModel)


class HeldTurns(Turns):
    """Turns in which some residents do not draw yet: their replies belong to a later moment of the trace."""

    def __init__(self, state: EngineState, endings: Endings, held: set[Ticket]) -> None:
        super().__init__(state, endings)
        self._held = held

    def _is_ready(self, ticket: Ticket, phase: Phase) -> bool:
        return super()._is_ready(ticket, phase) and not (phase is Phase.DECODE and ticket in self._held)


class HeldCycle(Cycle):
    """The heartbeat with held turns and timed admission."""

    def __init__(self, state: EngineState, held: set[Ticket]) -> None:
        super().__init__(state)
        self._turns = HeldTurns(state, self.endings, held)
        self.timed = TimedAdmission(state, self.endings, SystemClock())
        self._admission = self.timed


class Silence:
    """A decoder: nobody reads the text of a replay."""

    def push(self, token_id: int) -> str:
        """No text."""
        del token_id
        return ""

    def finish(self) -> str:
        """Nothing is ever held."""
        return ""


class ReplayWorld:
    """The engine of one replay."""

    def __init__(
        self,
        settings: ReplaySettings,
        make_resources: Callable[[Program], ResourceManager],
        costs: UnitCosts | None = None,
    ) -> None:
        self.settings = settings
        self.clock = ManualClock()
        self.held: set[Ticket] = set()
        """Who does not draw yet."""
        self._replies: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.device = ReplayDevice(
            slots=settings.slots,
            pages=settings.pages,
            page_bytes=settings.page_bytes,
            state_bytes=settings.state_bytes,
            vocab_tokens=VOCAB_TOKENS,
            speaker=self._speak,
            clock=self.clock,
            costs=costs or NoCosts(),
            host_bytes=settings.host_bytes,
        )
        meter = MeteredHost(self.device, self.device.facts)
        self.program = CountedProgram(self.device, meter if settings.host_bytes else None)
        self.program.watch()
        self.resources = make_resources(self.program)
        cycle = CycleSettings(
            max_context=settings.max_context,
            lane_count=settings.lanes,
            prefill_chunk_tokens=settings.chunk_tokens,
            queue_timeout_s=_NEVER_S,
            request_timeout_s=2 * _NEVER_S,
            audit_every_cycles=settings.audit_every_cycles,
        )
        self.state = EngineState(cycle, self.program, self.resources, self.clock, Members(settings.lanes))
        self.state.transfers = meter.totals
        self.cycle = HeldCycle(self.state, self.held)
        self._core = EngineCore(
            self.cycle,
            decoder=Silence,
            max_queue=1_000_000,
            vocab_tokens=VOCAB_TOKENS,
            device_wait=self.device.wait,
        )

    def submit(self, request: TraceRequest) -> Ran:
        """The request arrives, with its reply known to the device alone."""
        ran = Ran(request, Ticket(-1))
        reply = tuple(tokens_of(request.reply).tolist())
        self._replies[request.index] = request.prompt_tokens, reply
        handle = self._core.submit(
            make_plan(request),
            SamplingParams(temperature=0.0, seed=request.index),
            max_tokens=len(reply),
            sink=ran.hear,
        )
        ran.ticket = handle.ticket
        return ran

    def step(self) -> bool:
        """One cycle. False: nothing could be done until somebody comes, goes or lands."""
        return self._core.step()

    def find(self, ran: Ran) -> Request | None:
        """The engine's record of a request that has not ended."""
        return self.state.requests.get(ran.ticket)

    def forget(self, ran: Ran) -> None:
        """It ended: its reply is not asked for any more."""
        assert ran.has_ended
        self._replies.pop(ran.request.index, None)
        self.held.discard(ran.ticket)

    def _speak(self, seed: int, position: int) -> tuple[int, ...]:
        """The next run of a reply. All but the last token come first, and the last one once they have been fed (D8)."""
        prompt_tokens, reply = self._replies[seed]
        at = position - prompt_tokens
        assert 0 <= at < len(reply), f"request {seed} draws for {position}, its reply ends before"
        longest = self.settings.run_tokens or len(reply)
        return reply[at : at + max(1, min(longest, len(reply) - 1 - at))]
