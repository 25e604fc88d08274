"""The whole engine on a GPU: conversations with restore points give what the CPU gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from ninfer import Engine

TURNS = ["Hello!", "What is 3 plus 4?", "Thank you. Say goodbye."]


@pytest.fixture(autouse=True)
def _needs_a_gpu(device: torch.device) -> None:
    if device.type != "cuda":
        pytest.skip("the same engine runs on the CPU device in other tests")


def converse(count: int = len(TURNS), **options: Any) -> list[str]:
    """Greedy answers of one conversation, each turn on the points of the one before."""
    answers, messages = [], []
    with Engine(max_context=2048, **options) as engine:
        for turn in TURNS[:count]:
            messages.append({"role": "user", "content": turn})
            answers.append(engine.submit(messages, max_tokens=24, temperature=0).text())
            messages.append({"role": "assistant", "content": answers[-1]})
        assert engine.find_failure() is None
    return answers


def test_greedy_conversations_equal_the_cpu() -> None:
    """FP32: three turns, the later ones resumed."""
    assert converse(device="cuda", dtype="float32") == converse(device="cpu", dtype="float32", threads=4)


def test_the_serving_format_resumes_and_answers() -> None:
    """BF16 with captured steps: later turns are resumed; whole sentences come back, the same ones every time."""
    answers = converse(device="cuda")
    assert all(answer.strip() for answer in answers)
    assert converse(device="cuda") == answers


def test_lanes_share_a_gpu() -> None:
    """Four requests at once, sampled; every one ends, and the engine lives."""
    with Engine(device="cuda", max_context=2048, max_concurrency=4) as engine:
        running = [
            engine.submit([{"role": "user", "content": turn}], max_tokens=32, temperature=0.8, seed=number)
            for number, turn in enumerate([*TURNS, TURNS[0]])
        ]
        assert all(isinstance(request.text(), str) for request in running)
        assert engine.find_failure() is None
