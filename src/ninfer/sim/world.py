"""A world from a seed: the true engine over the simulated device, turned by hand, with callers, faults and audits.

Everything is a function of the seed: no clock, no thread, no set order. A failure says in which cycle it was found.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from ninfer.base.buffers import IntBuffer
from ninfer.base.clock import ManualClock
from ninfer.base.errors import BadInput, DeviceFailure, Overloaded
from ninfer.base.events import Arrived, Cancelled, DeviceFailed, Ended, Paused, Refused, Started, TraceEvent
from ninfer.base.identity import PrefixDigests
from ninfer.base.ids import Ticket
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Pool
from ninfer.engine.core import EngineCore
from ninfer.engine.cycle import Cycle
from ninfer.engine.draws import uniform
from ninfer.engine.request import Phase
from ninfer.engine.state import CycleSettings, EngineState
from ninfer.frontend.plan import InputPlan
from ninfer.ports.output import Failed, Finished, GenerationStart
from ninfer.resource.admission import Claim, Right
from ninfer.resource.manager import ResourceManager
from ninfer.resource.retention import Retention
from ninfer.sched.members import Members

from .check import Caller, DeafCaller, check_caller
from .counts import Counts
from .device import SimDevice
from .spec import WorldSpec
from .watched import WatchedProgram
from .workload import VOCAB_TOKENS, Ask, Callers, Workload, letter

TraceListener = Callable[[int, TraceEvent], None]
"""Called with the number of the cycle."""

CYCLE_S = 0.001
_IDENTITY = b"sim"
_LAST_CYCLES = 1000
"""Within so many cycles after the last cancel everything is over."""
_STILL_CYCLES = 3


class Letters:
    """A decoder that writes each token as one character."""

    def push(self, token_id: int) -> str:
        """The character of a token."""
        return letter(token_id)

    def finish(self) -> str:
        """Nothing is ever held."""
        return ""


@dataclass(frozen=True, slots=True)
class Seats:
    """Who is where at the edge of a cycle."""

    residents: frozenset[Ticket]
    paused: frozenset[Ticket]
    protected: frozenset[Ticket]
    binding: frozenset[Ticket]
    """One whose restore fails loses its lane again (L3)."""


class WorldFailure(Exception):
    """What a seed found, with the cycle in which it did."""


class World:
    """One run. `listener` gets each trace event with the number of its cycle. `callers`: all that were ever submitted,
    or, if they are not remembered, those that still run.
    """

    def __init__(
        self,
        spec: WorldSpec,
        listener: TraceListener | None = None,
        *,
        workload: Callers | None = None,
        remembers_callers: bool = True,
    ) -> None:
        self.spec = spec
        self.counts = Counts()
        self.callers: list[Caller] = []
        self._listener = listener
        self._remembers = remembers_callers
        self._workload = workload or Workload(spec.workload, random.Random(f"workload {spec.seed}"))
        self._clock = ManualClock()
        self._live: list[Caller] = []
        self._cycle = 0
        self._passes: dict[int, int] = {}
        self._contained = _Contained()
        self._device = SimDevice(
            slots=spec.slots,
            pages=spec.pages,
            vocab_tokens=VOCAB_TOKENS,
            faults=spec.faults.of_device(spec.seed),
            check_every=spec.check_every,
            longest_run=spec.longest_run,
            uniforms=uniform,
            host_bytes=spec.host_bytes,
            run_ahead_slots=spec.lanes if spec.runs_ahead else 0,
            feeds_draws=spec.feeds_draws,
        )
        program = WatchedProgram(
            self._device,
            self.counts,
            spec.faults,
            seed=spec.seed,
            listener=None if listener is None else self._tell,
        )
        self._program = program
        self._resources = ResourceManager(program, keeps_points=spec.keeps_points, lane_count=spec.lanes)
        settings = CycleSettings(
            max_context=spec.max_context,
            lane_count=spec.lanes,
            prefill_chunk_tokens=spec.chunk_tokens,
            queue_timeout_s=spec.faults.queue_timeout_s,
            request_timeout_s=spec.faults.request_timeout_s,
            audit_every_cycles=spec.audit_every,
            max_gap_s=spec.max_gap_s,
            runs_ahead=spec.runs_ahead,
        )
        self._state = EngineState(settings, program, self._resources, self._clock, Members(spec.lanes))
        self._core = EngineCore(
            Cycle(self._state),
            decoder=Letters,
            max_queue=spec.max_queue,
            vocab_tokens=VOCAB_TOKENS,
            device_wait=self._device.wait,
        )

    def run(self) -> None:
        """Until every caller is served. Raises WorldFailure."""
        self._guard(self._run)

    def run_one(self, ask: Ask) -> None:
        """One request and nothing else. Raises WorldFailure."""
        self._workload.close()
        self._guard(lambda: self._run_one(ask))

    def count_points(self) -> tuple[int, int]:
        """Restore points of reused and of ordinary standing (H3)."""
        classes = self._resources.list_classes()
        return len(classes[Retention.REUSED]), len(classes[Retention.ORDINARY])

    def _run_one(self, ask: Ask) -> None:
        assert self._submit(Caller(replace(ask, owner=-1), self._clock.now(), IntBuffer(ask.prompt)))
        self._run()

    def _guard(self, run: Callable[[], None]) -> None:
        """Whatever goes wrong is a WorldFailure; of several errors the first is the one to tell."""
        log = logging.getLogger("ninfer.engine")
        before = log.propagate
        log.addHandler(self._contained)
        log.propagate = False
        try:
            run()
        except DeviceFailure as error:
            raise WorldFailure(f"cycle {self._cycle}: DeviceFailure outside a cycle: {error}") from error
        except Exception as error:
            first = self._contained.first or error
            raise WorldFailure(f"cycle {self._cycle}: {type(first).__name__}: {first or error}") from first
        finally:
            log.removeHandler(self._contained)
            log.propagate = before

    def _run(self) -> None:
        still = 0
        while not self._workload.is_over or self._live or self._state.has_work_in_flight:
            self._arrive()
            self._cancel_due()
            if self._cycle == self.spec.cycles:
                self._close()
            self._clock.advance(CYCLE_S)
            before = self._seats()
            try:
                moved = self._core.step()
            except DeviceFailure as error:
                self._fail(error)
                return
            self._cycle += 1
            assert self._contained.first is None, "an error was contained"
            self._check_turns(before, self._seats())
            self._note_events()
            idle = bool(self._state.requests) and not moved and not self._state.has_work_in_flight
            still = still + 1 if idle else 0
            waiting = [(request.ticket, request.phase.value) for request in self._state.requests.values()]
            assert still < _STILL_CYCLES, f"V-16: nothing moves, and there wait {waiting}"
            assert self._cycle < self.spec.cycles + _LAST_CYCLES, f"V-16: no end, there wait {waiting}"
        self._check_end()
        self._close_counts()

    def _arrive(self) -> None:
        for ask in self._workload.next_asks(self._cycle):
            caller = Caller(ask, self._clock.now(), IntBuffer(ask.prompt))
            if not self._submit(caller):
                self._workload.note_end(ask, (), self._cycle)

    def _submit(self, caller: Caller) -> bool:
        ask = caller.ask
        try:
            caller.handle = self._core.submit(
                _plan(caller),
                ask.params,
                max_tokens=ask.max_tokens,
                min_tokens=ask.min_tokens,
                stop=ask.stop_strings,
                logprobs=ask.logprobs,
                thinking_budget=None if ask.closing is None else ask.closing.after_tokens,
                sink=caller.hear,
            )
        except Overloaded as error:
            if self._listener is not None:
                self._tell(Refused(ask.kind.value, type(error).__name__))
            return False
        except BadInput as error:
            raise AssertionError(f"a legal request was refused: {error}") from error
        self.counts.requests += 1
        self._live.append(caller)
        if self._remembers:
            self.callers.append(caller)
        if ask.cancel is not None and ask.cancel.phase is None:
            caller.cancel_due = self._cycle + ask.cancel.after_cycles
        if self._listener is not None:
            event = Arrived(caller.ticket, ask.kind.value, len(ask.prompt), ask.recovery, ask.max_tokens)
            self._tell(event)
        return True

    def _cancel_due(self) -> None:
        for caller in self._live:
            plan = caller.ask.cancel
            if plan is None or caller.is_cancelled:
                continue
            request = self._state.requests.get(Ticket(caller.ticket))
            phase = "queued" if request is None else request.phase.value
            if caller.cancel_due is None and phase == plan.phase:
                caller.cancel_due = self._cycle + plan.after_cycles
            if caller.cancel_due is not None and caller.cancel_due <= self._cycle:
                self._cancel(caller, phase)

    def _cancel(self, caller: Caller, phase: str) -> None:
        assert caller.handle is not None
        caller.is_cancelled = True
        caller.handle.cancel()
        self.counts.cancels += 1
        if self._listener is not None:
            self._tell(Cancelled(caller.ticket, phase))

    def _close(self) -> None:
        """The world ends: nobody comes any more, and who is left gives up, wherever that finds them."""
        self._workload.close()
        for caller in self._live:
            if not caller.is_cancelled:
                self._cancel(caller, "closing")

    def _note_events(self) -> None:
        """What callers heard in this cycle, checked where it ended."""
        self._check_order()
        ended = [caller for caller in self._live if self._note_news(caller)]
        if not ended:
            return
        for caller in ended:
            accepted = check_caller(caller, self.spec.faults, self._clock.now())
            self.counts.timeouts += isinstance(caller.events[-1], Failed)
            if self._listener is not None:
                self._tell(Ended(caller.ticket, _how(caller), len(accepted)))
            self._workload.note_end(caller.ask, accepted, self._cycle)
            self._passes.pop(caller.ticket, None)
        self._live = [caller for caller in self._live if not caller.has_ended]
        assert {caller.ticket for caller in self._live} == set(self._state.requests), "a request is lost"

    def _note_news(self, caller: Caller) -> bool:
        """Whether the last event came."""
        if caller.told == 0 and caller.events and self._listener is not None:
            start = caller.events[0]
            if isinstance(start, GenerationStart):
                self._tell(Started(caller.ticket, start.cached_tokens, start.restore_path.value))
        caller.told = len(caller.events)
        request = self._state.requests.get(Ticket(caller.ticket))
        if request is not None and request.publication.pauses > caller.pauses:
            self._note_pauses(caller, request.publication.pauses)
        if not caller.has_ended:
            return False
        end = caller.events[-1]
        if isinstance(end, Finished) and end.timings.pauses > caller.pauses:
            self._note_pauses(caller, end.timings.pauses)
        return True

    def _note_pauses(self, caller: Caller, pauses: int) -> None:
        """Only for somebody older who holds or held a lane (J4, J5)."""
        self.counts.pauses += pauses - caller.pauses
        caller.pauses = pauses
        older = [other for other in self._live if other.ticket < caller.ticket]
        assert any(other.events for other in older), f"J4: {caller.ticket}, the oldest one, was paused"
        if self._listener is not None:
            self._tell(Paused(caller.ticket, pauses))

    def _seats(self) -> Seats:
        state = self._state
        paused = frozenset(ticket for ticket, request in state.requests.items() if request.phase is Phase.PAUSED)
        binding = frozenset(() if state.binding is None else (state.binding,))
        return Seats(frozenset(state.members.by_ticket()), paused, state.protected(), binding)

    def _check_turns(self, before: Seats, after: Seats) -> None:
        """The youngest that may be was paused (J4), the oldest resumed (J5), with a full permit (C9)."""
        bystanders = (before.residents & after.residents) - before.protected - after.protected
        for ticket in sorted((before.residents & after.paused) - before.binding):
            assert all(other < ticket for other in bystanders), (
                f"J4: {ticket} was paused, {sorted(bystanders)} were not"
            )
        waiting = before.paused & after.paused
        for ticket in sorted(before.paused & after.residents):
            assert all(other > ticket for other in waiting), f"J5: {ticket} resumed before {min(waiting)}"
        lacking = self._program.take_lacking()
        for ticket in before.protected & after.protected:
            sequence = self._state.requests[ticket].sequence
            assert sequence not in lacking, f"C9: {ticket} lacked room for its rebuild"

    def _check_order(self) -> None:
        """A waiting request is passed by at most C younger ones (J2, V-10); one bind is under way at most (V-07)."""
        waiting = [caller.ticket for caller in self._live if not caller.events]
        started = [caller.ticket for caller in self._live if caller.find_start() is not None and not caller.told]
        for ticket in waiting:
            self._passes[ticket] = self._passes.get(ticket, 0) + sum(younger > ticket for younger in started)
            assert self._passes[ticket] <= self.spec.lanes, f"V-10: {ticket} was passed {self._passes[ticket]} times"
        binding = [request for request in self._state.requests.values() if request.phase is Phase.BINDING]
        assert len(binding) <= 1, "V-07: two binds are under way"

    def _fail(self, error: DeviceFailure) -> None:
        """The device is gone: everybody hears it once, and nobody is taken any more (SCHED-09)."""
        self.counts.device_failures += 1
        self._close_counts()
        if self._listener is not None:
            self._tell(DeviceFailed(str(error)))
        self._core.fail(error)
        for caller in self._live:
            assert caller.has_ended, f"request {caller.ticket} never heard of the failure"
            end = caller.events[-1]
            if isinstance(end, Finished) and end.timings.pauses > caller.pauses:
                caller.pauses = end.timings.pauses
            check_caller(caller, self.spec.faults, self._clock.now())
        assert not self._state.requests
        ask = Workload(self.spec.workload, random.Random(0)).next_asks(0)[0]
        late = Caller(ask, self._clock.now(), IntBuffer(ask.prompt))
        with suppress(DeviceFailure):
            self._submit(late)
            raise AssertionError("a failed engine took a request")

    def _close_counts(self) -> None:
        self.counts.cycles = self._cycle
        engine = self._state.counters
        self.counts.sources_kept, self.counts.leads_followed = engine.sources_kept, engine.leads_followed
        self.counts.keeps_revoked = engine.keeps_revoked
        self.counts.close(late=self._device.late, overtaking=self._device.overtaking)

    def _check_end(self) -> None:
        """Nothing is left but points, and what they hold comes back when they go (V-01, V-02, C5)."""
        self._state.audit()
        assert not self._state.has_work_in_flight
        assert len(self._state.members) == 0
        assert len(self._state.queue) == 0
        before = replace(self.counts)
        for pool in Pool:
            occupancy = self._program.occupancy()
            if occupancy.free[pool] < occupancy.capacity[pool]:
                gap = Shortfall(pool, occupancy.capacity[pool], occupancy.free[pool])
                assert self._resources.reclaim(gap, Claim(Right.NECESSARY)), f"V-02: {pool.value} cannot be emptied"
        occupancy = self._program.occupancy()
        self.counts.reclaims = before.reclaims
        assert occupancy.free == occupancy.capacity, f"V-02: {occupancy.free} free of {occupancy.capacity}"
        facts = self._resources.facts()
        assert (facts.records, facts.points, facts.branches) == (0, 0, 0), f"C5: {facts} are left"
        self._state.audit()

    def _tell(self, event: TraceEvent) -> None:
        assert self._listener is not None
        self._listener(self._cycle, event)


class _Contained(logging.Handler):
    """Keeps the first error that the engine contained; only those of deaf callers are expected."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Take the exception of a log record."""
        error = getattr(record, "error", None)
        if self.first is None and not isinstance(error, DeafCaller):
            self.first = error


def _plan(caller: Caller) -> InputPlan:
    ask, buffer = caller.ask, caller.ledger
    digests = PrefixDigests(_IDENTITY)
    digests.extend_to(buffer, len(buffer))
    stops = frozenset(ask.stop_ids)
    return InputPlan(
        buffer,
        digests,
        ask.recovery,
        stops,
        shared_markers=ask.markers,
        anchors=ask.anchors,
        execution_frontiers=ask.cuts,
        session=ask.session,
        thought_end=None if ask.closing is None else ask.closing.end,
    )


def _how(caller: Caller) -> str:
    end = caller.events[-1]
    return (
        end.reason.value if isinstance(end, Finished) else type(end.error).__name__ if isinstance(end, Failed) else ""
    )
