"""The oracle of a world: what each request must say, and that it is said once and in order (V-12, V-15, N2).

Knows requests, events and the digest rule. Does not know how the engine got there, and asks it nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ninfer.base.buffers import IntBuffer
from ninfer.base.errors import DeviceFailure, Overloaded, QueueTimeout, RequestFailed, RequestTimeout
from ninfer.engine.core import RequestHandle
from ninfer.engine.draws import uniform
from ninfer.ports.output import (
    Event,
    Failed,
    Finished,
    FinishReason,
    GenerationStart,
    OutputDelta,
    PrefillProgress,
)

from .chain import expected_tokens
from .faults import FaultPlan
from .workload import VOCAB_TOKENS, Ask, letter


@dataclass(frozen=True, slots=True)
class Speech:
    """A whole reply by the closed form: every token up to its stop, and what of it is published."""

    tokens: tuple[int, ...]
    published: tuple[int, ...]
    text: str
    reason: FinishReason
    stop_string: str | None = None
    stop_token: int | None = None


def expected_speech(ask: Ask, most_tokens: int) -> Speech:
    """What the request says when nothing ends it from outside, or at most the first tokens of it.

    Reads one character at a time.
    """
    draw = None if ask.params.is_greedy else (lambda position: uniform(ask.params.seed, position))
    tokens = expected_tokens(
        ask.prompt,
        min(ask.max_tokens, most_tokens),
        vocab_tokens=VOCAB_TOKENS,
        uniforms=draw,
        floor_tokens=ask.min_tokens,
        forbidden=ask.stop_ids,
        closing=() if ask.closing is None else ask.closing.end.token_ids,
        closing_mark=-1 if ask.closing is None else ask.closing.end.mark,
        closing_after=0 if ask.closing is None else ask.closing.after_tokens,
    )
    endings: dict[str, list[str]] = {}
    for stop in ask.stop_strings:
        endings.setdefault(stop[-1], []).append(stop)
    text = ""
    for index, token in enumerate(tokens):
        said = tuple(tokens[: index + 1])
        if token in ask.stop_ids:
            return Speech(said, said[:-1], text, FinishReason.STOP, None, token)
        text += letter(token)
        found = max((stop for stop in endings.get(text[-1], ()) if text.endswith(stop)), key=len, default=None)
        if found is not None and len(said) > ask.min_tokens:
            kept = len(text) - len(found)
            return Speech(said, said[:kept], text[:kept], FinishReason.STOP, found)
    return Speech(tuple(tokens), tuple(tokens), text, FinishReason.LENGTH)


class DeafCaller(Exception):
    """A sink raised, although none may: it must cost nobody else anything (settled decision 12)."""


@dataclass(slots=True, eq=False)
class Caller:
    """One submitted request and everything heard of it."""

    ask: Ask
    submitted_s: float
    ledger: IntBuffer
    """The buffer that was handed over with the prompt: the engine appends what is accepted."""
    handle: RequestHandle | None = None
    events: list[Event] = field(default_factory=list)
    told: int = 0
    """Events that the world has looked at."""
    cancel_due: int | None = None
    is_cancelled: bool = False
    pauses: int = 0

    def hear(self, event: Event) -> None:
        """The sink of the request."""
        self.events.append(event)
        if len(self.events) == self.ask.deaf_after:
            raise DeafCaller(f"request {self.ticket} does not listen")

    @property
    def is_deaf(self) -> bool:
        """Whether its sink has raised."""
        return self.ask.deaf_after is not None and len(self.events) >= self.ask.deaf_after

    @property
    def ticket(self) -> int:
        """Its ticket."""
        assert self.handle is not None
        return self.handle.ticket

    @property
    def has_ended(self) -> bool:
        """Whether its last event came."""
        return bool(self.events) and isinstance(self.events[-1], Finished | Failed)

    @property
    def is_whole(self) -> bool:
        """It ended by itself."""
        return isinstance(self.events[-1], Finished) and self.events[-1].reason is not FinishReason.CANCELLED

    def said(self) -> tuple[int, ...]:
        """Every token published."""
        deltas = (event for event in self.events if isinstance(event, OutputDelta))
        return tuple(out.token_id for delta in deltas for out in delta.tokens)

    def text(self) -> str:
        """All text published."""
        return "".join(event.text for event in self.events if isinstance(event, OutputDelta))

    def end_words(self) -> tuple[str | int | None, ...]:
        """Why it ended, as far as it ended by itself."""
        end = self.events[-1]
        return (end.reason.value, end.stop_string, end.stop_token) if isinstance(end, Finished) else ()

    def find_start(self) -> GenerationStart | None:
        """Its start, if it came."""
        return next((event for event in self.events if isinstance(event, GenerationStart)), None)


def check_caller(caller: Caller, plan: FaultPlan, now_s: float) -> tuple[int, ...]:
    """Everything about one ended request. Returns the tokens that were accepted. AssertionError names what is wrong."""
    name = f"request {caller.ticket} ({caller.ask.kind.value})"
    _check_order(caller, name)
    end = caller.events[-1]
    assert isinstance(end, Finished | Failed)
    drawn = end.usage.completion_tokens if isinstance(end, Finished) else len(caller.said())
    speech = expected_speech(caller.ask, caller.ask.max_tokens if caller.is_whole else drawn + 1)
    deltas = [event for event in caller.events if isinstance(event, OutputDelta)]
    outs = [out for delta in deltas for out in delta.tokens]
    said, text = caller.said(), caller.text()
    first_wrong = next((i for i, pair in enumerate(zip(said, speech.tokens, strict=False)) if pair[0] != pair[1]), None)
    assert first_wrong is None, f"V-15: {name}: token {first_wrong} of the output differs"
    wanted = caller.ask.logprobs
    assert all((out.logprobs is None) == (wanted is None) for out in outs), f"{name}: log-probabilities"
    if isinstance(end, Failed):
        assert len(said) <= len(speech.tokens), f"V-15: {name}: more tokens than there can be"
        _check_failure(caller, end, plan, now_s, name)
        return said
    accepted = drawn
    if end.reason is FinishReason.CANCELLED:
        assert caller.is_cancelled, f"{name} was cancelled by nobody"
        assert accepted < len(speech.tokens), f"V-15: {name} went on past its stop"
        assert (said, text) == (speech.tokens[:accepted], _text(speech.tokens[:accepted])), f"{name}: text was lost"
    else:
        told = (end.reason, end.stop_string, end.stop_token)
        assert told == (speech.reason, speech.stop_string, speech.stop_token), f"{name} ended by {told}"
        assert accepted == len(speech.tokens), f"V-15: {name}: {accepted} tokens, not {len(speech.tokens)}"
        assert (said, text) == (speech.published, speech.text), f"V-15: {name}: published something else"
    _check_usage(caller, end, name)
    assert tuple(caller.ledger) == (*caller.ask.prompt, *speech.tokens[:accepted]), f"V-15: {name}: its ledger differs"
    return speech.tokens[:accepted]


def _check_order(caller: Caller, name: str) -> None:
    """Start once and first, progress up to the prompt's end, then output, then one end (V-12)."""
    events = caller.events
    ends = [event for event in events if isinstance(event, Finished | Failed)]
    assert len(ends) == 1, f"V-12: {name} ended {len(ends)} times"
    starts = [index for index, event in enumerate(events) if isinstance(event, GenerationStart)]
    assert starts in ([], [0]), f"V-12: {name} started at {starts}"
    covered = -1
    for event in events:
        if isinstance(event, PrefillProgress):
            assert event.prompt_tokens == len(caller.ask.prompt)
            assert covered < event.covered_tokens <= event.prompt_tokens, f"V-12: {name}: progress runs backwards"
            covered = event.covered_tokens
        elif isinstance(event, OutputDelta):
            assert starts, f"V-12: {name}: output before the start"
            assert covered == len(caller.ask.prompt), f"V-12: {name}: output before the prompt is computed"
    start = caller.find_start()
    if start is not None:
        assert start.prompt_tokens == len(caller.ask.prompt)
        loss = start.loss
        assert start.cached_tokens == loss.chosen_point <= loss.deepest_point <= loss.deepest_token_match, (
            f"{name}: loss"
        )


def _check_usage(caller: Caller, end: Finished, name: str) -> None:
    """Cached and computed tokens add up to the prompt; a replay counts apart (USE-03, SCHED-12)."""
    usage, timings, start = end.usage, end.timings, caller.find_start()
    cached = 0 if start is None else start.cached_tokens
    assert (usage.prompt_tokens, usage.cached_tokens) == (len(caller.ask.prompt), cached), f"{name}: usage"
    covered = cached + timings.computed_prompt_tokens
    is_complete = usage.completion_tokens > 0
    assert covered == usage.prompt_tokens if is_complete else covered <= usage.prompt_tokens, (
        f"USE-03: {name}: {cached} cached and {timings.computed_prompt_tokens} computed of {usage.prompt_tokens}"
    )
    assert timings.pauses == caller.pauses, f"{name}: pauses"
    rebuilt = timings.pauses or timings.failed_restores
    assert rebuilt or not timings.replayed_tokens, f"{name}: replayed without a pause"


def _check_failure(caller: Caller, end: Failed, plan: FaultPlan, now_s: float, name: str) -> None:
    """Only the faults that the world plays may end a request."""
    waited_s = now_s - caller.submitted_s
    error = end.error
    if isinstance(error, QueueTimeout):
        assert caller.find_start() is None, f"N2: {name} had a lane and timed out in the queue"
        assert waited_s >= plan.queue_timeout_s, f"{name} timed out early"
    elif isinstance(error, RequestFailed):
        assert caller.is_deaf, f"{name} failed: {error}"
    elif isinstance(error, RequestTimeout):
        assert waited_s >= plan.request_timeout_s, f"{name} timed out early"
    else:
        is_fault = isinstance(error, DeviceFailure | Overloaded) and plan.fails_device
        assert is_fault, f"{name} failed: {type(error).__name__}: {error}"


def _text(tokens: tuple[int, ...]) -> str:
    return "".join(map(letter, tokens))
