"""Threads of a device: jobs run in order of submission, completions travel to whoever polls.

Knows no tensor. A worker holds its queue alone, so that a device nobody refers to any more ends its threads.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from ninfer.ports.device import Completion

Job = Callable[[], Completion | None]


class Outbox:
    """Completions of all threads in order of ending, and the errors that ended a job instead."""

    def __init__(self) -> None:
        self._arriving: SimpleQueue[list[Completion | Exception]] = SimpleQueue()
        self._arrived: deque[Completion | Exception] = deque()

    def put(self, done: list[Completion | Exception]) -> None:
        """From any thread."""
        self._arriving.put(done)

    def take(self) -> list[Completion]:
        """All there is, without waiting. An error is raised once everything before it has been taken."""
        with suppress(Empty):
            while True:
                self._arrived.extend(self._arriving.get_nowait())
        taken: list[Completion] = []
        while self._arrived:
            first = self._arrived[0]
            if isinstance(first, Exception):
                if taken:
                    break
                self._arrived.popleft()
                raise first
            taken.append(first)
            self._arrived.popleft()
        return taken

    def wait(self, timeout_s: float) -> None:
        """Until there is something to take, or the time is over."""
        if not self._arrived:
            with suppress(Empty):
                self._arrived.extend(self._arriving.get(timeout=timeout_s))

    def clear(self) -> None:
        """Forget what was not taken."""
        with suppress(Empty):
            while True:
                self._arriving.get_nowait()
        self._arrived.clear()


class Worker:
    """One thread. It ends on `close`, or when `owner` is gone."""

    def __init__(self, name: str, outbox: Outbox, owner: object) -> None:
        self._jobs: SimpleQueue[tuple[Job, bool] | None] = SimpleQueue()
        self._thread = threading.Thread(target=_run_jobs, args=(self._jobs, outbox), name=name, daemon=True)
        self._thread.start()
        weakref.finalize(owner, self._jobs.put, None)

    def submit(self, job: Job, *, tells_with_next: bool = False) -> None:
        """After all jobs before. `tells_with_next`: its completion may come with the next job's, if one is waiting:
        a thread is not woken for a step whose draws follow."""
        self._jobs.put((job, tells_with_next))

    def close(self) -> None:
        """Run what was submitted, then end the thread."""
        self._jobs.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join()


def _run_jobs(jobs: SimpleQueue[tuple[Job, bool] | None], outbox: Outbox) -> None:
    done: list[Completion | Exception] = []
    while True:
        taken = jobs.get()
        if taken is None:
            return
        job, tells_with_next = taken
        try:
            completion = job()
            if completion is not None:
                done.append(completion)
        except Exception as error:  # whoever polls has to hear it
            done.append(error)
        del job, taken  # a thread that rests refers to no device
        if done and not (tells_with_next and not jobs.empty()):
            outbox.put(done)
            done = []
