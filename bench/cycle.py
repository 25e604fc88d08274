"""The control thread's own time in a decode cycle at eight lanes: detokenizing, stops and publishing included.

The device answers at once, so every turn of the engine settles one set of draws and submits the next; planning is over
before the clock starts. Sinks are those of the server, emptied by an event loop on a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import thread_time

import ninfer
from bench.scripted import ScriptedDevice
from bench.table import Row
from ninfer.build.parts import EngineParts, make_core
from ninfer.config.options import EngineOptions
from ninfer.engine.core import EngineCore
from ninfer.frontend.frontend import Frontend
from ninfer.ports.sampling import SamplingParams
from ninfer.server.bridge import EventBridge, Inbox

LANES = 8
PROMPT_TOKENS = 2_000
CONTEXT = 32_768
WARM_CYCLES = 100
CYCLES = 300
ROUNDS = 9
GOAL_MS = 0.3
MODEL_DIR = Path(ninfer.__file__).parent / "bundled_model"
SPEECH = (
    "Well, Mira, the name is spelt like this: \u00e9t\u00e9, \u732b. I'll look it up, and then we'll see what is left. "
)
STOPS = ("\nUser:", "<END>", "I'll never", "we will see")
GREEDY = SamplingParams(temperature=0.0)
CAREFUL = SamplingParams(temperature=0.7, top_p=0.9, top_k=50, presence_penalty=0.5, repetition_penalty=1.1, seed=7)


def measure() -> list[Row]:
    """Milliseconds a cycle: plain greedy requests, then requests with stop strings, seeds and penalties."""
    plain_ms = _measure_cycle_ms(GREEDY, ())
    full_ms = _measure_cycle_ms(CAREFUL, STOPS)
    return [
        Row(f"decode cycle, {LANES} lanes, greedy", plain_ms, "ms", f"<= {GOAL_MS:g}", plain_ms <= GOAL_MS),
        Row(f"decode cycle, {LANES} lanes, stops, penalties", full_ms, "ms", f"<= {GOAL_MS:g}", full_ms <= GOAL_MS),
    ]


def _measure_cycle_ms(params: SamplingParams, stops: tuple[str, ...]) -> float:
    """The median over rounds of a cycle's mean."""
    frontend = Frontend.from_dir(MODEL_DIR, b"bench", CONTEXT)
    with _reader() as bridge:
        core = _start_lanes(frontend, bridge, params, stops)
        for _ in range(WARM_CYCLES):
            assert core.step()
        rounds = []
        for _ in range(ROUNDS):
            before = thread_time()
            for _ in range(CYCLES):
                core.step()
            rounds.append(1000 * (thread_time() - before) / CYCLES)
        assert core.health().residents == LANES, "a lane ended while it was measured"
    return median(rounds)


def _start_lanes(frontend: Frontend, bridge: EventBridge, params: SamplingParams, stops: tuple[str, ...]) -> EngineCore:
    """An engine whose lanes all decode."""
    speech = frontend.plan_text(SPEECH).tokens
    device = ScriptedDevice(list(speech), slots=2 * LANES, pages=LANES * CONTEXT // 64)
    options = EngineOptions(MODEL_DIR, max_concurrency=LANES)
    core = make_core(EngineParts(device, frontend, options, CONTEXT, "bench"))
    for lane in range(LANES):
        prompt = [300 + (lane * 7919 + index * 31) % 3000 for index in range(PROMPT_TOKENS)]
        sink = bridge.make_sink(_Bin())
        core.submit(frontend.plan_tokens(prompt), params, max_tokens=CONTEXT, stop=stops, sink=sink)
    while core.health().waiting or core.health().residents != LANES:
        core.step()
    return core


class _Bin(Inbox):
    """An inbox that is read at once."""

    def put(self, event: object) -> None:
        """Nothing is kept."""


@contextmanager
def _reader() -> Iterator[EventBridge]:
    """A bridge to a running event loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield EventBridge(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
