"""Timed order: arrivals by the trace's clock, every cycle against the geometry's cost model (`--order timed`).

A turn without a parent arrives as recorded, one with a parent when that has ended and its think time is over.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from .trace import Trace
from .world import Ran, ReplayWorld


class TimedDriver:
    """Plays one trace; time passes only where nothing can be done."""

    def __init__(self, world: ReplayWorld, trace: Trace) -> None:
        self._world = world
        self._trace = trace
        self._children: dict[int, list[int]] = {}
        self._coming: list[tuple[float, int]] = []
        self._ran: dict[int, Ran] = {}
        self._living: dict[int, Ran] = {}
        for request in trace.requests:
            if request.parent is None:
                heapq.heappush(self._coming, (request.arrival_s, request.index))
            else:
                self._children.setdefault(request.parent, []).append(request.index)
        self.deferred = 0
        """Nobody is put off: a request waits in the queue, and its TTFT says so."""

    def run(self, note: Callable[[int], None]) -> list[Ran]:
        """Everything, in order of the trace. `note`: how many requests have ended."""
        world = self._world
        while self._coming or self._living:
            self._arrive()
            moved = world.step()
            self._note_ends()
            note(len(self._ran) - len(self._living))
            if not moved:
                self._pass_time()
        return [self._ran[index] for index in range(len(self._trace.requests))]

    def _arrive(self) -> None:
        while self._coming and self._coming[0][0] <= self._world.clock.now():
            _, index = heapq.heappop(self._coming)
            self._ran[index] = self._living[index] = self._world.submit(self._trace.requests[index])

    def _note_ends(self) -> None:
        now_s = self._world.clock.now()
        for index, ran in list(self._living.items()):
            if not ran.has_ended:
                continue
            if ran.error is not None:
                raise ran.error
            self._world.forget(ran)
            del self._living[index]
            for child in self._children.get(index, ()):
                heapq.heappush(self._coming, (now_s + self._trace.requests[child].think_s, child))

    def _pass_time(self) -> None:
        """On to the next completion or arrival."""
        due_s = self._world.device.next_due_s
        times = [self._coming[0][0]] if self._coming else []
        times += [] if due_s is None else [due_s]
        assert times or not self._living, "V-16: nothing moves and nothing is awaited"
        if times:
            self._world.clock.advance(max(0.0, min(times) - self._world.clock.now()))
