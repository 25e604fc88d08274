"""Gaps of decoding lanes while clients post 100k-token prompts to a real server over a scripted device of 5 ms steps.

The server runs in a process of its own; the clients share the other one, so their own work is not in its interpreter.
A decode step and a chunk of prefill take turns on the device: 10 ms of every gap are the device's own. Gaps are
measured where they are made, at the engine (`timings.longest_gap_s`), and as the clients see them.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import ninfer
from bench.scripted import ScriptedDevice
from bench.stream import Seen, stream
from bench.table import Row
from demo.server import free_port, wait_until_ready

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


def measure() -> list[Row]:
    """Rows for clients that post new conversations, and for clients that go on with long ones."""
    with _running_server() as url:
        quiet = [seen for _ in range(ROUNDS) for seen in _decode(url, OUTPUT_TOKENS)]
        cold, cold_posts = _beside(url, _post_new)
        warm, warm_posts = _beside(url, _post_longer)
    return [
        *_rows("nobody posts", quiet),
        *_rows(f"{cold_posts} new prompts of 100k", cold),
        *_rows(f"{warm_posts} turns on 100k", warm),
    ]


def _rows(what: str, seen: list[Seen]) -> list[Row]:
    longest = sorted(1000 * float(each.timings["longest_gap_s"]) for each in seen)
    client = sorted(1000 * max(after - before for before, after in pairwise(each.moments)) for each in seen)
    middle, worst = median(longest), longest[-1]
    return [
        Row(f"{what}: longest gap of a stream, median", middle, "ms", f"<= {GOAL_MS:g}", middle <= GOAL_MS),
        Row(f"{what}: longest gap of all", worst, "ms", f"<= {GOAL_MS:g}", worst <= GOAL_MS),
        Row(f"{what}: longest as clients see it", client[-1], "ms"),
    ]


def _beside(url: str, post: Callable[[str, threading.Event, int], int]) -> tuple[list[Seen], int]:
    """Streams measured while two clients post, and how many posts were answered meanwhile."""
    over = threading.Event()
    counts = [0, 0]

    def keep_posting(number: int) -> None:
        counts[number] = post(url, over, number)

    posters = [threading.Thread(target=keep_posting, args=(number,)) for number in range(2)]
    for poster in posters:
        poster.start()
    seen = [each for _ in range(ROUNDS) for each in _decode(url, OUTPUT_TOKENS)]
    over.set()
    for poster in posters:
        poster.join()
    return seen, sum(counts)


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
def _running_server() -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        with log.open("wb") as sink:
            command = [sys.executable, "-m", "bench.gaps", str(port)]
            process = subprocess.Popen(command, stdout=sink, stderr=sink)
            try:
                wait_until_ready(url, process, log)
                yield url
            finally:
                process.terminate()
                process.wait(timeout=30)


def _serve(port: int) -> None:
    """The server process: everything real but the device."""
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
    speech = list(frontend.plan_text(SPEECH).tokens)
    device = ScriptedDevice(speech, slots=2 * LANES, pages=LANES * CONTEXT // 64, unit_s=STEP_S)
    options = EngineOptions(MODEL_DIR, max_concurrency=LANES)
    engine = make_engine(EngineParts(device, frontend, options, CONTEXT, "bench"))
    service = Service(ServerOptions(port=port), ("bench",), SystemClock())
    share_interpreter()
    settle_heap()
    service.open(engine)
    server = DrainingServer(build_app(service, ManyJournals()), service)
    import uvloop

    uvloop.run(server.serve_on(bind_socket("127.0.0.1", port)))
    engine.close()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
