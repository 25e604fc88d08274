"""The engine as a library: submit, iterate events, cancel.

Composes a control thread and a frontend that somebody assembled. Text work happens on the caller's thread; only exact
tokens cross to the control thread (settled decision 4).
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Self

from ninfer.base.errors import BadInput
from ninfer.config.options import EngineOptions
from ninfer.frontend.frontend import Frontend
from ninfer.frontend.plan import InputPlan
from ninfer.ports.output import Event, Failed, Finished, OutputDelta, OutputSink
from ninfer.ports.sampling import SamplingParams

from .chat import ChatMessage, read_chat
from .core import EngineCore, HealthFacts, RequestHandle
from .draws import fresh_seed
from .report import EngineReport
from .sampling import make_sampling


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """What an engine is, for people and for /v1/models. `plan`: pages, slots and bytes as they were planned."""

    model_name: str
    max_model_len: int
    lanes: int
    plan: Mapping[str, object]


class RequestStream:
    """Events of one request, in order. Iterate it once, from any thread."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._handle: RequestHandle | None = None
        self._text: list[str] = []
        self._finished: Finished | None = None
        self._error: Exception | None = None

    def attach(self, handle: RequestHandle) -> None:
        """The request was queued."""
        self._handle = handle

    def sink(self, event: Event) -> None:
        """Take one event; called on the control thread."""
        self._events.put(event)

    def cancel(self) -> None:
        """End the request as soon as possible; its last event still comes."""
        if self._handle is not None:
            self._handle.cancel()

    def __iter__(self) -> Iterator[Event]:
        """Every event up to `Finished`. A request that failed raises its error at the end."""
        while self._finished is None and self._error is None:
            event = self._events.get()
            if isinstance(event, Failed):
                self._error = event.error
                break
            if isinstance(event, Finished):
                self._finished = event
            elif isinstance(event, OutputDelta):
                self._text.append(event.text)
            yield event
        if self._error is not None:
            raise self._error

    def text(self) -> str:
        """The whole output; waits for its end. Markers of thinking and tool calls are part of it."""
        for _ in self:
            pass
        return "".join(self._text)

    def result(self) -> Finished:
        """Reason, usage and timings; waits for the end."""
        for _ in self:
            pass
        assert self._finished is not None
        return self._finished


class Engine:
    """One model, its lanes and its restore points. A context manager; `close` ends the control thread."""

    def __init__(
        self,
        core: EngineCore,
        frontend: Frontend,
        options: EngineOptions,
        description: EngineDescription,
        *,
        default_sampling: SamplingParams | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.core = core
        self.frontend = frontend
        self.options = options
        self.default_sampling = default_sampling or SamplingParams()
        self._description = description
        self._on_close = on_close

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def max_context(self) -> int:
        """Tokens of prompt and output together."""
        return self.core.max_context

    def describe(self) -> EngineDescription:
        """Name, limits and plan."""
        return self._description

    def health(self) -> HealthFacts:
        """A moment of the engine."""
        return self.core.health()

    def report(self) -> EngineReport:
        """Totals since the start, and what is occupied now."""
        return self.core.report()

    def find_failure(self) -> str | None:
        """Why it cannot serve any more; None while it lives."""
        return self.core.find_failure()

    def submit(
        self,
        messages: Sequence[ChatMessage] | None = None,
        *,
        prompt: str | None = None,
        token_ids: Sequence[int] | None = None,
        tools: Sequence[Mapping[str, object]] = (),
        template_kwargs: Mapping[str, object] = MappingProxyType({}),
        session: str | None = None,
        max_tokens: int | None = None,
        min_tokens: int = 0,
        stop: str | Sequence[str] = (),
        stop_token_ids: Sequence[int] = (),
        logprobs: int | None = None,
        ignore_eos: bool = False,
        thinking_budget: int | None = None,
        seed: int | None = None,
        **sampling: object,
    ) -> RequestStream:
        """Queue a chat (`messages`), raw text (`prompt`) or raw tokens (`token_ids`); exactly one of them.

        `sampling`: fields of SamplingParams by name (`temperature`, `top_p`, `repetition_penalty`, ...); what is not
        given is the model's own default. Without `seed` each request draws its own. `thinking_budget`: tokens after
        which an open thought is ended. Raises BadInput, naming the field, and Overloaded.
        """
        seed = fresh_seed() if seed is None else seed
        params = make_sampling(self.default_sampling, sampling, seed, self.frontend.vocab_size)
        plan = self._plan(messages, prompt, token_ids, tools, template_kwargs, session)
        stream = RequestStream()
        handle = self.submit_plan(
            plan,
            params,
            max_tokens=max_tokens,
            min_tokens=min_tokens,
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
            stop_token_ids=stop_token_ids,
            logprobs=logprobs,
            ignore_eos=ignore_eos,
            thinking_budget=thinking_budget,
            sink=stream.sink,
        )
        stream.attach(handle)
        return stream

    def submit_plan(
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
        """Queue exact input; `sink` gets the events on the control thread. See `EngineCore.submit`."""
        return self.core.submit(
            plan,
            params,
            max_tokens=max_tokens,
            min_tokens=min_tokens,
            stop=stop,
            stop_token_ids=stop_token_ids,
            logprobs=logprobs,
            ignore_eos=ignore_eos,
            thinking_budget=thinking_budget,
            sink=sink,
        )

    def drain(self, timeout_s: float) -> bool:
        """Refuse new requests and let those in flight end. False: some were left."""
        return self.core.drain(timeout_s)

    def close(self) -> None:
        """Cancel what is left, end the control thread, give back the device. Any number of times."""
        self.core.stop()
        if self._on_close is not None:
            self._on_close()
            self._on_close = None

    def _plan(
        self,
        messages: Sequence[ChatMessage] | None,
        prompt: str | None,
        token_ids: Sequence[int] | None,
        tools: Sequence[Mapping[str, object]],
        template_kwargs: Mapping[str, object],
        session: str | None,
    ) -> InputPlan:
        if sum(given is not None for given in (messages, prompt, token_ids)) != 1:
            raise BadInput("give one of messages, prompt and token_ids", param="messages")
        if messages is not None:
            return self.frontend.plan_chat(read_chat(messages, tools, template_kwargs, session))
        if prompt is not None:
            return self.frontend.plan_text(prompt)
        assert token_ids is not None
        return self.frontend.plan_tokens(token_ids)
