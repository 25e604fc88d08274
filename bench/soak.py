"""`python -m bench.soak --seconds N`: overload over HTTP with random disconnects, and what must hold of it.

A server with the bundled model in float64, a pool far too small for its lanes, a short queue, more clients than fit.
No hang, no wrong answer, every request on record exactly once, nothing left running at the end, memory flat.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import urllib.request
from collections import Counter
from pathlib import Path
from statistics import linear_regression, median, pstdev
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from time import perf_counter, sleep
from typing import Any

from bench.http import find_resident_bytes
from bench.soak_load import Ending, Manner, Task, Visit, call, draw_bodies, learn
from bench.table import Row, circumstances
from demo.server import running_server

SERVER = (
    *("--dtype", "float64", "--threads", "1", "--max-concurrency", "4"),
    *("--max-context", "512", "--kv-capacity", "512", "--device-state-slots", "5", "--host-capacity-bytes", "3MiB"),
    *("--max-queue", "8", "--prefill-chunk", "64"),
)
CLIENTS = 14
SAMPLE_S = 1.0
SETTLE_S = 60.0
_NEVER = (Ending.WRONG, Ending.HUNG, Ending.FAILED)


class Load:
    """Clients that ask until the time is over."""

    def __init__(self, url: str, tasks: list[Task], seconds: float, seed: int) -> None:
        self.visits: list[Visit] = []
        self._url, self._tasks, self._seed = url, tasks, seed
        self._until = perf_counter() + seconds
        self._lock = Lock()

    def run(self) -> list[tuple[float, int]]:
        """Moments and resident bytes of the server while it lasts."""
        threads = [Thread(target=self._visit, args=(number,)) for number in range(CLIENTS)]
        begin, memory = perf_counter(), []
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            memory.append((perf_counter() - begin, find_resident_bytes(self._url)))
            sleep(SAMPLE_S)
        return memory

    def _visit(self, number: int) -> None:
        chance = random.Random(f"{self._seed} {number}")
        count = 0
        while perf_counter() < self._until:
            count += 1
            manner = chance.choices(list(Manner), (5, 2, 3, 2))[0]
            visit = Visit(f"soak-{number}-{count}", manner)
            call(self._url, chance.choice(self._tasks), visit, chance)
            with self._lock:
                self.visits.append(visit)
            if visit.ending is Ending.REFUSED:
                sleep(chance.random() * 0.5)  # shorter than asked for: the overload is the point


def main() -> int:
    """Exit status 1 when something that must hold does not."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0, help="how long (default: 1800)")
    parser.add_argument("--seed", type=int, default=1, help="draws the requests and what clients do")
    given = parser.parse_args()
    print(f"# soak: {given.seconds:g} s, seed {given.seed} ({circumstances()})", flush=True)
    with TemporaryDirectory() as folder:
        log = Path(folder) / "requests.jsonl"
        with running_server(*SERVER, "--request-log", str(log)) as url:
            tasks = learn(url, draw_bodies(given.seed, 24))
            load = Load(url, tasks, given.seconds, given.seed)
            memory = load.run()
            left = _wait_for_rest(url)
            totals = _fetch_totals(url)
        rows = judge(load.visits, [json.loads(line) for line in log.read_text().splitlines()], memory, left, totals)
    for row in rows:
        print(row.line(), flush=True)
    for visit in [visit for visit in load.visits if visit.ending in _NEVER][:10]:
        print(f"{visit.request_id} {visit.manner.value}: {visit.ending.value} {visit.detail} {visit.seen[:300]}")
    return 1 if any(row.met is False for row in rows) else 0


def judge(
    visits: list[Visit],
    lines: list[dict[str, Any]],
    memory: list[tuple[float, int]],
    left: int,
    totals: dict[str, float],
) -> list[Row]:
    """What happened, and what must hold."""
    endings = Counter(visit.ending for visit in visits)
    rows = [
        Row(f"requests {ending.value}", endings[ending], "") for ending in (Ending.RIGHT, Ending.LEFT, Ending.REFUSED)
    ]
    rows += [Row(f"requests {e.value}", endings[e], "", "0", endings[e] == 0) for e in _NEVER]
    logged = Counter(line["id"] for line in lines if line["id"].startswith("soak-"))
    once = sum(logged[visit.request_id] != 1 for visit in visits)
    rows.append(Row("requests not on record exactly once", once, "", "0", once == 0))
    outcomes = {line["id"]: line["outcome"] for line in lines}
    unlike = sum(not _agrees(visit, outcomes.get(visit.request_id)) for visit in visits)
    rows.append(Row("requests whose record tells another end", unlike, "", "0", unlike == 0))
    rows.append(Row("requests left running at the end", left, "", "0", left == 0))
    names = ("pauses", "snapshots", "replayed_tokens", "prefill_tokens", "output_tokens", "transfers", "captures")
    rows += [Row(name.replace("_", " "), totals.get(f"ninfer_{name}_total", 0.0), "") for name in names]
    rows.append(
        Row(
            "pauses happened",
            totals.get("ninfer_pauses_total", 0.0),
            "",
            ">= 1",
            bool(totals.get("ninfer_pauses_total")),
        )
    )
    longest = max((gap for visit in visits for gap in visit.gaps_s), default=0.0)
    return [*rows, Row("longest gap a reader saw", longest, "s"), *judge_memory(memory)]


def judge_memory(memory: list[tuple[float, int]]) -> list[Row]:
    """Flat: what the second half grows by lies within its own noise, or is below 1 % of it."""
    tail = memory[len(memory) // 2 :]
    if len(tail) < 3:
        return []
    moments, sizes = [at for at, _ in tail], [size / 1e6 for _, size in tail]
    slope, start = linear_regression(moments, sizes)
    growth = slope * (moments[-1] - moments[0])
    noise = pstdev(size - (start + slope * at) for at, size in zip(moments, sizes, strict=True))
    limit = max(3 * noise, 0.01 * median(sizes))
    return [
        Row("resident memory, second half", median(sizes), "MB"),
        Row("its growth", growth, "MB", f"<= {limit:.1f}", growth <= limit),
    ]


def _agrees(visit: Visit, outcome: str | None) -> bool:
    """A client that leaves may be faster or slower than its answer."""
    match visit.ending:
        case Ending.RIGHT:
            return outcome == "completed"
        case Ending.REFUSED:
            return outcome == "refused"
        case Ending.LEFT:
            return outcome in ("completed", "cancelled", "refused")
        case _:
            return outcome is not None


def _wait_for_rest(url: str) -> int:
    """Requests that are still there after a while: none, or somebody was forgotten."""
    until, left = perf_counter() + SETTLE_S, 1
    while left and perf_counter() < until:
        with urllib.request.urlopen(f"{url}/health", timeout=10) as answer:
            health = json.loads(answer.read())
        left = health["running"] + health["waiting"] + health["paused"]
        sleep(0.2)
    sleep(1.0)  # the last lines of the log
    return int(left)


def _fetch_totals(url: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.split(" ") for line in lines if line.startswith("ninfer_") and "{" not in line)
    return {name: float(value) for name, value in pairs}


if __name__ == "__main__":
    sys.exit(main())
