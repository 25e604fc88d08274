"""Prompts that come while the same one is being computed, over HTTP with the tiny model ([G5])."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ninfer.build.assemble import assemble
from ninfer.config.options import EngineOptions

from .clients import CHAT, TEXT, LiveServer, wait_until

DENSE = Path(__file__).resolve().parents[1] / "data" / "fixtures" / "dense_text"
LONG = [(7 * index + index // 11) % 250 for index in range(2500)]


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    engine = assemble(
        EngineOptions(DENSE, dtype="float32", threads=1, max_concurrency=4, prefill_chunk_tokens=64, max_context=4096)
    )
    with LiveServer(engine) as server:
        yield server
    engine.close()


class Call(threading.Thread):
    """One request from a thread of its own."""

    def __init__(self, server: LiveServer, path: str, body: dict[str, Any]) -> None:
        super().__init__()
        self._send = lambda: httpx2.post(server.url + path, json={"ignore_eos": True, **body}, timeout=120)
        self.answer: dict[str, Any] = {}
        self.start()

    def run(self) -> None:
        self.answer = self._send().json()

    def result(self) -> dict[str, Any]:
        self.join(120)
        assert "error" not in self.answer, self.answer
        return self.answer


def running(server: LiveServer) -> int:
    count: int = httpx2.get(server.url + "/health").json()["running"]
    return count


def cached(answer: dict[str, Any]) -> int:
    count: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return count


def test_a_second_long_prompt_reuses_what_the_first_is_computing(server: LiveServer) -> None:
    """[G5]: it computes nothing that the first one computes, and says the same words."""
    body = {"prompt": LONG, "max_tokens": 12, "temperature": 0}
    first = Call(server, TEXT, body)
    wait_until(lambda: running(server) == 1)
    second = Call(server, TEXT, body)
    answers = [first.result(), second.result()]
    assert [cached(answer) for answer in answers] == [0, len(LONG)]
    assert answers[0]["choices"][0]["text"] == answers[1]["choices"][0]["text"]
    assert answers[1]["timings"]["computed_prompt_tokens"] == 0


def test_chats_that_come_together_share_a_marked_system_prompt(server: LiveServer) -> None:
    """[G5], [D11]: one of them computes it; each says what it says alone."""
    system = {"type": "text", "text": "Know the rules. " * 60, "cache_control": {"type": "ephemeral"}}
    bodies = [
        {
            "messages": [{"role": "system", "content": [system]}, {"role": "user", "content": f"Question {n}?"}],
            "max_tokens": 8,
            "temperature": 0,
        }
        for n in range(4)
    ]
    together = [call.result() for call in [Call(server, CHAT, body) for body in bodies]]
    alone = [Call(server, CHAT, body).result() for body in bodies]
    counts = sorted(cached(answer) for answer in together)
    assert counts[0] == 0
    assert counts[1] == counts[3] > 200, "the others start behind the system prompt"
    for one, other in zip(together, alone, strict=True):
        assert one["choices"][0]["message"] == other["choices"][0]["message"]
