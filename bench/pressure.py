"""`python -m bench.pressure`: mixed requests say token for token the same under pressure, alone and without a cache.

In float64, where rounding flips no token. Alone: one lane, nothing kept, nothing beside it. Under pressure: eight lanes
over pages for 1.3 maximal requests, with a host that takes some of those that must give way and not all. Exit status 1
when an answer differs, or when the pressure was less than it should be.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from bench.pressure_load import Answer, Conversation, Reader, Task
from bench.table import Row, circumstances
from ninfer.base.pools import PAGE_TOKENS
from ninfer.build.opening import Engine
from ninfer.ports.output import Timings

REQUESTS = 200
PAUSES, PAUSES_OF_A_KIND = 100, 25
"""So many must happen among `REQUESTS`; in proportion among fewer."""
OVER_ONE = 1.3
"""Pages for so many requests of full length."""
LANES = 8
HOST_BYTES = 4_500_000
"""Two or three paused requests of the bundled model."""
_GROUP = 12
"""So many conversations of a kind are under way at a time: their first turns come together, then their second."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Which model is put under pressure (None: the bundled one), and what with. `nudge`: see `Conversation`."""

    model_dir: Path | None = None
    nudge: float = 0.0
    host_bytes: int = HOST_BYTES
    requests: int = REQUESTS
    seed: int = 1
    context_pages: int = 10

    @property
    def max_context(self) -> int:
        """Tokens of one maximal request."""
        return self.context_pages * PAGE_TOKENS

    @property
    def capacity(self) -> int:
        """Tokens of the pool for eight lanes; a lane has one page at least (C3)."""
        return max(LANES, int(self.context_pages * OVER_ONE)) * PAGE_TOKENS


@dataclass(frozen=True, slots=True)
class Pause:
    """One pause as it happened."""

    ticket: int
    is_snapshot: bool
    is_amid_output: bool
    is_inside_call: bool


@dataclass(slots=True)
class Run:
    """What one engine said to all tasks, and what it took."""

    answers: list[Answer] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    timings: list[Timings] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)


class PauseNotes(logging.Handler):
    """Hears of each pause when it happens, on the control thread, so that what has been said by then is known."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.pauses: list[Pause] = []
        self.readers: dict[int, Reader] = {}
        self.submitting = Lock()

    def emit(self, record: logging.LogRecord) -> None:
        """Take the message apart by its arguments."""
        if record.msg.startswith("request %d paused") and isinstance(record.args, tuple):
            ticket, how = int(str(record.args[0])), str(record.args[1])
            with self.submitting:
                reader = self.readers[ticket]
            self.pauses.append(Pause(ticket, how == "by snapshot", reader.output_tokens > 0, reader.is_inside_call))


@contextmanager
def noting_pauses() -> Iterator[PauseNotes]:
    """While it lasts, the engine's log is heard at its information level."""
    logger, notes = logging.getLogger("ninfer.engine"), PauseNotes()
    level = logger.level
    logger.addHandler(notes)
    logger.setLevel(logging.INFO)
    try:
        yield notes
    finally:
        logger.setLevel(level)
        logger.removeHandler(notes)


def open_engine(setup: Setup, *, lanes: int, capacity: int, reuse: bool, host_bytes: int) -> Engine:
    """One engine of the run."""
    return Engine(
        setup.model_dir,
        dtype="float64",
        threads=1,
        max_context=setup.max_context,
        max_concurrency=lanes,
        kv_capacity=capacity,
        context_cache={"device_state_slots": lanes // 2, "host_capacity_bytes": host_bytes},
        prefill_chunk_tokens=2 * PAGE_TOKENS,
        max_queue=setup.requests,
        reuse=reuse,
        audit_every_cycles=97,
    )


def ask_alone(setup: Setup) -> tuple[list[Task], Run]:
    """The tasks, made by asking them one after the other, and the one right answer of each."""
    tasks: list[Task] = []
    run, number = Run(), 0
    with open_engine(setup, lanes=1, capacity=setup.max_context, reuse=False, host_bytes=0) as engine:
        while len(tasks) < setup.requests:
            for task, answer in Conversation(number, setup.seed, setup.nudge).play(engine):
                tasks.append(task)
                run.answers.append(answer)
            number += 1
    count = setup.requests
    order = sorted(range(count), key=lambda index: (int(tasks[index].name.split(".")[0]) // _GROUP, tasks[index].turn))
    run.answers = [run.answers[index] for index in order]
    return [tasks[index] for index in order], run


def ask_together(setup: Setup, tasks: Sequence[Task], *, reuse: bool) -> Run:
    """All tasks at once, under pressure."""
    host_bytes = setup.host_bytes
    with (
        noting_pauses() as notes,
        open_engine(setup, lanes=LANES, capacity=setup.capacity, reuse=reuse, host_bytes=host_bytes) as engine,
    ):
        readers = [Reader(engine, task) for task in tasks]
        for reader in readers:
            with notes.submitting:
                notes.readers[reader.submit().ticket] = reader
        answers = [reader.answer() for reader in readers]
        counters = dict(engine.report().counters)
        return Run(answers, notes.pauses, [reader.wait().timings for reader in readers], counters)


def judge(tasks: Sequence[Task], alone: Run, pressed: Run, uncached: Run) -> list[Row]:
    """Sameness first, then that there was something to withstand."""
    rows = [Row("requests", len(tasks), "")]
    for name, run in (("under pressure", pressed), ("under pressure, no cache", uncached)):
        wrong = sum(got != want for got, want in zip(run.answers, alone.answers, strict=True))
        rows.append(Row(f"answers that differ {name}", wrong, "", "0", wrong == 0))
    failed = sum(bool(answer.error) for answer in alone.answers)
    rows.append(Row("requests that fail alone", failed, "", "0", failed == 0))
    share = min(1.0, len(tasks) / REQUESTS)
    by_snapshot = sum(pause.is_snapshot for pause in pressed.pauses)
    inside = sum(pause.is_inside_call for pause in pressed.pauses)
    twice = sum(count > 1 for count in Counter(pause.ticket for pause in pressed.pauses).values())
    for name, count, least in (
        ("pauses", len(pressed.pauses), PAUSES * share),
        ("pauses by snapshot", by_snapshot, PAUSES_OF_A_KIND * share),
        ("pauses followed by replay", len(pressed.pauses) - by_snapshot, PAUSES_OF_A_KIND * share),
        ("pauses amid the output", sum(pause.is_amid_output for pause in pressed.pauses), PAUSES_OF_A_KIND * share),
        ("pauses inside an open tool call", inside, 1),
        ("requests paused more than once", twice, 1),
    ):
        rows.append(Row(name, count, "", f">= {least:g}", count >= least))
    rows.append(Row("pauses without a cache", len(uncached.pauses), ""))
    for name in ("snapshots_resumed", "snapshots_revoked", "replayed_tokens", "cached_tokens", "demotions"):
        rows.append(Row(name.replace("_", " "), pressed.counters[name], ""))
    reasons = Counter(answer.reason for answer in alone.answers)
    rows += [Row(f"ended by {reason}", reasons[reason], "") for reason in sorted(reasons)]
    rows.append(Row("ended by a stop string", sum(a.stop_string is not None for a in alone.answers), ""))
    rows.append(Row("answers with a tool call", sum(bool(a.calls) for a in alone.answers), ""))
    rows.append(Row("output tokens", sum(len(a.token_ids) for a in alone.answers), ""))
    return rows


def list_differences(tasks: Sequence[Task], alone: Run, other: Run) -> Iterator[str]:
    """One line a difference: where it begins and how often the request was paused."""
    for task, want, got, timings in zip(tasks, alone.answers, other.answers, other.timings, strict=True):
        if got != want:
            pairs = zip(want.token_ids, got.token_ids, strict=False)
            first = next((at for at, (left, right) in enumerate(pairs) if left != right), None)
            yield (
                f"{task.name} {task.sampling} {task.limits}: first other token at {first}, {len(want.token_ids)} and "
                f"{len(got.token_ids)} tokens, {want.reason} and {got.reason} {got.error}; paused {timings.pauses} "
                f"times, {timings.snapshots} by snapshot"
            )


def measure(setup: Setup) -> tuple[list[Row], list[str]]:
    """The rows, and a line for each difference."""
    tasks, alone = ask_alone(setup)
    pressed = ask_together(setup, tasks, reuse=True)
    uncached = ask_together(setup, tasks, reuse=False)
    lines = [line for run in (pressed, uncached) for line in list_differences(tasks, alone, run)]
    return judge(tasks, alone, pressed, uncached), lines


def main() -> int:
    """Exit status 1 when something that must hold does not."""
    parser = argparse.ArgumentParser(prog="python -m bench.pressure", description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS, help=f"how many (default: {REQUESTS})")
    parser.add_argument("--seed", type=int, default=1, help="draws the requests")
    parser.add_argument("--model", type=Path, default=None, help="model directory (default: the bundled model)")
    parser.add_argument("--nudge", type=float, default=0.0, help="added to the logits of a call's markers")
    parser.add_argument("--host-bytes", type=int, default=HOST_BYTES, help="the host tier")
    given = parser.parse_args()
    setup = Setup(given.model, given.nudge, given.host_bytes, given.requests, given.seed)
    print(f"# pressure: {setup.requests} requests, seed {setup.seed} ({circumstances()})", flush=True)
    rows, lines = measure(setup)
    for text in (*(row.line() for row in rows), *lines):
        print(text, flush=True)
    return 1 if any(row.met is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
