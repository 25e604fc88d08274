"""The bundled model over HTTP on the CPU: decode alone and at four lanes, prefill, start-up, memory, a warm turn.

Server and client share the machine, as they do for a person who tries it. Prompts are random token ids from a seed,
so nothing is cached by accident; `logit_bias` keeps the stop tokens away, so every answer has its full length.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from bench.stream import Seen, stream
from bench.table import Row
from demo.server import running_server

DECODE_TOKENS = 256
PREFILL_TOKENS = 3000
RUNS = 5
LANES = 4
TEXT_IDS = range(300, 3800)
"""Ordinary vocabulary of the bundled tokenizer: no control tokens, no single bytes."""


def completion(url: str, prompt: list[int], max_tokens: int) -> Seen:
    """One streamed completion of `prompt`, greedy, never stopped by a stop token."""
    stops = json.loads((_model_dir() / "generation_config.json").read_text())["eos_token_id"]
    body: dict[str, Any] = {"model": "ninfer", "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
    return stream(url, "/v1/completions", {**body, "logit_bias": {str(token): -100 for token in stops}})


def measure() -> list[Row]:
    """All rows, from one server process; start-up from a process of its own."""
    source = random.Random(1)

    def draw(count: int) -> list[int]:
        return [source.choice(TEXT_IDS) for _ in range(count)]

    with running_server("--max-concurrency", str(LANES)) as url:
        completion(url, draw(200), 16)
        alone = median(completion(url, draw(50), DECODE_TOKENS).decode_tokens_per_s for _ in range(RUNS))
        together = median(_together(url, [draw(50) for _ in range(LANES)]) for _ in range(3))
        cold = [completion(url, draw(PREFILL_TOKENS), 1).ttft_s for _ in range(RUNS)]
        turns = [_two_turns(url, draw(PREFILL_TOKENS), draw(20)) for _ in range(RUNS)]
        resident = find_resident_bytes(url)
    ratio = median(warm.ttft_s / first.ttft_s for first, warm in turns)
    extra = max(_computed(warm) - 20 for _, warm in turns)
    return [
        Row("decode, 1 lane", alone, "tokens/s", ">= 120 (aim 180)", alone >= 120),
        Row(f"decode, {LANES} lanes in total", together, "tokens/s", ">= 2 x alone", together >= 2 * alone),
        Row("prefill, 3,000 tokens", PREFILL_TOKENS / median(cold), "tokens/s", ">= 1,500", median(cold) <= 2),
        Row("warm turn, TTFT / cold TTFT", ratio, "", "<= 0.1", ratio <= 0.1),
        Row("warm turn, computed beyond its new tokens", extra, "tokens", "<= 64", extra <= 64),
        Row("resident memory of the server", resident / 1e9, "GB", "<= 1.2", resident <= 1.2e9),
        _startup_row(),
    ]


def _together(url: str, prompts: list[list[int]]) -> float:
    """Total tokens per second of simultaneous requests, over the time in which all of them decode."""
    with ThreadPoolExecutor(len(prompts)) as pool:
        begin = perf_counter()
        seen = list(pool.map(lambda prompt: completion(url, prompt, DECODE_TOKENS), prompts))
        elapsed = perf_counter() - begin
    first = max(each.ttft_s for each in seen)
    return sum(int(each.usage["completion_tokens"]) - 1 for each in seen) / (elapsed - first)


def _two_turns(url: str, prompt: list[int], new: list[int]) -> tuple[Seen, Seen]:
    """A cold request, then the same prompt with new tokens behind it."""
    first = completion(url, prompt, 1)
    return first, completion(url, prompt + new, 1)


def _computed(seen: Seen) -> int:
    return int(seen.usage["prompt_tokens"]) - seen.cached_tokens


def find_resident_bytes(url: str) -> int:
    """VmRSS of the process that listens on the URL's port, found among this process's children."""
    port = url.rsplit(":", 1)[1]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
            if b"serve" in command and port.encode() in command:
                line = next(x for x in (folder / "status").read_text().splitlines() if x.startswith("VmRSS"))
                return int(line.split()[1]) * 1024
        except (FileNotFoundError, ProcessLookupError):
            continue
    raise RuntimeError("the server process was not found")


_STARTUP = """
from time import perf_counter
import ninfer.build.assemble
from ninfer import Engine
begin = perf_counter()
with Engine() as engine:
    for event in engine.submit([{"role": "user", "content": "Hello!"}], max_tokens=1, temperature=0):
        pass
print(perf_counter() - begin)
"""


def _startup_row() -> Row:
    """From after the imports to the first token, each time in a fresh process."""
    times = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", _STARTUP], check=True, capture_output=True, text=True)
        times.append(float(done.stdout.splitlines()[-1]))
    return Row("start-up to first token, after import", median(times), "s", "<= 3", median(times) <= 3)


def _model_dir() -> Path:
    import ninfer

    return Path(ninfer.__file__).parent / "bundled_model"
