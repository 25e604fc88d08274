"""A live engine over a tiny random model, behind the server's application, and a client that plays an agent.

A random model writes what no tokenizer would: two things make its words those of a model that was trained. A bias
keeps free answers to capital letters, which this tokenizer never merges, so that an answer sent back is the same
tokens. Where a recipe needs exact words, the sampled tokens are replaced by them (`say`); all states stay real.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx2

from ninfer.base.clock import SystemClock
from ninfer.base.ids import TransferId, UnitId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import DEVICE_POOLS
from ninfer.build.assemble import open_parts
from ninfer.build.opening import make_options
from ninfer.build.parts import make_engine
from ninfer.config.options import ServerOptions
from ninfer.engine.facade import RequestStream
from ninfer.engine.state import EngineState
from ninfer.frontend.plan import InputPlan
from ninfer.ports.device import Completion, Device, SampleRow, SamplesDone, UnitBatch, UnitDone, UnitKind
from ninfer.ports.native import Occupancy
from ninfer.ports.output import Event, Failed, Finished, GenerationStart, OutputDelta, OutputSink
from ninfer.resource.admission import Claim, Right
from ninfer.resource.manager import CacheFacts
from ninfer.server.app import CHAT_PATH, COMPLETIONS_PATH, build_app
from ninfer.server.journal import RequestRecord
from ninfer.server.service import Service

Message = dict[str, Any]

CAPITALS = range(65, 91)
"""Token ids of A to Z: each letter is a token of its own, whatever stands beside it."""

NO_HOST = {"host_capacity_bytes": 0}
"""Options of a cache without a host tier: what is pushed out is gone, a paused request replays (M7)."""

FREE: dict[str, Any] = {"temperature": 0, "logit_bias": {str(token): 100 for token in CAPITALS}}
"""Fields of a greedy request whose answer survives being sent back."""


class SpeakingDevice:
    """The real device, but requests with a script (by their seed) draw the scripted tokens.

    A script comes as two runs, the last token and what stands before it, as speculation would yield them; the tokens
    of a run are then fed together, as a stretch of prompt is.
    """

    def __init__(self, inner: Device) -> None:
        self._inner = inner
        self._lines: dict[int, deque[tuple[int, ...]]] = {}
        self._speakers: dict[int, list[int]] = {}
        self._parts: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def say(self, seed: int, tokens: Sequence[int]) -> None:
        """The request with this seed draws these tokens, then its own."""
        self._lines[seed] = deque(run for run in (tuple(tokens[:-1]), tuple(tokens[-1:])) if run)

    def submit_unit(self, batch: UnitBatch, after: Sequence[TransferId] = ()) -> UnitId:
        if batch.kind is not UnitKind.VERIFY:
            return self._inner.submit_unit(batch, after)
        parts = [self._inner.submit_unit(UnitBatch(UnitKind.PREFILL, (row,)), after) for row in batch.rows]
        self._parts.update(parts[:-1])
        return parts[-1]

    def submit_sampling(self, rows: Sequence[SampleRow]) -> UnitId:
        unit = self._inner.submit_sampling(rows)
        self._speakers[unit] = [row.params.seed for row in rows]
        return unit

    def poll(self) -> list[Completion]:
        completions = [done for done in self._inner.poll() if not self._is_part(done)]
        return [self._speak(done) if isinstance(done, SamplesDone) else done for done in completions]

    def _is_part(self, done: Completion) -> bool:
        if not isinstance(done, UnitDone) or done.unit not in self._parts:
            return False
        self._parts.remove(done.unit)
        return True

    def _speak(self, done: SamplesDone) -> SamplesDone:
        runs = []
        for seed, run in zip(self._speakers.pop(done.unit), done.runs, strict=True):
            line = self._lines.get(seed)
            runs.append(replace(run, token_ids=line.popleft()) if line else run)
        return SamplesDone(done.unit, tuple(runs))


@dataclass(eq=False)
class Heard:
    """Everything the engine said about one request, with the time at which it said it."""

    prompt: list[int]
    plan: InputPlan
    events: list[tuple[float, Event]] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        """Output token ids, a stop token included."""
        deltas = [event for _, event in self.events if isinstance(event, OutputDelta)]
        end = self.end
        stop = [end.stop_token] if isinstance(end, Finished) and end.stop_token is not None else []
        return [token.token_id for delta in deltas for token in delta.tokens] + stop

    @property
    def start(self) -> GenerationStart:
        return next(event for _, event in self.events if isinstance(event, GenerationStart))

    @property
    def end(self) -> Finished | Failed | None:
        return next((event for _, event in self.events if isinstance(event, Finished | Failed)), None)

    @property
    def finished(self) -> Finished:
        assert isinstance(self.end, Finished), self.end
        return self.end

    @property
    def cached(self) -> int:
        return self.start.cached_tokens


@dataclass(frozen=True)
class Answer:
    """A completion that succeeded, as its client and as the engine saw it."""

    body: dict[str, Any]
    heard: Heard
    record: RequestRecord

    @property
    def message(self) -> Message:
        message: Message = self.body["choices"][0]["message"]
        return message

    @property
    def finish(self) -> str:
        reason: str = self.body["choices"][0]["finish_reason"]
        return reason

    @property
    def prompt(self) -> int:
        count: int = self.body["usage"]["prompt_tokens"]
        return count

    @property
    def cached(self) -> int:
        count: int = self.body["usage"]["prompt_tokens_details"]["cached_tokens"]
        return count

    @property
    def fresh(self) -> int:
        """Prompt tokens that were really computed: `prompt - cached`."""
        return self.prompt - self.cached

    @property
    def tokens(self) -> list[int]:
        return self.heard.tokens


class Hold:
    """Stops the control thread at an event, so that what a test does inside happens at exactly that moment."""

    def __init__(self, when: Callable[[Heard, Event], bool]) -> None:
        self._when = when
        self._reached = threading.Event()
        self._released = threading.Event()

    def check(self, heard: Heard, event: Event) -> None:
        """Called on the control thread for every event."""
        if not self._released.is_set() and self._when(heard, event):
            self._reached.set()
            self._released.wait(60)

    def __enter__(self) -> None:
        assert self._reached.wait(60), "the moment did not come"

    def __exit__(self, *_: object) -> None:
        self._released.set()


class MemoryJournal:
    """Keeps the records."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []

    def write(self, record: RequestRecord) -> None:
        self.records.append(record)


class Live:
    """One engine and one application. Options are those of an engine; a recount of all stores every few cycles."""

    def __init__(self, model_dir: Path, **options: Any) -> None:
        chosen = {"dtype": "float64", "threads": 1, "max_concurrency": 2, "audit_every_cycles": 8, **options}
        parts = open_parts(make_options(model_dir, chosen))
        self._device = SpeakingDevice(parts.device)
        self.engine = make_engine(replace(parts, device=self._device, on_close=parts.device.close))
        self.frontend = self.engine.frontend
        self.heard: list[Heard] = []
        self.log: list[tuple[float, Heard, Event]] = []
        self._submit = self.engine.core.submit
        self.engine.core.submit = self._listen  # type: ignore[method-assign]
        self._holds: list[Hold] = []
        self._seeds = 1 << 32
        self.journal = MemoryJournal()
        self._service = Service(ServerOptions(), ["tiny"], SystemClock())
        self._service.open(self.engine)
        app = build_app(self._service, self.journal)
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=True)
        self._client = httpx2.AsyncClient(transport=transport, base_url="http://test", timeout=None)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Live:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
        self._service.close()
        self.engine.close()

    # ---- over HTTP ------------------------------------------------------------------------------------------------

    def post(self, path: str, body: dict[str, Any] | bytes) -> httpx2.Response:
        """One request, to its end."""
        return self._runner.run(self._post(path, body))

    def ask(self, messages: Sequence[Message], **fields: Any) -> Answer:
        """A chat completion that must succeed. Greedy and free unless told otherwise."""
        return self.expect(CHAT_PATH, {"messages": messages, **FREE, **fields})

    def complete(self, prompt: list[int], **fields: Any) -> Answer:
        """A completion of raw tokens that must succeed, greedy unless told otherwise."""
        return self.expect(COMPLETIONS_PATH, {"prompt": prompt, "temperature": 0, **fields})

    def expect(self, path: str, body: dict[str, Any]) -> Answer:
        """A request that must succeed."""
        response = self.post(path, body)
        assert response.status_code == 200, response.text
        return Answer(response.json(), self.heard[-1], self.journal.records[-1])

    def stream(self, messages: Sequence[Message], **fields: Any) -> list[dict[str, Any]]:
        """The chunks of a streamed chat completion that must succeed; its JSON holds no NaN and no Infinity."""
        response = self.post(CHAT_PATH, {"messages": messages, "stream": True, **FREE, **fields})
        assert response.status_code == 200, response.text
        frames = [frame for frame in response.text.split("\n\n") if frame.startswith("data: ")]
        assert frames.pop() == "data: [DONE]"
        return [json.loads(frame.removeprefix("data: "), parse_constant=_refuse_constant) for frame in frames]

    def ask_saying(self, text: str, messages: Sequence[Message], **fields: Any) -> Answer:
        """A chat completion whose model writes exactly `text`, control tokens spelled out, and ends."""
        self._seeds += 1
        self.say(self._seeds, text)
        return self.ask(messages, seed=self._seeds, **fields)

    def say(self, seed: int, text: str) -> None:
        """What the request with this seed will write."""
        self._device.say(seed, [*self.encode(text), *self.encode("<|im_end|>")])

    # ---- at the engine ---------------------------------------------------------------------------------------------

    def start(self, messages: Sequence[Message], **fields: Any) -> tuple[RequestStream, Heard]:
        """A chat request that is not waited for; `fields` as `Engine.submit` takes them."""
        free: dict[str, Any] = {"temperature": 0, "logit_bias": dict.fromkeys(CAPITALS, 100.0)}
        stream = self.engine.submit(messages, **{**free, **fields})
        return stream, self.heard[-1]

    def start_raw(self, tokens: Sequence[int], **fields: Any) -> tuple[RequestStream, Heard]:
        """A request of raw tokens that is not waited for."""
        stream = self.engine.submit(token_ids=tokens, **{"temperature": 0, **fields})
        return stream, self.heard[-1]

    def hold(self, when: Callable[[Heard, Event], bool]) -> Hold:
        """Stop at the first event for which `when` is true. To be told before the event can happen."""
        self._holds.append(Hold(when))
        return self._holds[-1]

    def at_once(self) -> Hold:
        """What is started inside reaches the engine together: its thread is busy with a request of one token."""
        hold = self.hold(lambda heard, _: heard.prompt == [0])
        self.start_raw([0], max_tokens=1)
        return hold

    def encode(self, text: str) -> list[int]:
        """Tokens of raw text, control tokens spelled out in it."""
        return list(self.frontend.plan_text(text).tokens)

    @property
    def state(self) -> EngineState:
        """What the control thread owns; look only while nothing runs."""
        return self.engine.core._state

    def facts(self) -> CacheFacts:
        """Records and points kept now."""
        return self.state.resources.facts()

    def occupancy(self) -> Occupancy:
        """Real occupancy, after a recount of everything from the owners up."""
        self.wait_idle()
        self.state.audit()
        return self.state.program.occupancy()

    def drop_points(self) -> None:
        """Give up everything optional. What is then still taken was lost."""
        self.wait_idle()
        for pool in DEVICE_POOLS:
            self.state.resources.reclaim(Shortfall(pool, 1 << 30, 0), Claim(Right.NECESSARY))
        occupancy = self.occupancy()
        assert occupancy.free == occupancy.capacity
        assert self.facts() == CacheFacts(0, 0, 0)

    def wait_idle(self) -> None:
        """Until the control thread has nothing left to do."""
        wait_until(lambda: not self.state.requests and not self.state.has_work_in_flight)

    def _listen(self, plan: InputPlan, params: Any, *, sink: OutputSink, **settings: Any) -> Any:
        heard = Heard(list(plan.tokens), plan)
        self.heard.append(heard)

        def tee(event: Event) -> None:
            now = time.monotonic()
            heard.events.append((now, event))
            self.log.append((now, heard, event))
            for hold in self._holds:
                hold.check(heard, event)
            sink(event)

        return self._submit(plan, params, sink=tee, **settings)

    async def _post(self, path: str, body: dict[str, Any] | bytes) -> httpx2.Response:
        if isinstance(body, bytes):
            return await self._client.post(path, content=body)
        return await self._client.post(path, json=body)


def wait_until(holds: Any, timeout_s: float = 20.0) -> None:
    """Poll; fails when it does not become true in time."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.001)


def _refuse_constant(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")
