"""How many threads the model should use: measured at start-up on the device itself, in a fraction of a second.

The numeric format is not chosen this way: it changes the numbers, and the same greedy request must give the same
answer after a restart (SAMP-10).
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from typing import Protocol

from ninfer.base.clock import SystemClock
from ninfer.base.frontier import pages_for
from ninfer.base.ids import LaneId, SlotId
from ninfer.base.pools import PAGE_TOKENS, Pool
from ninfer.ports.device import Device, SampleRow, SamplesDone, UnitBatch, UnitKind, UnitRow
from ninfer.ports.sampling import SamplingParams

_CHUNK_TOKENS = 128
_CHUNKS = 2
_STEPS = 8
_STEPS_PER_CHUNK = 64
"""A mix of one prompt chunk to so many decode steps is what the choice is made for."""
_CLEARLY = 0.9
"""More threads must save a tenth."""
_PATIENCE_S = 0.25
"""On a busy machine a sample is repeated only so long."""


class ThreadedDevice(Device, Protocol):
    """A device whose thread count may be set."""

    def set_threads(self, count: int) -> None:
        """From the next unit on."""
        ...


def choose_threads(device: ThreadedDevice, lanes: int) -> int:
    """Set the device's thread count to the faster of one and all cores but one; returns it.

    One core stays free: the text side and the server share the process, and a worker that is kept from a core holds
    up every parallel step (on two cores, decode with two threads took 11 ms a token beside a reader, 6 ms with one).
    Runs units on an idle device: pages and slots are left with contents that nobody names.
    """
    best, best_s = 1, float("inf")
    candidates = sorted({1, max(1, count_cores() - 1)})
    for threads in candidates if len(candidates) > 1 else ():
        mix_s = _time_mix(device, lanes, threads, give_up_s=best_s)
        if mix_s < best_s * _CLEARLY:
            best, best_s = threads, mix_s
    device.set_threads(best)
    return best


def count_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _time_mix(device: ThreadedDevice, lanes: int, threads: int, give_up_s: float) -> float:
    """Seconds of one chunk and its share of decode steps; the steps alone when they take longer than `give_up_s`."""
    device.set_threads(threads)
    tokens = min(_CHUNK_TOKENS, PAGE_TOKENS * device.facts.pages[Pool.MAIN_KV])
    steps_s = _STEPS_PER_CHUNK * best_of(_STEPS, lambda: run_on_idle(device, UnitKind.DECODE, 1, min(2, lanes)))
    if steps_s > give_up_s:
        return steps_s
    return steps_s + best_of(_CHUNKS, lambda: run_on_idle(device, UnitKind.PREFILL, tokens, 1))


def best_of(count: int, work: Callable[[], None]) -> float:
    """Other work on the machine only adds time, so the shortest sample is the truest."""
    clock = SystemClock()
    begin = clock.now()
    best = float("inf")
    for _ in range(count):
        start = clock.now()
        work()
        best = min(best, clock.now() - start)
        if clock.now() - begin > _PATIENCE_S:
            break
    return best


def run_on_idle(device: Device, kind: UnitKind, tokens: int, row_count: int) -> None:
    """One unit from the empty state, and its draws. Each row has its own slot and its own first page."""
    width = pages_for(tokens)
    lanes = [LaneId(number) for number in range(row_count)]
    rows = tuple(
        UnitRow(
            lane=lane,
            token_ids=memoryview(array("i", [1 + index % 7 for index in range(tokens)])),
            start=0,
            positions=memoryview(array("i", list(range(tokens)) * 3)),
            pages=dict.fromkeys(
                device.facts.pages, memoryview(array("i", range(1 + lane * width, 1 + (lane + 1) * width)))
            ),
            read_slot=None,
            write_slot=SlotId(1 + lane),
        )
        for lane in lanes
    )
    device.submit_unit(UnitBatch(kind, rows))
    params = SamplingParams(temperature=1.0, top_k=20, top_p=0.9)
    draws = device.submit_sampling([SampleRow(lane, SlotId(1 + lane), tokens, params, 0.5) for lane in lanes])
    while not any(isinstance(done, SamplesDone) and done.unit == draws for done in device.poll()):
        device.wait(1.0)
