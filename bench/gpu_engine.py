"""The engine above a GPU with a random-weight model: lanes that decode, in this process and over HTTP, gaps, repeats.

Words come from the bundled model's tokenizer, so only its ids are drawn; the head is as large as the geometry says.
Rows by name: `engine:LANES:CONTEXT`, `http:LANES:CONTEXT`, `repeat:TOKENS`, `gap:TOKENS`.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from bench.stream import stream
from ninfer.build.assemble import BUNDLED_MODEL_DIR
from ninfer.build.parts import EngineParts, make_engine
from ninfer.config.options import EngineOptions
from ninfer.device.cuda import CudaDevice
from ninfer.engine.facade import Engine
from ninfer.frontend.frontend import Frontend
from ninfer.ports.output import Event, Failed, Finished, OutputDelta

Figures = dict[str, float | str | int]
TEXT_IDS = range(300, 3800)
"""Ordinary vocabulary of the bundled tokenizer: no control tokens, no single bytes."""


@dataclass(eq=False)
class Seen:
    """A sink: when pieces came, and how it ended."""

    moments: list[float] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    last: Finished | Failed | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, OutputDelta):
            self.moments.append(time.perf_counter())
        elif isinstance(event, Finished | Failed):
            self.last = event
            self.over.set()


class EngineBench:
    """An engine over a device, with `window_s` of decoding measured at a time."""

    def __init__(self, device: CudaDevice, *, max_gap_ms: float | None = None, window_s: float = 3.0) -> None:
        layout = device.layout
        options = EngineOptions(
            BUNDLED_MODEL_DIR,
            device="cuda",
            max_concurrency=layout.lanes,
            max_context=layout.max_context,
            prefill_chunk_tokens=min(8192, layout.max_context // 64 * 64),
            max_gap_ms=max_gap_ms,
        )
        self.frontend = Frontend.from_dir(BUNDLED_MODEL_DIR, b"bench", layout.max_context)
        parts = EngineParts(
            device, self.frontend, options, layout.max_context, "bench", runs_ahead=True, on_close=lambda: None
        )
        self.engine: Engine = make_engine(parts)
        self.max_context, self.window_s = layout.max_context, window_s
        self._random = random.Random(5)

    def decode(self, lanes: int, context: int) -> Figures:
        """Steady tokens a second of all lanes, all stopped at the end."""
        asked = [self._ask(context, self.max_context - context) for _ in range(lanes)]
        for seen, _ in asked:
            self._wait(lambda seen=seen: len(seen.moments) > 4)  # type: ignore[misc]
        figures = self._watch(lanes, [seen for seen, _ in asked])
        for seen, handle in asked:
            handle.cancel()
            seen.over.wait(30)
        return figures

    def http(self, lanes: int, context: int) -> Figures:
        """The same streamed to clients in a process of their own."""
        with serve(self.engine) as url:
            command = [sys.executable, "-m", "bench.gpu_engine", url, str(lanes), str(context)]
            before = self._count("output_tokens")
            client = subprocess.Popen([*command, str(self.window_s)], stdout=subprocess.PIPE, text=True)
            self._wait(lambda: self.engine.health().residents == lanes and self._count("output_tokens") > before + 99)
            figures = self._watch(lanes, [])
            told = client.communicate(timeout=120)[0]
        figures["received_per_s"] = float(told.split()[-1])
        return figures

    def repeat(self, tokens: int) -> Figures:
        """A raw prompt, then the same again: nothing is computed but the draw (D9)."""
        prompt = self._random.choices(TEXT_IDS, k=tokens)
        ends = [self._finish(prompt) for _ in range(4)]
        computed = max(end.timings.computed_prompt_tokens for end in ends[1:])
        again = statistics.median(end.timings.ttft_s for end in ends[1:])
        return {"ms": 1e3 * again, "first_ms": 1e3 * ends[0].timings.ttft_s, "computed_tokens": computed}

    def gap(self, tokens: int) -> Figures:
        """The worst gap of one lane that decodes while another prompt is computed; its first token with and without."""
        alone = self._finish(self._random.choices(TEXT_IDS, k=tokens)).timings.ttft_s
        lane, handle = self._ask(64, self.max_context - 64)
        self._wait(lambda: len(lane.moments) > 50)
        begin = time.perf_counter()
        beside = self._finish(self._random.choices(TEXT_IDS, k=tokens)).timings.ttft_s
        end = time.perf_counter()
        handle.cancel()
        lane.over.wait(30)
        inside = [at for at in lane.moments if begin <= at <= end]
        gaps = [later - earlier for earlier, later in pairwise(inside)]
        return {
            "worst_gap_ms": 1e3 * max(gaps),
            "median_gap_ms": 1e3 * statistics.median(gaps),
            "ttft_ms": 1e3 * beside,
            "ttft_alone_ms": 1e3 * alone,
            "ttft_longer": beside / alone - 1,
        }

    def close(self) -> None:
        """The control thread ends; the device stays."""
        self.engine.close()

    def _watch(self, lanes: int, sinks: list[Seen]) -> Figures:
        begin, first, cycles = time.perf_counter(), self._count("output_tokens"), self._count("cycles")
        time.sleep(self.window_s)
        seconds, tokens = time.perf_counter() - begin, self._count("output_tokens") - first
        gaps = [1e3 * (b - a) for seen in sinks for a, b in pairwise(seen.moments[4:])]
        figures: Figures = {"tokens_per_s": tokens / seconds, "ms": 1e3 * lanes * seconds / max(tokens, 1)}
        figures["cycles_per_step"] = (self._count("cycles") - cycles) / max(tokens / lanes, 1)
        figures["ahead"] = self._count("launches_ahead") / max(self._count("output_tokens"), 1)
        if gaps:
            figures |= {"median_gap_ms": statistics.median(gaps), "worst_gap_ms": max(gaps)}
        return figures

    def _count(self, name: str) -> int:
        return int(self.engine.report().counters[name])

    def _ask(self, tokens: int, most: int):  # type: ignore[no-untyped-def]
        seen = Seen()
        plan = self.frontend.plan_tokens(self._random.choices(TEXT_IDS, k=tokens))
        params = self.engine.default_sampling.__class__(temperature=0.0)
        return seen, self.engine.submit_plan(plan, params, max_tokens=most, ignore_eos=True, sink=seen)

    def _finish(self, prompt: list[int]) -> Finished:
        seen = Seen()
        params = self.engine.default_sampling.__class__(temperature=0.0)
        self.engine.submit_plan(self.frontend.plan_tokens(prompt), params, max_tokens=1, ignore_eos=True, sink=seen)
        assert seen.over.wait(120), "no end in sight"
        if isinstance(seen.last, Failed):
            raise seen.last.error
        assert isinstance(seen.last, Finished)
        return seen.last

    def _wait(self, holds) -> None:  # type: ignore[no-untyped-def]
        end = time.perf_counter() + 120
        while not holds():
            failure = self.engine.find_failure()
            assert failure is None, failure
            assert time.perf_counter() < end, "nothing happens"
            time.sleep(0.002)


@contextmanager
def serve(engine: Engine) -> Iterator[str]:
    """The HTTP side as `ninfer serve` has it, on a thread of this process."""
    import asyncio

    from ninfer.base.clock import SystemClock
    from ninfer.config.options import ServerOptions
    from ninfer.server.app import build_app
    from ninfer.server.journal import ManyJournals
    from ninfer.server.run import DrainingServer, bind_socket, find_url
    from ninfer.server.service import Service

    service = Service(ServerOptions(port=0), ("bench",), SystemClock())
    service.open(engine)
    server = DrainingServer(build_app(service, ManyJournals()), service)
    bound = bind_socket("127.0.0.1", 0)
    loop = _new_loop() or asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(server.serve(sockets=[bound]),), daemon=True)
    thread.start()
    try:
        yield find_url(bound)
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)


def _new_loop():  # type: ignore[no-untyped-def]
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop()


def _stream_all(url: str, lanes: int, context: int, window_s: float) -> None:
    """Clients, one a lane; prints the tokens a second that they received, all together."""
    source = random.Random(9)
    most = int(400 * window_s) + 200
    bodies = [
        {
            "model": "bench",
            "prompt": source.choices(TEXT_IDS, k=context),
            "max_tokens": most,
            "temperature": 0,
            "ignore_eos": True,
        }
        for _ in range(lanes)
    ]
    rates: list[float] = []
    threads = [
        threading.Thread(
            target=lambda body=body: rates.append(stream(url, "/v1/completions", body).decode_tokens_per_s)
        )
        for body in bodies
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(rates))


if __name__ == "__main__":
    _stream_all(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
