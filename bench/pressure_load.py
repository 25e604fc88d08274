"""What the pressure run asks, and how an answer is taken down: mixed requests whose answers are settled by themselves.

Conversations of one to three turns with shared beginnings, tools, stop strings and ids, penalties, seeds, logit bias
and least lengths. Knows the library's front door only.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event as Signal
from typing import Any

from demo.tools import draw_errand
from demo.words import invent
from ninfer.engine.chat import read_chat
from ninfer.engine.core import RequestHandle
from ninfer.engine.facade import Engine
from ninfer.engine.sampling import make_sampling
from ninfer.frontend.channels import ContentDelta, ReasoningDelta, ToolCall
from ninfer.frontend.messages import ChatInput
from ninfer.frontend.plan import InputPlan
from ninfer.frontend.tool_calls import CALL_CLOSE, CALL_OPEN
from ninfer.ports.output import Event, Failed, Finished, FinishReason, OutputDelta

HANG_S = 600.0
_SYSTEMS = ("Your name is Nova.", "You are a helpful assistant. Answer briefly.", None)
_STOPS = (" the", "on", "er", "an", " is", "zzz")
_BUDGETS = (0.1, 0.3, 0.5, 0.7)
"""Output tokens, as shares of the context."""
_SPARE_TOKENS = 24
"""A turn that leaves less of the context than this is not asked."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything a request said, in the form in which two runs are compared. `error`: it failed."""

    token_ids: tuple[int, ...]
    text: str
    reason: str
    stop_string: str | None = None
    stop_token: int | None = None
    calls: tuple[tuple[str, str], ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """One request: a chat and how its tokens are drawn. `limits`: arguments of `Engine.submit_plan`."""

    name: str
    turn: int
    chat: ChatInput
    seed: int
    sampling: dict[str, Any]
    limits: dict[str, Any]


class Reader:
    """Asks one task of one engine and takes down what comes."""

    def __init__(self, engine: Engine, task: Task, plan: InputPlan | None = None) -> None:
        self.text = ""
        self.end: Finished | Failed | None = None
        self._engine, self._task = engine, task
        self._plan = plan or engine.frontend.plan_chat(task.chat)
        self._tokens: list[int] = []
        self._ended = Signal()

    def submit(self) -> RequestHandle:
        """Queue it."""
        engine, task = self._engine, self._task
        params = make_sampling(engine.default_sampling, task.sampling, task.seed, engine.frontend.vocab_size)
        return engine.submit_plan(self._plan, params, sink=self._take, **task.limits)

    @property
    def output_tokens(self) -> int:
        """So many have been published by now."""
        return len(self._tokens)

    @property
    def is_inside_call(self) -> bool:
        """What has been said so far ends in a tool call that is still open."""
        return self.text.rfind(CALL_OPEN) > self.text.rfind(CALL_CLOSE)

    def wait(self) -> Finished | Failed:
        """The end. Raises TimeoutError: nobody answers any more."""
        if not self._ended.wait(HANG_S):
            raise TimeoutError(f"{self._task.name}: no end after {HANG_S:.0f} s; said so far: {self.text!r}")
        assert self.end is not None
        return self.end

    def answer(self) -> Answer:
        """Waits for the end."""
        end = self.wait()
        tokens = tuple(self._tokens)
        if isinstance(end, Failed):
            return Answer(tokens, self.text, "failed", error=str(end.error))
        calls = tuple((call["name"], call["arguments"]) for call in self.message().get("tool_calls", ()))
        return Answer(tokens, self.text, end.reason.value, end.stop_string, end.stop_token, calls)

    def message(self) -> dict[str, Any]:
        """The answer as the client sends it back with the next turn. It must have finished."""
        assert isinstance(self.end, Finished)
        parser = self._engine.frontend.channel_parser(self._plan, self._task.chat, lambda: "call")
        is_cut = self.end.reason is not FinishReason.STOP or self.end.stop_string is not None
        parts = [*parser.push(self.text), *parser.finish(is_cut)]
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(part.text for part in parts if isinstance(part, ContentDelta)),
            "reasoning_content": "".join(part.text for part in parts if isinstance(part, ReasoningDelta)),
        }
        calls = [{"name": part.name, "arguments": part.arguments} for part in parts if isinstance(part, ToolCall)]
        return message | ({"tool_calls": calls} if calls else {})

    def _take(self, event: Event) -> None:
        if isinstance(event, OutputDelta):
            self.text += event.text
            self._tokens += [token.token_id for token in event.tokens]
        elif isinstance(event, Finished | Failed):
            self.end = event
            self._ended.set()


@dataclass(slots=True)
class Conversation:
    """A client's side of a chat; each turn stands behind the answers before it. `nudge`: added to the logits of the
    markers of a tool call where there are tools, for a model that would make none by itself."""

    number: int
    seed: int
    nudge: float
    messages: list[dict[str, Any]] = field(default_factory=list)

    def play(self, engine: Engine) -> Iterator[tuple[Task, Answer]]:
        """Ask the turns one after the other."""
        source = random.Random(f"{self.seed} {self.number}")
        system = _SYSTEMS[self.number % len(_SYSTEMS)]
        if system is not None:
            self.messages.append({"role": "system", "content": system})
        errand = draw_errand(source.randrange(1000)) if self.number % 3 else None
        tools = [] if errand is None else errand.tools
        said: dict[str, Any] = {}
        for turn in range(source.randint(1, 3)):
            self.messages.append(_next_message(source, said, errand.request if errand and not turn else None))
            chat = read_chat(self.messages, tools, {}, None)
            sampling, limits = _draw_manner(source, engine)
            if tools and self.nudge:
                sampling["logit_bias"] = _nudge(engine, self.nudge)
            task = Task(f"{self.number}.{turn}", turn, chat, source.randrange(2**31), sampling, limits)
            plan = engine.frontend.plan_chat(chat)
            if len(plan.tokens) + _SPARE_TOKENS > engine.max_context:
                return
            reader = Reader(engine, task, plan)
            reader.submit()
            answer = reader.answer()
            yield task, answer
            if answer.error:
                return
            said = reader.message()
            self.messages.append(said)


def _next_message(source: random.Random, said: dict[str, Any], request: str | None) -> dict[str, Any]:
    """The first turn brings the errand, a call its result, anything else more talk."""
    if said.get("tool_calls"):
        return {"role": "tool", "content": f'{{"result": {source.randint(1, 99)}}}'}
    talk = " ".join(f"I met {invent(source)} in {invent(source)}." for _ in range(source.randint(1, 4)))
    asked = source.choice(("Who did I meet?", "Where do I live?", "Thank you very much!"))
    return {"role": "user", "content": request or f"{talk} {asked}"}


def _draw_manner(source: random.Random, engine: Engine) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sampling and limits of one request."""
    vocab = engine.frontend.vocab_size
    sampling: dict[str, Any] = source.choice(
        ({"temperature": 0.0}, {"temperature": 0.9, "top_p": 0.95}, {"temperature": 1.1, "top_k": 40, "min_p": 0.02})
    )
    sampling = dict(sampling)
    if source.random() < 0.3:
        sampling |= {"presence_penalty": 0.6, "frequency_penalty": 0.2}
    if source.random() < 0.3:
        sampling["repetition_penalty"] = 1.15
    if source.random() < 0.3:
        sampling["logit_bias"] = {source.randrange(vocab): source.uniform(-8, 4) for _ in range(4)}
    budget = int(source.choice(_BUDGETS) * engine.max_context)
    limits: dict[str, Any] = {"max_tokens": budget, "ignore_eos": source.random() < 0.6}
    if source.random() < 0.4:
        limits["stop"] = source.sample(_STOPS, 2)
    if source.random() < 0.3:
        limits["stop_token_ids"] = source.sample(range(vocab), 12)
    if source.random() < 0.4:
        limits["min_tokens"] = source.randint(5, budget)
    return sampling, limits


def _nudge(engine: Engine, strength: float) -> dict[int, float]:
    """Bias for the markers of a call; the closing one comes less often, so that calls stay open for a while."""
    bias = {}
    for marker, share in ((CALL_OPEN, 1.0), (CALL_CLOSE, 0.7)):
        (token,) = engine.frontend.plan_text(marker).tokens.view()
        bias[int(token)] = strength * share
    return bias
