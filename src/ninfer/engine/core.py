"""The control thread: mailbox in, cycles, sinks out; start, drain, stop, and what becomes of everybody when it fails.

Other threads only append to the mailbox and read facts. `step` is the thread's whole work, so that tests and
simulations can turn the engine by hand.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from ninfer.base.errors import BadInput, DeviceFailure, NInferError, Overloaded, QueueFull
from ninfer.base.ids import Ticket
from ninfer.frontend.plan import InputPlan
from ninfer.ports.output import OutputSink
from ninfer.ports.sampling import SamplingParams
from ninfer.resource.continuation import History

from .control import Closing, ControlWatch
from .cycle import Cycle
from .errorlog import log_error, name_error
from .publish import Publication
from .report import EMPTY_REPORT, EngineReport, make_report
from .request import Interrupt, Request
from .stops import StopWatch, TextDecoder, forbid

_log = logging.getLogger("ninfer.engine")
DEVICE_WAIT_S = 0.02
_STILL_CYCLES = 3
"""So many cycles may find nothing to do while requests are there and nothing is in flight."""
THREAD_NAME = "ninfer-engine"


class Condition(Enum):
    """What /health can say of an engine."""

    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """A moment of the engine, read from any thread. `idle_s`: seconds since something last completed."""

    condition: Condition
    lanes: int
    residents: int
    waiting: int
    paused: int
    idle_s: float
    failure: str | None = None


class _ReportAsk:
    """A letter: make a report. `made` is set when it is there."""

    __slots__ = ("made",)

    def __init__(self) -> None:
        self.made = threading.Event()


class RequestHandle:
    """A submitted request, as its owner sees it."""

    __slots__ = ("_core", "ticket")

    def __init__(self, core: EngineCore, ticket: Ticket) -> None:
        self._core = core
        self.ticket = ticket

    def cancel(self) -> None:
        """End it as soon as possible. Any thread, any number of times; too late is no error."""
        self._core.cancel(self.ticket)


class EngineCore:
    """Owns the cycle and its thread."""

    def __init__(
        self,
        cycle: Cycle,
        *,
        decoder: Callable[[], TextDecoder],
        max_queue: int,
        vocab_tokens: int,
        device_wait: Callable[[float], None],
    ) -> None:
        """`decoder`: a fresh text decoder for each request. `vocab_tokens`: how many ids can be drawn. `device_wait`:
        blocks until the device may have news."""
        self._cycle = cycle
        self._state = cycle.state
        self._decoder = decoder
        self._vocab_tokens = vocab_tokens
        self._most_live = max_queue + self._state.settings.lane_count
        self._device_wait = device_wait
        self._lock = threading.Lock()
        self._mailbox: deque[Request | Ticket | _ReportAsk] = deque()
        self._report = EMPTY_REPORT
        self._arriving = 0
        self._first_arrival_s = 0.0
        self._next_ticket = 0
        self._wake = threading.Event()
        self._drained = threading.Event()
        self._condition = Condition.READY
        self._stopping = False
        self._still_cycles = 0
        self._failure: NInferError | None = None
        self._thread: threading.Thread | None = None

    @property
    def max_context(self) -> int:
        """Tokens of prompt and output together."""
        return self._state.settings.max_context

    def start(self) -> None:
        """Start the control thread."""
        assert self._thread is None
        self._thread = threading.Thread(target=self._loop, name=THREAD_NAME, daemon=True)
        self._thread.start()

    def submit(
        self,
        plan: InputPlan,
        params: SamplingParams,
        *,
        max_tokens: int | None = None,
        min_tokens: int = 0,
        stop: Sequence[str] = (),
        stop_token_ids: Sequence[int] = (),
        logprobs: int | None = None,
        ignore_eos: bool = False,
        thinking_budget: int | None = None,
        sink: OutputSink,
    ) -> RequestHandle:
        """Queue a request. The plan's buffers belong to the engine from here on.

        `max_tokens` is cut to what the context leaves; within the first `min_tokens` nothing stops. `stop_token_ids`
        stop beside the model's own, which alone `ignore_eos` switches off. `thinking_budget`: after so many tokens the
        thought that the prompt opens is ended, if the model has not ended it. Raises BadInput, Overloaded, or
        DeviceFailure when the engine has failed. `sink` is called on the control thread, must return at once and must
        not raise.
        """
        prompt_tokens = len(plan.tokens)
        _check_whole("max_tokens", max_tokens, 1)
        budget = _check_budget(prompt_tokens, max_tokens, self.max_context)
        _check_floor(min_tokens, max_tokens)
        _check_stop(stop, stop_token_ids, self._vocab_tokens)
        _check_whole("logprobs", logprobs, 0)
        _check_whole("thinking_budget", thinking_budget, 0)
        stops = frozenset(stop_token_ids).union(() if ignore_eos else plan.stop_token_ids)
        watch = StopWatch(
            self._decoder(),
            stop_token_ids=stops,
            stop_strings=stop,
            budget_tokens=budget,
            min_tokens=min_tokens,
            early_mask=forbid(stops, self._vocab_tokens) if min_tokens and stops else None,
        )
        publication = Publication(sink, self._state.clock, prompt_tokens)
        history = History(plan.tokens, plan.digests)
        with self._lock:
            self._check_open()
            ticket = Ticket(self._next_ticket)
            self._next_ticket += 1
            control = _watch_thought(plan, thinking_budget)
            request = Request(ticket, plan, params, logprobs, watch, publication, history, control)
            self._mailbox.append(request)
            if not self._arriving:
                self._first_arrival_s = publication.submitted_s
            self._arriving += 1
        self._wake.set()
        return RequestHandle(self, ticket)

    def cancel(self, ticket: Ticket) -> None:
        """Ask for the end of a request."""
        self._mailbox.append(ticket)
        self._wake.set()

    def step(self) -> bool:
        """Take the mail, run one cycle. False: nothing to do until mail, a deadline or the device brings news."""
        while self._mailbox:
            self._take(self._mailbox.popleft())
        moved = self._cycle.run()
        if self._condition is Condition.DRAINING and not self._state.requests and not self._mailbox:
            self._drained.set()
        return moved

    def drain(self, timeout_s: float) -> bool:
        """Refuse new requests and wait for those in flight. False: some were left after `timeout_s`."""
        with self._lock:
            if self._condition is Condition.READY:
                self._condition = Condition.DRAINING
        self._wake.set()
        return self._drained.wait(timeout_s)

    def stop(self) -> None:
        """Cancel what is left and end the control thread."""
        with self._lock:
            if self._condition is not Condition.FAILED:
                self._condition = Condition.DRAINING
            self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._condition is not Condition.FAILED:
            self._condition = Condition.STOPPED

    def health(self) -> HealthFacts:
        """A moment of the engine; takes no lock that the control thread holds for long."""
        state = self._state
        fresh = state.queue.fresh_count
        return HealthFacts(
            condition=self._condition,
            lanes=state.members.lane_count,
            residents=len(state.members),
            waiting=fresh + self._arriving,
            paused=len(state.queue) - fresh,
            idle_s=self._find_idle_s(),
            failure=self.find_failure(),
        )

    def _find_idle_s(self) -> float:
        """Since when somebody waits in vain: for a completion, or for the control thread to take the mail."""
        state = self._state
        if state.requests:
            return max(0.0, state.clock.now() - state.last_progress_s)
        return max(0.0, state.clock.now() - self._first_arrival_s) if self._arriving else 0.0

    def report(self, timeout_s: float = 1.0) -> EngineReport:
        """Totals and occupancy, asked of the control thread; what it said last when it does not answer in time.

        Any thread but the control thread itself.
        """
        if self._thread is None or not self._thread.is_alive():
            if self._condition is not Condition.FAILED:
                self._report = make_report(self._state)
            return self._report
        ask = _ReportAsk()
        self._mailbox.append(ask)
        self._wake.set()
        ask.made.wait(timeout_s)
        return self._report

    def find_failure(self) -> str | None:
        """Why the engine cannot serve any more; None while it lives."""
        return None if self._failure is None else str(self._failure)

    def _check_open(self) -> None:
        if self._failure is not None:
            raise DeviceFailure(f"the engine has failed: {self._failure}")
        if self._condition is not Condition.READY:
            raise Overloaded("the engine is shutting down")
        if len(self._state.requests) + self._arriving >= self._most_live:
            raise QueueFull(f"the waiting queue is full ({self._most_live} requests in all)")

    def _take(self, letter: Request | Ticket | _ReportAsk) -> None:
        match letter:
            case Request():
                with self._lock:
                    self._arriving -= 1
                    if not self._state.requests:
                        self._state.last_progress_s = self._state.clock.now()  # what waited for nothing was not stuck
                    self._cycle.arrive(letter)
            case _ReportAsk():
                self._report = make_report(self._state)
                letter.made.set()
            case _:
                self._cycle.interrupt(letter, Interrupt.CANCEL)

    def _loop(self) -> None:
        try:
            while True:
                moved = self.step()
                self._still_cycles = 0 if moved else self._still_cycles
                if self._stopping:
                    for ticket in list(self._state.requests):
                        self._cycle.interrupt(ticket, Interrupt.CANCEL)
                    if not self._state.requests and not self._mailbox:
                        return
                if not moved and not self._mailbox:
                    self._rest()
        except BaseException as error:
            self.fail(error)

    def _rest(self) -> None:
        """Sleep until there may be something to do."""
        if self._state.has_work_in_flight:
            self._device_wait(DEVICE_WAIT_S)
            return
        if self._state.requests:  # they wait for what the last cycle released, or for an event that will never come
            self._still_cycles += 1
            phases = [(ticket, request.phase.value) for ticket, request in self._state.requests.items()]
            assert self._still_cycles < _STILL_CYCLES, f"V-16: nothing moves, and there wait {phases}"
            return
        deadline = self._cycle.next_deadline_s
        timeout = None if deadline is None else max(0.0, deadline - self._state.clock.now())
        self._wake.wait(timeout)
        self._wake.clear()

    def fail(self, error: BaseException) -> None:
        """The engine as a whole is gone: everybody hears it once, nobody is taken any more."""
        failure = error if isinstance(error, DeviceFailure) else DeviceFailure(name_error(error))
        with self._lock:
            self._failure = failure
            self._condition = Condition.FAILED
            letters = [letter for letter in self._mailbox if isinstance(letter, Request)]
            asks = [letter for letter in self._mailbox if isinstance(letter, _ReportAsk)]
            self._mailbox.clear()
            self._arriving = 0
        log_error(_log, logging.CRITICAL, "the engine has failed", error)
        for request in letters:
            self._state.requests.setdefault(request.ticket, request)
        for ask in asks:
            ask.made.set()
        self._cycle.endings.abandon(failure)
        self._drained.set()


def _check_budget(prompt_tokens: int, max_tokens: int | None, max_context: int) -> int:
    """Output tokens that fit behind the prompt. The last one is never fed, but it counts (LIMIT-01)."""
    if prompt_tokens == 0:
        raise BadInput("the prompt is empty", param="prompt", code="empty_prompt")
    room = max_context - prompt_tokens
    if room < 1:
        raise BadInput(
            f"maximum context length is {max_context} tokens, the prompt has {prompt_tokens} tokens and leaves no "
            "room for output",
            param="prompt",
            code="context_length_exceeded",
        )
    return room if max_tokens is None else min(max_tokens, room)


def _check_whole(name: str, value: object, low: int) -> None:
    """None, or a whole number from `low` on. The server checks its own; a library caller may pass anything."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"{name} must be a whole number", param=name, code="invalid_type")
    if value < low:
        raise BadInput(f"{name} must be at least {low}", param=name)


def _check_floor(min_tokens: int, max_tokens: int | None) -> None:
    _check_whole("min_tokens", min_tokens, 0)
    if max_tokens is not None and min_tokens > max_tokens:
        raise BadInput("min_tokens must not be larger than max_tokens", param="min_tokens")


def _check_stop(stop: Sequence[object], token_ids: Sequence[object], vocab_tokens: int) -> None:
    if not all(isinstance(text, str) for text in stop):
        raise BadInput("stop must hold strings", param="stop", code="invalid_type")
    if not all(stop):
        raise BadInput("stop strings must not be empty", param="stop")
    for token_id in token_ids:
        if isinstance(token_id, bool) or not isinstance(token_id, int) or not 0 <= token_id < vocab_tokens:
            message = f"stop_token_ids: {token_id!r} is not a token id in [0, {vocab_tokens})"
            raise BadInput(message, param="stop_token_ids")


def _watch_thought(plan: InputPlan, thinking_budget: int | None) -> ControlWatch | None:
    if thinking_budget is None or plan.thought_end is None:
        return None
    return ControlWatch(Closing(thinking_budget, plan.thought_end))
