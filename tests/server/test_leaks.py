"""After hundreds of requests over HTTP, many of them cancelled, nothing is left but what was there before."""

from __future__ import annotations

import gc
import http.client
import json
import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ninfer.build.assemble import assemble
from ninfer.config.options import ContextCacheOptions, EngineOptions
from ninfer.engine.facade import Engine
from ninfer.sim.leaks import REMEMBERED

from .clients import CHAT, TEXT, LiveServer, wait_until

DENSE = Path(__file__).resolve().parents[1] / "data" / "fixtures" / "dense_text"
WARM_UP = 60
CLIENTS = 6
LINGERING = 1
"""Objects of a type that a resting thread may still refer to: the last request it saw."""
COUNTED = ("engine", "resource", "program", "store", "sched", "ports", "base", "server", "device")
"""Packages whose objects are counted. Text work remembers texts on purpose, up to a limit."""


@pytest.fixture
def engine() -> Iterator[Engine]:
    """Pools so tight that requests demote, pause, resume and recompute; a host tier of a few states and pages."""
    options = EngineOptions(
        DENSE,
        dtype="float32",
        threads=1,
        max_concurrency=3,
        max_context=512,
        kv_capacity=640,
        prefill_chunk_tokens=64,
        context_cache=ContextCacheOptions(device_state_slots=1, host_capacity_bytes=2_500_000),
        audit_every_cycles=50,
    )
    engine = assemble(options)
    yield engine
    engine.close()


class Client:
    """Sends one request after the other from a seed: chats that grow, raw prompts, and departures at every stage."""

    def __init__(self, port: int, seed: int) -> None:
        self._port, self._random = port, random.Random(seed)
        self._history: list[dict[str, Any]] = []

    def run(self, count: int) -> Counter[str]:
        return Counter(self._request() for _ in range(count))

    def _request(self) -> str:
        dice = self._random
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        path, body = self._body()
        leaves = dice.random() < 0.4
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        try:
            if leaves and dice.random() < 0.5:
                return "left at once"
            response = connection.getresponse()
            if response.status != 200:
                return f"status {response.status}"
            if leaves:
                response.read(dice.randrange(1, 1200))
                return "left in the stream"
            text = response.read()
        finally:
            connection.close()
        if path == CHAT and len(self._history) < 8:
            self._history.append({"role": "assistant", "content": f"{len(text)} bytes"})
        else:
            self._history.clear()
        return "finished"

    def _body(self) -> tuple[str, dict[str, Any]]:
        dice = self._random
        fields = {
            "max_tokens": dice.choice((1, 8, 24, 60)),
            "temperature": dice.choice((0, 1)),
            "seed": dice.randrange(1000),
            "stream": dice.random() < 0.7,
            "ignore_eos": True,
        }
        if dice.random() < 0.5:
            start = dice.randrange(4)
            tokens = [(start * 31 + 7 * index) % 250 for index in range(dice.randrange(10, 400))]
            return TEXT, {"prompt": tokens, **fields}
        if self._history and self._history[-1]["role"] == "user":
            self._history.pop()
        self._history.append({"role": "user", "content": "word " * dice.randrange(1, 20)})
        return CHAT, {"messages": self._history, **fields}


def send(server: LiveServer, count: int, seed: int) -> Counter[str]:
    """`count` requests from several clients at a time."""
    clients = [Client(server.port, seed + number) for number in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        parts = pool.map(lambda client: client.run(count // CLIENTS), clients)
        return sum(parts, Counter())


def drop_points(engine: Engine) -> str:
    """Wait until nobody is left, give up every restore point; what is then free, as a word and not as an object."""
    state = engine.core._state
    wait_until(lambda: not state.requests and not state.has_work_in_flight, 30)
    assert state.program.list_sequences() == []
    for point in state.program.list_points():
        state.program.discard_point(point)
    state.reconcile()
    state.audit()
    return repr(state.program.occupancy().free)


def count_objects() -> Counter[str]:
    """Living objects of the engine's own types."""
    gc.collect()
    names = (f"{type(thing).__module__}.{type(thing).__qualname__}" for thing in gc.get_objects())
    packages = tuple(f"ninfer.{package}." for package in COUNTED)
    return Counter(name for name in names if name.startswith(packages))


def count_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def settle(server: LiveServer, engine: Engine) -> tuple[str, Counter[str], int, int]:
    """Everything that must come back: free cells and bytes, objects, open files, threads."""
    wait_until(lambda: server.service.count_live() == 0, 30)
    free = drop_points(engine)
    server.journal.records.clear()
    wait_until(lambda: not server._server.server_state.connections, 30)
    return free, count_objects(), count_files(), threading.active_count()


@pytest.mark.parametrize("requests", [150, pytest.param(500, marks=pytest.mark.full)])
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted in /proc")
def test_nothing_is_left_of_hundreds_of_requests(engine: Engine, requests: int) -> None:
    """[issue B, leaks] [B8] [L3] pages, slots, host bytes, objects, open files, threads."""
    capacity = repr(engine.core._state.program.occupancy().capacity)
    with LiveServer(engine) as server:
        send(server, WARM_UP, seed=1000)
        free, objects, files, threads = settle(server, engine)
        assert free == capacity
        ends = send(server, requests, seed=1)
        free, more_objects, more_files, more_threads = settle(server, engine)
    counters = engine.core._state.counters
    assert engine.find_failure() is None
    assert free == capacity
    grown = {
        name: count
        for name, count in (more_objects - objects).items()
        if count > LINGERING and more_objects[name] > REMEMBERED.get(name, 0)
    }
    assert not grown, grown
    assert more_files <= files
    assert more_threads <= threads
    assert ends["finished"] > requests / 3
    assert ends["left at once"] + ends["left in the stream"] > requests / 5
    assert counters.pauses and counters.snapshots and counters.demotions, counters
