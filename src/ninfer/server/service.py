"""The engine as the routes see it: its phase, its names, text work off the event loop, submission, draining.

Knows one engine and the requests in flight. Does not know any protocol.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar

from ninfer.base.clock import Clock, unix_seconds
from ninfer.base.errors import QueueFull
from ninfer.config.options import ServerOptions
from ninfer.engine.core import HealthFacts
from ninfer.engine.report import EMPTY_REPORT, EngineReport
from ninfer.frontend.frontend import Frontend
from ninfer.frontend.plan import InputPlan
from ninfer.ports.output import OutputSink
from ninfer.ports.sampling import SamplingParams
from ninfer.server.answer import AnswerAssembler, TextParser
from ninfer.server.bridge import EventBridge, Inbox
from ninfer.server.errors import ApiError, too_many, unavailable
from ninfer.server.generation import Generation, Submission
from ninfer.server.journal import RequestRecord
from ninfer.server.tokentrack import TokenTrack

ANY_NAME = "*"
_TEXT_THREADS = 2
_DRAIN_POLL_S = 0.05

T = TypeVar("T")


class EngineCore(Protocol):
    """Takes requests."""

    def submit(
        self,
        plan: InputPlan,
        params: SamplingParams,
        *,
        max_tokens: int,
        min_tokens: int,
        stop: Sequence[str],
        stop_token_ids: Sequence[int],
        logprobs: int | None,
        ignore_eos: bool,
        thinking_budget: int | None,
        sink: OutputSink,
    ) -> Submission:
        """Queue a request. Raises Overloaded."""
        ...


class ServedEngine(Protocol):
    """What this package needs of an engine."""

    @property
    def core(self) -> EngineCore: ...

    @property
    def frontend(self) -> Frontend: ...

    @property
    def max_context(self) -> int:
        """Tokens of prompt and output together."""
        ...

    @property
    def default_sampling(self) -> SamplingParams:
        """What the model's own files recommend."""
        ...

    def health(self) -> HealthFacts:
        """A moment of it; takes no lock for long."""
        ...

    def report(self) -> EngineReport:
        """Totals and occupancy; waits for the control thread, a second at most."""
        ...


class Phase(Enum):
    LOADING = "loading"
    READY = "ready"
    STALLED = "stalled"
    """Requests are resident, and for too long none has moved."""
    DRAINING = "draining"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Ask:
    """One generation, ready for the engine."""

    plan: InputPlan
    params: SamplingParams
    max_tokens: int
    min_tokens: int
    stops: tuple[str, ...]
    stop_token_ids: tuple[int, ...]
    logprobs: int | None
    ignore_eos: bool
    parser: TextParser
    thinking_budget: int | None = None
    single_call: bool = False
    """Deliver the first tool call only."""


class Pace:
    """How often a request ends, as a moving average: when a full queue is likely to have room again."""

    _WEIGHT = 0.2
    _LONGEST_RETRY_S = 60

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_s = clock.now()
        self._between_s = 1.0

    def note_end(self) -> None:
        """A request ended."""
        now = self._clock.now()
        self._between_s += self._WEIGHT * (now - self._last_s - self._between_s)
        self._last_s = now

    def retry_after_s(self) -> int:
        """Whole seconds, at least one."""
        return min(max(1, math.ceil(self._between_s)), self._LONGEST_RETRY_S)


class Service:
    """One for a server. Lives on the event loop, but for `open` and `fail`, which any thread may call."""

    def __init__(self, options: ServerOptions, names: Sequence[str], clock: Clock) -> None:
        """`names`: what the model is called; `*` among them takes any name that a client asks for (OPS-07)."""
        self.options = options
        self.names = tuple(name for name in names if name != ANY_NAME)
        assert self.names, "a served model has a name"
        self._takes_any_name = ANY_NAME in names
        self.clock = clock
        self.created = unix_seconds()
        self._engine: ServedEngine | None = None
        self.stalls = 0
        """Times that the watchdog found the engine stalled."""
        self._phase = Phase.LOADING
        self._reason: str | None = None
        self._bridge: EventBridge | None = None
        self._live: set[Generation] = set()
        self._pace = Pace(clock)
        self._text_work = ThreadPoolExecutor(_TEXT_THREADS, thread_name_prefix="ninfer-text")

    def open(self, engine: ServedEngine) -> None:
        """The engine is loaded: requests are served from now on."""
        self._engine = engine
        self._phase = Phase.READY

    def fail(self, reason: str) -> None:
        """The engine will not come, or is gone."""
        self._phase, self._reason = Phase.FAILED, reason

    def find_phase(self) -> tuple[Phase, str | None]:
        """The phase, and the reason when it is not READY."""
        if self._phase is Phase.READY and self._engine is not None:
            health = self._engine.health()
            if health.failure is not None:
                return Phase.FAILED, health.failure
            if health.idle_s > self.options.stall_timeout_s:
                return Phase.STALLED, f"nothing has completed for {health.idle_s:.0f} s"
        return self._phase, self._reason

    def require_engine(self) -> ServedEngine:
        """The engine, or ApiError 503 with the phase as code."""
        phase, _ = self.find_phase()
        if phase in (Phase.READY, Phase.STALLED) and self._engine is not None:  # a stalled engine may come back
            return self._engine
        match phase:
            case Phase.LOADING:
                raise unavailable("The model is still loading.", "loading")
            case Phase.DRAINING:
                raise unavailable("The server is shutting down.", "draining")
            case _:
                raise unavailable("The engine has failed.", "engine_failed")

    def find_load(self) -> HealthFacts | None:
        """Lanes, running and waiting requests; None before the engine is there."""
        return None if self._engine is None else self._engine.health()

    async def find_report(self) -> EngineReport:
        """Totals and occupancy of the engine; empty before it is there."""
        return EMPTY_REPORT if self._engine is None else await asyncio.to_thread(self._engine.report)

    def find_model(self, name: str | None) -> str:
        """The name to answer under: the one asked for, or the served one when none is. ApiError 404 if unknown."""
        if not name:
            return self.names[0]
        if name not in self.names and not self._takes_any_name:
            shown = name if len(name) <= 200 else name[:200] + "..."
            message = f"The model '{shown}' does not exist; this server has: {', '.join(self.names)}."
            raise ApiError(404, message, param="model", code="model_not_found")
        return name

    async def run_text_work(self, work: Callable[[], T]) -> T:
        """Parse, render and tokenise on a thread of its own, so that streams and health go on meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._text_work, work)

    def submit(self, ask: Ask, record: RequestRecord) -> Generation:
        """Hand a request to the engine. Raises ApiError, Overloaded."""
        engine = self.require_engine()
        if self._bridge is None:
            self._bridge = EventBridge(asyncio.get_running_loop())
        inbox = Inbox()
        frontend, wants_entries = engine.frontend, ask.logprobs is not None
        track = TokenTrack(frontend.shown_bytes, frontend.token_bytes, wants_entries=wants_entries)
        assembler = AnswerAssembler(ask.parser, track, single_call=ask.single_call)
        generation = Generation(inbox, assembler, record, on_end=self._note_end)
        try:
            submission = engine.core.submit(
                ask.plan,
                ask.params,
                max_tokens=ask.max_tokens,
                min_tokens=min(ask.min_tokens, ask.max_tokens),  # the context may have cut the budget below the floor
                stop=ask.stops,
                stop_token_ids=ask.stop_token_ids,
                logprobs=ask.logprobs,
                ignore_eos=ask.ignore_eos,
                thinking_budget=ask.thinking_budget,
                sink=self._bridge.make_sink(inbox),
            )
        except QueueFull as error:
            raise too_many(str(error), self._pace.retry_after_s()) from None
        generation.attach(submission)
        self._live.add(generation)
        return generation

    def _note_end(self, generation: Generation) -> None:
        if generation in self._live:
            self._live.discard(generation)
            self._pace.note_end()

    def count_live(self) -> int:
        """Requests in flight."""
        return len(self._live)

    async def drain(self) -> None:
        """Refuse new requests, let those in flight end; after the drain timeout stop them (they are told why)."""
        if self._phase is Phase.READY:
            self._phase, self._reason = Phase.DRAINING, "the server is shutting down"
        deadline = self.clock.now() + self.options.drain_timeout_s
        while self._live and self.clock.now() < deadline:
            await asyncio.sleep(_DRAIN_POLL_S)
        for generation in list(self._live):
            generation.stop()

    def close(self) -> None:
        """Give back the threads."""
        self._text_work.shutdown(wait=False, cancel_futures=True)
