"""A scripted device: it says given tokens, lane by lane, and takes a given time for each unit. It computes nothing.

What remains beside it is the engine's own work. Where units take time, they end in order of submission.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from time import perf_counter

from ninfer.base.ids import TransferId, UnitId
from ninfer.base.pools import Pool
from ninfer.ports.device import (
    Completion,
    CopyDone,
    DeviceFacts,
    HostCopy,
    PageCopy,
    RunResult,
    SampleRow,
    SamplesDone,
    StateCopy,
    UnitBatch,
    UnitDone,
)

VOCAB_TOKENS = 4096


class ScriptedDevice:
    """Implements `ports.device.Device`. A draw at position p gives `tokens[p % len(tokens)]`."""

    host_bytes = 0

    def __init__(self, tokens: Sequence[int], *, slots: int, pages: int, unit_s: float = 0.0) -> None:
        """`unit_s`: seconds of a forward pass; copies and draws take none of their own."""
        self.facts = DeviceFacts(VOCAB_TOKENS, slots, {Pool.MAIN_KV: pages}, {Pool.MAIN_KV: 1}, 1)
        self._tokens = tuple(tokens)
        self._unit_s = unit_s
        self._free_at = 0.0
        self._queue: deque[tuple[float, Completion]] = deque()
        self._sleep = threading.Event()
        self._submitted = 0

    def submit_copy(self, copies: Sequence[PageCopy | StateCopy]) -> TransferId:  # noqa: ARG002
        """Nothing is copied."""
        transfer = TransferId(self._next())
        self._add(CopyDone(transfer), 0.0)
        return transfer

    def submit_host_copy(self, copies: Sequence[HostCopy]) -> TransferId:
        """There is no host."""
        raise AssertionError(copies)

    def submit_unit(self, batch: UnitBatch, after: Sequence[TransferId] = ()) -> UnitId:  # noqa: ARG002
        """Nothing is computed; it takes its time."""
        unit = UnitId(self._next())
        self._add(UnitDone(unit), self._unit_s)
        return unit

    def submit_sampling(self, rows: Sequence[SampleRow]) -> UnitId:
        """One token a row, as scripted."""
        unit, tokens = UnitId(self._next()), self._tokens
        runs = tuple(RunResult(row.lane, (tokens[row.position % len(tokens)],)) for row in rows)
        self._add(SamplesDone(unit, runs), 0.0)
        return unit

    def poll(self) -> list[Completion]:
        """What is over by now."""
        done: list[Completion] = []
        now = perf_counter() if self._queue else 0.0
        while self._queue and self._queue[0][0] <= now:
            done.append(self._queue.popleft()[1])
        return done

    def wait(self, timeout_s: float) -> None:
        """Until the oldest unit is over."""
        left_s = self._queue[0][0] - perf_counter() if self._queue else timeout_s
        if left_s > 0:
            self._sleep.wait(min(left_s, timeout_s))

    def close(self) -> None:
        """There is nothing to give back."""

    def _add(self, completion: Completion, seconds: float) -> None:
        self._free_at = max(self._free_at, perf_counter()) + seconds
        self._queue.append((self._free_at, completion))

    def _next(self) -> int:
        self._submitted += 1
        return self._submitted
