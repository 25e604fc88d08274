"""Gaps of decoding lanes while clients post 100k-token prompts to a real server over a scripted device of 5 ms steps.

The server runs in a process of its own; the clients share the other one, so their own work is not in its interpreter.
A decode step and a chunk of prefill take turns on the device: 10 ms of every gap are the device's own. Gaps are
measured where they are made, at the engine (`timings.longest_gap_s`), and as the clients see them. On a busy machine
they say little; the steadier figure is what all threads of the server worked from one step to the next: only one of
them has the interpreter at a time, and half of it or more falls into the device's time.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import clock_gettime, perf_counter, pthread_getcpuclockid
from typing import Any

import ninfer
from bench.scripted import ScriptedDevice
from bench.stream import Seen, stream
from bench.table import Row
from demo.server import free_port, wait_until_ready
from ninfer.ports.device import Completion, SamplesDone

MODEL_DIR = Path(ninfer.__file__).parent / "bundled_model"
LANES = 8
DECODING = 4
PROMPT_TOKENS = 100_000
CONTEXT = 131_072
STEP_S = 0.005
OUTPUT_TOKENS = 300
ROUNDS = 3
GOAL_MS = 20.0
SPEECH = "And then we went on to the next town, and to the next one after that. "


@dataclass(frozen=True, slots=True)
class Phase:
    """Streams that were measured together, and when."""

    what: str
    seen: list[Seen]
    start_s: float
    stop_s: float


def measure() -> list[Row]:
    """Rows for clients that post new conversations, and for clients that go on with long ones."""
    with TemporaryDirectory() as folder:
        marks_file = Path(folder) / "marks"
        with _running_server(Path(folder), marks_file) as url:
            phases = [
                _beside(url, "nobody posts", None),
                _beside(url, "new prompts of 100k", _post_new),
                _beside(url, "turns on 100k", _post_longer),
            ]
        marks = [tuple(map(float, line.split())) for line in marks_file.read_text().splitlines()]
    return [row for phase in phases for row in _rows(phase, marks)]


def _rows(phase: Phase, marks: list[tuple[float, ...]]) -> list[Row]:
    """`marks`: moments of steps and the work of all threads by then, in seconds."""
    what, seen = phase.what, phase.seen
    longest = sorted(1000 * float(each.timings["longest_gap_s"]) for each in seen)
    client = sorted(1000 * max(after - before for before, after in pairwise(each.moments)) for each in seen)
    inside = [work_s for at_s, work_s in marks if phase.start_s <= at_s <= phase.stop_s]
    works = sorted(1000 * (after - before) for before, after in pairwise(inside))
    middle, worst, work = median(longest), longest[-1], works[-1]
    return [
        Row(f"{what}: longest gap, median", middle, "ms", f"<= {GOAL_MS:g}", middle <= GOAL_MS),
        Row(f"{what}: longest gap of all", worst, "ms", f"<= {GOAL_MS:g}", worst <= GOAL_MS),
        Row(f"{what}: longest as clients see it", client[-1], "ms"),
        Row(f"{what}: most work in a gap", work, "ms"),
        Row(f"{what}: work in a gap, p99", works[int(0.99 * len(works))], "ms"),
    ]


def _beside(url: str, what: str, post: Callable[[str, threading.Event, int], int] | None) -> Phase:
    """Streams measured while two clients post; how many posts were answered meanwhile stands in `what`."""
    over = threading.Event()
    counts = [0, 0]

    def keep_posting(number: int) -> None:
        assert post is not None
        counts[number] = post(url, over, number)

    posters = [threading.Thread(target=keep_posting, args=(number,)) for number in range(2 if post else 0)]
    for poster in posters:
        poster.start()
    _decode(url, 8)
    start_s = perf_counter()
    seen = [each for _ in range(ROUNDS) for each in _decode(url, OUTPUT_TOKENS)]
    stop_s = perf_counter()
    over.set()
    for poster in posters:
        poster.join()
    return Phase(f"{sum(counts)} {what}" if post else what, seen, start_s, stop_s)


def _decode(url: str, tokens: int) -> list[Seen]:
    """Several streams at once."""
    seen: list[Seen] = []

    def ask(number: int) -> None:
        body = {"model": "", "prompt": [300 + number] * 64, "max_tokens": tokens, "temperature": 0}
        seen.append(stream(url, "/v1/completions", body))

    askers = [threading.Thread(target=ask, args=(number,)) for number in range(DECODING)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(seen) == DECODING, "a stream failed"
    return seen


def _post_new(url: str, over: threading.Event, number: int) -> int:
    """One new long conversation after the other."""
    count = 0
    while not over.is_set():
        stream(url, "/v1/chat/completions", _body(_messages(1000 * (number + 1) + count)))
        count += 1
    return count


def _post_longer(url: str, over: threading.Event, number: int) -> int:
    """Turn after turn of one long conversation."""
    messages, count, source = _messages(77 + number), 0, random.Random(number)
    while not over.is_set():
        stream(url, "/v1/chat/completions", _body(messages))
        messages += [
            {"role": "assistant", "content": _words(source, 30)},
            {"role": "user", "content": _words(source, 20)},
        ]
        count += 1
    return count


def _body(messages: list[dict[str, str]]) -> dict[str, Any]:
    return {"model": "", "messages": messages, "max_tokens": 1, "temperature": 0}


_WORD_TOKENS = 3.4
"""Tokens of one of the made-up words below."""


def _messages(seed: int) -> list[dict[str, str]]:
    """400 messages of about PROMPT_TOKENS tokens in all."""
    source = random.Random(seed)
    each = int(PROMPT_TOKENS / _WORD_TOKENS / 400)
    roles = ("user", "assistant")
    return [{"role": roles[place % 2], "content": _words(source, each)} for place in range(399)]


def _words(source: random.Random, count: int) -> str:
    return " ".join("".join(source.choices("etaoinshrdlu", k=source.randint(2, 8))) for _ in range(count))


@contextmanager
def _running_server(folder: Path, marks: Path) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    log = folder / "server.log"
    with log.open("wb") as sink:
        process = subprocess.Popen([sys.executable, "-m", "bench.gaps", str(port), marks], stdout=sink, stderr=sink)
        try:
            wait_until_ready(url, process, log)
            yield url
        finally:
            process.terminate()
            process.wait(timeout=30)


class _MarkingDevice(ScriptedDevice):
    """Notes at every step how much all threads of Python have worked by then."""

    def __init__(self, tokens: list[int]) -> None:
        super().__init__(tokens, slots=2 * LANES, pages=LANES * CONTEXT // 64, unit_s=STEP_S)
        self.marks: list[tuple[float, float]] = []

    def poll(self) -> list[Completion]:
        """As it is, with a note where draws have landed."""
        done = super().poll()
        if any(isinstance(completion, SamplesDone) for completion in done):
            self.marks.append((perf_counter(), sum(map(_worked_s, threading.enumerate()))))
        return done


def _worked_s(thread: threading.Thread) -> float:
    assert thread.ident is not None
    return clock_gettime(pthread_getcpuclockid(thread.ident))


def _serve(port: int, marks: Path) -> None:
    """The server process: everything real but the device."""
    import uvloop

    from ninfer.base.clock import SystemClock
    from ninfer.build.parts import EngineParts, make_engine
    from ninfer.config.options import EngineOptions, ServerOptions
    from ninfer.frontend.frontend import Frontend
    from ninfer.server.app import build_app
    from ninfer.server.interpreter import settle_heap, share_interpreter
    from ninfer.server.journal import ManyJournals
    from ninfer.server.run import DrainingServer, bind_socket
    from ninfer.server.service import Service

    frontend = Frontend.from_dir(MODEL_DIR, b"bench", CONTEXT)
    device = _MarkingDevice(list(frontend.plan_text(SPEECH).tokens))
    options = EngineOptions(MODEL_DIR, max_concurrency=LANES)
    engine = make_engine(EngineParts(device, frontend, options, CONTEXT, "bench"))
    service = Service(ServerOptions(port=port), ("bench",), SystemClock())
    share_interpreter()
    settle_heap()
    service.open(engine)
    server = DrainingServer(build_app(service, ManyJournals()), service)
    uvloop.run(server.serve_on(bind_socket("127.0.0.1", port)))
    engine.close()
    marks.write_text("".join(f"{at_s} {work_s}\n" for at_s, work_s in device.marks))


if __name__ == "__main__":
    _serve(int(sys.argv[1]), Path(sys.argv[2]))
