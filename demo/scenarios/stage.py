"""What a scenario plays on: a server of its own, requests at the same time, its figures, and what must hold."""

from __future__ import annotations

import json
import random
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic, sleep

from openai import OpenAI

from demo.client import Answer, complete
from demo.words import invent

PATIENCE_S = 120.0
_TEXT_IDS = range(300, 3800)
"""Ordinary vocabulary of the bundled tokenizer: no control tokens, no single bytes."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the table. `options`: of the server, beside `SMALL` of `__main__`."""

    name: str
    promise: str
    options: tuple[str, ...]
    play: Callable[[Stage], None]


@dataclass(slots=True)
class Running:
    """A request under way; its answer fills while it runs."""

    answer: Answer
    sent: float
    _end: Future[Answer]

    def wait(self) -> Answer:
        """Its end. Raises what the client raised."""
        return self._end.result(PATIENCE_S)

    @property
    def has_ended(self) -> bool:
        """Whether the answer is whole."""
        return self._end.done()


@dataclass(slots=True)
class Stage:
    """One play. `notes`: what happened, for people; `problems`: what should not have."""

    url: str
    seed: int
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    client: OpenAI = field(init=False)
    _pool: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.client = OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)
        self._pool = ThreadPoolExecutor(8)

    def close(self) -> None:
        """No request is left."""
        self._pool.shutdown()
        self.client.close()

    def note(self, text: str) -> None:
        """What happened."""
        self.notes.append(text)

    def expect(self, holds: bool, what: str) -> None:
        """Note a problem unless it holds."""
        if not holds:
            self.problems.append(what)

    def take_over(self, answer: Answer) -> Answer:
        """A client's own findings count as well."""
        self.problems += [f"{answer.name}: {problem}" for problem in answer.problems]
        return answer

    def start(self, name: str, prompt: list[int], max_tokens: int) -> Running:
        """A raw completion that runs beside whatever comes next."""
        answer, sent = Answer(name), monotonic()
        return Running(answer, sent, self._pool.submit(complete, self.client, answer, prompt, max_tokens))

    def run(self, name: str, prompt: list[int], max_tokens: int) -> Answer:
        """A raw completion."""
        return self.start(name, prompt, max_tokens).wait()

    def draw_ids(self, count: int, name: str) -> list[int]:
        """Tokens of some text; the same for the same seed and name."""
        source = random.Random(f"{self.seed} {name}")
        return [source.choice(_TEXT_IDS) for _ in range(count)]

    def draw_talk(self, sentences: int, name: str) -> str:
        """So many sentences, each about a dozen tokens."""
        source = random.Random(f"{self.seed} {name}")
        return " ".join(f"My friend {invent(source)} lives in {invent(source)}." for _ in range(sentences))

    def wait_for(self, what: str, holds: Callable[[], bool]) -> bool:
        """Look again and again. False, and a problem: it never came to hold."""
        until = monotonic() + PATIENCE_S
        while monotonic() < until:
            if holds():
                return True
            sleep(0.01)
        self.problems.append(f"waited in vain: {what}")
        return False

    def count_paused(self) -> int:
        """Requests that are paused at this moment."""
        with urllib.request.urlopen(f"{self.url}/health", timeout=10) as answer:
            return int(json.loads(answer.read())["paused"])

    def read(self, metric: str) -> float:
        """A figure of `/metrics` by its name with labels, such as `ninfer_points{class="reused"}`."""
        return self._read_all()[metric]

    def count_points(self, standing: str | None = None) -> int:
        """Restore points kept; of records of one class only."""
        wanted = "ninfer_points{" if standing is None else f'ninfer_points{{class="{standing}"}}'
        return int(sum(value for name, value in self._read_all().items() if name.startswith(wanted)))

    def _read_all(self) -> dict[str, float]:
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line.startswith("ninfer_"))
        return {name: float(value) for name, value in pairs}


def describe(answer: Answer) -> str:
    """One line: where it began and what was computed."""
    said = (
        f"{answer.name}: {answer.prompt_tokens} prompt tokens, {answer.reused_tokens} reused from "
        f"{answer.restore_path.replace('_', ' ')}, {answer.completion_tokens} generated"
    )
    timings = answer.timings
    if timings.get("pauses"):
        said += (
            f"; paused {timings['pauses']} times ({timings.get('snapshots', 0)} by snapshot) for "
            f"{timings.get('paused_s', 0.0):.2f} s, {timings.get('replayed_tokens', 0)} tokens replayed"
        )
    return said
