"""The true engine over the simulated device, turned by hand, with a recount after every cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ninfer.base.buffers import IntBuffer
from ninfer.base.clock import ManualClock
from ninfer.base.identity import PrefixDigests
from ninfer.base.pools import Pool
from ninfer.engine.core import EngineCore, RequestHandle
from ninfer.engine.cycle import Cycle
from ninfer.engine.draws import uniform
from ninfer.engine.failure import Endings
from ninfer.engine.settle import Settlement
from ninfer.engine.state import CycleSettings, EngineState
from ninfer.frontend.plan import InputPlan, ThoughtEnd
from ninfer.ports.output import Event, Failed, Finished, GenerationStart, OutputDelta, OutputSink
from ninfer.ports.sampling import SamplingParams
from ninfer.program.program import Program
from ninfer.resource.manager import ResourceManager
from ninfer.sched.members import Members
from ninfer.sim.chain import expected_tokens
from ninfer.sim.device import SimDevice, SimFaults
from ninfer.sim.script import Script

IDENTITY = b"sim"
VOCAB = 1000
GREEDY = SamplingParams(temperature=0.0)


class Letters:
    """A decoder that writes each token as one character."""

    def push(self, token_id: int) -> str:
        return chr(0x4E00 + token_id)

    def finish(self) -> str:
        return ""


def make_plan(
    tokens: Sequence[int],
    recovery: int | None = None,
    *,
    stops: frozenset[int] = frozenset(),
    session: str | None = None,
    thought_end: ThoughtEnd | None = None,
) -> InputPlan:
    """A plan whose recovery frontier is `recovery`, or the prompt's end."""
    buffer = IntBuffer(tokens)
    digests = PrefixDigests(IDENTITY)
    digests.extend_to(buffer, len(tokens))
    at = len(tokens) if recovery is None else recovery
    cuts = (at,) if 0 < at < len(tokens) else ()
    return InputPlan(buffer, digests, at, stops, execution_frontiers=cuts, session=session, thought_end=thought_end)


@dataclass
class Caller:
    """One submitted request and everything heard of it."""

    prompt: list[int]
    params: SamplingParams
    handle: RequestHandle | None = None
    events: list[Event] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        out = [token.token_id for event in self.events if isinstance(event, OutputDelta) for token in event.tokens]
        end = self.end
        if isinstance(end, Finished) and end.stop_token is not None:
            out.append(end.stop_token)
        return out

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, OutputDelta))

    @property
    def end(self) -> Finished | Failed | None:
        return next((event for event in self.events if isinstance(event, Finished | Failed)), None)

    @property
    def start(self) -> GenerationStart:
        return next(event for event in self.events if isinstance(event, GenerationStart))

    @property
    def finished(self) -> Finished:
        assert isinstance(self.end, Finished), self.end
        return self.end

    def expected(self, count: int) -> list[int]:
        """What it must give, in closed form."""
        draw = None if self.params.temperature == 0 else (lambda at: uniform(self.params.seed, at))
        return expected_tokens(self.prompt, count, vocab_tokens=VOCAB, uniforms=draw)

    def check_output(self) -> None:
        """V-15: exactly the closed form; and each event in its place, once."""
        assert self.tokens == self.expected(len(self.tokens))
        assert sum(isinstance(event, Finished | Failed) for event in self.events) == 1
        assert isinstance(self.events[-1], Finished | Failed)
        assert sum(isinstance(event, GenerationStart) for event in self.events) <= 1


class SimEngine:
    """One engine in one thread."""

    def __init__(
        self,
        *,
        lanes: int = 4,
        slots: int | None = None,
        pages: int = 64,
        max_context: int = 1024,
        chunk: int = 128,
        delay_polls: int = 0,
        seed: int = 0,
        reuse: bool = True,
        max_queue: int = 64,
        script: Script | None = None,
        faults: SimFaults | None = None,
        queue_timeout_s: float = 600,
        request_timeout_s: float = 3600,
        audit: bool = True,
        max_gap_s: float | None = None,
        host: int = 0,
        pools: Sequence[Pool] = (Pool.MAIN_KV,),
        longest_run: int = 1,
    ) -> None:
        self.device = SimDevice(
            slots=2 * lanes if slots is None else slots,
            pages=dict.fromkeys(pools, pages),
            vocab_tokens=VOCAB,
            script=script,
            faults=faults or SimFaults(seed=seed, delay_polls=delay_polls),
            host_bytes=host,
            longest_run=longest_run,
            uniforms=uniform,
        )
        self.clock = ManualClock()
        self.program = Program(self.device, self.device)
        self.resources = ResourceManager(self.program, keeps_points=reuse, lane_count=lanes)
        settings = CycleSettings(max_context, lanes, chunk, queue_timeout_s, request_timeout_s, int(audit), max_gap_s)
        self.state = EngineState(settings, self.program, self.resources, self.clock, Members(lanes))
        self.core = EngineCore(
            Cycle(self.state),
            decoder=Letters,
            max_queue=max_queue,
            vocab_tokens=VOCAB,
            device_wait=self.device.wait,
        )

    def submit(
        self,
        prompt: Sequence[int],
        max_tokens: int = 8,
        *,
        recovery: int | None = None,
        params: SamplingParams = GREEDY,
        stops: frozenset[int] = frozenset(),
        stop: Sequence[str] = (),
        logprobs: int | None = None,
        min_tokens: int = 0,
        stop_token_ids: Sequence[int] = (),
        thought_end: ThoughtEnd | None = None,
        thinking_budget: int | None = None,
    ) -> Caller:
        caller = Caller(list(prompt), params)
        plan = make_plan(prompt, recovery, stops=stops, thought_end=thought_end)
        caller.handle = self.core.submit(
            plan,
            params,
            max_tokens=max_tokens,
            min_tokens=min_tokens,
            stop=stop,
            stop_token_ids=stop_token_ids,
            logprobs=logprobs,
            thinking_budget=thinking_budget,
            sink=caller.events.append,
        )
        return caller

    def submit_to(self, caller: Caller, max_tokens: int, sink: OutputSink) -> None:
        """Submit with a sink of the test's own."""
        caller.handle = self.core.submit(make_plan(caller.prompt), caller.params, max_tokens=max_tokens, sink=sink)

    def turn(self, cycles: int = 1) -> bool:
        moved = False
        for _ in range(cycles):
            self.clock.advance(0.001)
            moved = self.core.step()
        return moved

    def land(self) -> None:
        """Settle everything in flight and start nothing new: the engine stands at a commit boundary."""
        settlement = Settlement(self.state, Endings(self.state))
        while self.state.has_work_in_flight:
            settlement.poll()

    def run(self, most_cycles: int = 20_000) -> None:
        """Until nobody is left. A cycle without work while nothing is in flight is a hang (V-16)."""
        still = 0
        for _ in range(most_cycles):
            moved = self.turn()
            if not self.state.requests:
                return
            still = 0 if moved or self.state.has_work_in_flight else still + 1
            assert still < 3, f"nothing moves: {[(r.ticket, r.phase) for r in self.state.requests.values()]}"
        raise AssertionError("the engine does not come to an end")

    def ask(self, prompt: Sequence[int], max_tokens: int = 8, **more: object) -> Caller:
        caller = self.submit(prompt, max_tokens, **more)  # type: ignore[arg-type]
        self.run()
        return caller


def filler(count: int, seed: int) -> list[int]:
    """Deterministic tokens."""
    return [(seed * 7919 + index * 31 + (index * index) % 97) % VOCAB for index in range(count)]


def send(
    engine: SimEngine,
    prompt: list[int],
    most: int = 4,
    *,
    recovery: int | None = None,
    markers: tuple[int, ...] = (),
    anchors: tuple[int, ...] = (),
    runs: bool = False,
) -> Caller:
    """Submit with markers and anchors; the scan is cut at each. `runs`: until the answer is there, and right."""
    caller = Caller(prompt, GREEDY)
    plan = make_plan(prompt, recovery)
    cuts = tuple(sorted({*plan.execution_frontiers, *markers, *anchors} - {len(prompt)}))
    plan = replace(plan, shared_markers=markers, anchors=anchors, execution_frontiers=cuts)
    caller.handle = engine.core.submit(plan, GREEDY, max_tokens=most, sink=caller.events.append)
    if runs:
        engine.run()
        caller.check_output()
    return caller
