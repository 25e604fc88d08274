"""A scripted engine behind the real server: it says what a test tells it, cut into tokens and steps as the test tells.

It has the facade that the server asks for, the true frontend of the bundled model, the true stop rules and the true
event bookkeeping of the engine; only the model, the lanes' scheduling and the cache are made up.
"""

from __future__ import annotations

import codecs
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import ninfer
from ninfer.base.clock import SystemClock
from ninfer.base.errors import NInferError, QueueFull
from ninfer.base.ids import LaneId
from ninfer.engine.core import Condition, HealthFacts
from ninfer.engine.publish import Publication
from ninfer.engine.report import EMPTY_REPORT, EngineReport
from ninfer.engine.stops import StopWatch
from ninfer.frontend.frontend import Frontend
from ninfer.frontend.plan import InputPlan
from ninfer.ports.device import RunResult
from ninfer.ports.output import FinishReason, LossReport, OutputSink, RestorePath
from ninfer.ports.sampling import SamplingParams, TokenLogprobs

MODEL_DIR = Path(ninfer.__file__).parent / "bundled_model"
MAX_CONTEXT = 2048
_FIRST_MADE_ID = 1 << 20

Step = Sequence[bytes]
"""Tokens (by their bytes) that one step of the engine yields."""


@dataclass(frozen=True, slots=True)
class Script:
    """What one request gets. `steps`: the output. `ends` False: the model would go on for ever (the last step again).

    `gate`: waited for before the first token. `step_s`, `prefill_s`: seconds a decode step and a prefill chunk take.
    """

    steps: tuple[tuple[bytes, ...], ...] = ((b"ok",),)
    ends: bool = True
    gate: threading.Event | None = None
    step_s: float = 0.0
    prefill_s: float = 0.0
    chunk_tokens: int = 64
    cached_tokens: int = 0
    path: RestorePath = RestorePath.ROOT
    error: NInferError | None = None
    """Raised after the steps, instead of an end."""


def whole(text: str) -> Script:
    """All of it as one token."""
    return Script(((text.encode(),),))


def bytewise(text: str) -> Script:
    """Each byte a token and a step of its own."""
    return Script(tuple((bytes([byte]),) for byte in text.encode()))


def split_at(text: str, position: int) -> Script:
    """Two tokens, cut at a byte position."""
    data = text.encode()
    return Script(tuple((part,) for part in (data[:position], data[position:]) if part))


def one_run(text: str, token_bytes: int) -> Script:
    """All tokens in one run, as speculation yields them."""
    data = text.encode()
    return Script((tuple(data[start : start + token_bytes] for start in range(0, len(data), token_bytes)),))


def all_splits(text: str, stride: int = 1) -> list[Script]:
    """Whole, byte by byte, one run of small tokens, and cut in two at every position (or every `stride`-th)."""
    splits = [split_at(text, position) for position in range(1, len(text.encode()), stride)]
    return [whole(text), bytewise(text), one_run(text, 3), *splits]


@cache
def bundled_frontend() -> Frontend:
    """The bundled model's text side; no weights are read."""
    return Frontend.from_dir(MODEL_DIR, b"scripted", MAX_CONTEXT)


class ScriptedFrontend:
    """The true frontend, and a vocabulary that grows by whatever bytes a script uses as a token."""

    def __init__(self, inner: Frontend) -> None:
        self._inner = inner
        self._ids: dict[bytes, int] = {}
        self._made: dict[int, bytes] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def id_of(self, data: bytes) -> int:
        """The token that spells these bytes."""
        made = self._ids.setdefault(data, _FIRST_MADE_ID + len(self._ids))
        self._made[made] = data
        return made

    def token_bytes(self, token_id: int) -> bytes:
        return self._made[token_id] if token_id in self._made else self._inner.token_bytes(token_id)

    shown_bytes = token_bytes

    def detokenizer(self) -> _Decoder:
        return _Decoder(self.token_bytes)


class _Decoder:
    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        return self._decoder.decode(self._token_bytes(token_id))

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


@dataclass(slots=True, eq=False)
class Submitted:
    """One request, as tests may look at it afterwards."""

    plan: InputPlan
    params: SamplingParams
    max_tokens: int
    stop: tuple[str, ...]
    logprobs: int | None
    min_tokens: int
    stop_token_ids: tuple[int, ...]
    script: Script
    publication: Publication
    thinking_budget: int | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    reason: FinishReason | None = None

    def cancel(self) -> None:
        self.cancelled.set()

    @property
    def computed_tokens(self) -> int:
        return self.publication.computed_tokens


class ScriptedEngine:
    """One lane a thread. `requests` lists all submissions in order."""

    def __init__(self, lanes: int = 1, *, max_context: int = MAX_CONTEXT, max_queue: int = 64) -> None:
        self.frontend: Any = ScriptedFrontend(bundled_frontend())
        self.max_context = max_context
        self.default_sampling = SamplingParams()
        self.core = self
        self.requests: list[Submitted] = []
        self.failure: str | None = None
        self.idle_s = 0.0
        self.script: Script | Callable[[InputPlan], Script] = Script()
        self.crash: Exception | None = None
        self._max_queue = max_queue
        self._waiting: queue.SimpleQueue[Submitted | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._run_lane, daemon=True) for _ in range(lanes)]
        for thread in self._threads:
            thread.start()

    @property
    def submit_plan(self) -> Callable[..., Submitted]:
        return self.submit

    def health(self) -> HealthFacts:
        running = sum(1 for request in self.requests if request.publication.has_started and request.reason is None)
        condition = Condition.READY if self.failure is None else Condition.FAILED
        waiting = self._waiting.qsize()
        return HealthFacts(condition, len(self._threads), running, waiting, 0, self.idle_s, self.failure)

    def report(self) -> EngineReport:
        return EMPTY_REPORT

    def close(self) -> None:
        for _ in self._threads:
            self._waiting.put(None)

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
    ) -> Submitted:
        if self.crash is not None:
            raise self.crash
        if self._waiting.qsize() >= self._max_queue:
            raise QueueFull("the waiting queue is full")
        max_tokens = max_tokens or self.max_context - len(plan.tokens)
        script = self.script(plan) if callable(self.script) else self.script
        publication = Publication(sink, SystemClock(), len(plan.tokens))
        floor, ends = min_tokens, tuple(stop_token_ids)
        request = Submitted(plan, params, max_tokens, tuple(stop), logprobs, floor, ends, script, publication)
        request.thinking_budget = thinking_budget
        self.requests.append(request)
        self._waiting.put(request)
        return request

    def _run_lane(self) -> None:
        while (request := self._waiting.get()) is not None:
            self._run(request)
            request.ended.set()

    def _run(self, request: Submitted) -> None:
        script, publication = request.script, request.publication
        if request.cancelled.is_set():
            self._finish(request, FinishReason.CANCELLED)
            return
        prompt = publication.prompt_tokens
        publication.start(script.cached_tokens, script.path, LossReport(0, 0, 0, ""))
        covered = script.cached_tokens
        while covered < prompt:
            if request.cancelled.wait(script.prefill_s):
                self._finish(request, FinishReason.CANCELLED)
                return
            chunk = min(script.chunk_tokens, prompt - covered)
            covered += chunk
            publication.computed_tokens += chunk
            publication.progress(covered)
        if script.gate is not None:
            while not script.gate.wait(0.005):
                if request.cancelled.is_set():
                    break
        self._decode(request)

    def _decode(self, request: Submitted) -> None:
        script, publication = request.script, request.publication
        watch = StopWatch(
            _Decoder(self.frontend.token_bytes),
            stop_token_ids=frozenset({self.frontend.id_of(b"<end>"), *request.stop_token_ids}),
            stop_strings=request.stop,
            budget_tokens=request.max_tokens,
            min_tokens=request.min_tokens,
        )
        for step in self._list_steps(script):
            if request.cancelled.wait(script.step_s):
                self._finish(request, FinishReason.CANCELLED)
                return
            ids = tuple(self.frontend.id_of(data) for data in step)
            logprobs = None if request.logprobs is None else tuple(self._rank(i, request.logprobs) for i in ids)
            verdict = watch.preview(RunResult(LaneId(0), ids, logprobs))
            publication.completion_tokens += verdict.accepted
            publication.decode_steps += 1
            if verdict.text or verdict.tokens:
                publication.delta(verdict.text, verdict.tokens)
            if verdict.reason is not None:
                self._finish(request, verdict.reason, verdict.stop_string, verdict.stop_token)
                return
        assert script.error is not None
        request.publication.fail(script.error)

    def _list_steps(self, script: Script) -> Iterable[Step]:
        yield from script.steps
        if script.error is not None:
            return
        while not script.ends:
            yield script.steps[-1]
        yield (b"<end>",)

    def _rank(self, token_id: int, count: int) -> TokenLogprobs:
        """Made-up but reproducible: the chosen token is the best."""
        chosen = -0.125 * (1 + token_id % 7)
        others = [(self.frontend.id_of(b"alt%d" % n), chosen - 1 - n) for n in range(count)]
        return TokenLogprobs(chosen, tuple([(token_id, chosen), *others][:count]))

    @staticmethod
    def _finish(
        request: Submitted, reason: FinishReason, stop_string: str | None = None, stop_token: int | None = None
    ) -> None:
        request.reason = reason
        request.publication.finish(reason, stop_string, stop_token)
