"""The tiny real model under pressure: with a host, without one, and without any cache it says the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ninfer.build.opening import Engine
from ninfer.engine.state import Counters
from ninfer.ports.output import OutputDelta

MODEL = Path(__file__).resolve().parents[2] / "data" / "fixtures" / "dense_text"
CHATS, TURNS = 5, 2


def talk(host_bytes: int, *, reuse: bool = True, kv_capacity: int = 512) -> tuple[list[list[int]], Counters]:
    """Several chats of two turns on three lanes; every answer in order, and what the engine counted."""
    cache = {"device_state_slots": 1, "host_capacity_bytes": host_bytes}
    dice = random.Random(4)
    histories = [[dice.randrange(20, 200) for _ in range(100 + 10 * chat)] for chat in range(CHATS)]
    answers: list[list[int]] = []
    with Engine(
        MODEL,
        dtype="float64",
        threads=1,
        max_context=512,
        max_concurrency=3,
        kv_capacity=kv_capacity,
        context_cache=cache,
        reuse=reuse,
        audit_every_cycles=1,
    ) as engine:
        for turn in range(TURNS):
            streams = [
                engine.submit(token_ids=history, max_tokens=70, temperature=0, ignore_eos=True) for history in histories
            ]
            for history, stream in zip(histories, streams, strict=True):
                told = [out.token_id for event in stream if isinstance(event, OutputDelta) for out in event.tokens]
                answers.append(told)
                history += [*told, 30 + turn, 40]
        counters = engine.core._state.counters
    return answers, counters


@pytest.fixture(scope="module")
def alone() -> list[list[int]]:
    answers, _ = talk(0, reuse=False, kv_capacity=1536)
    return answers


def test_with_a_host_nothing_is_replayed_and_nothing_differs(alone: list[list[int]]) -> None:
    """[V-15], [K1], [F3]: demotions, restores and pauses by Snapshot on threads of the device, bit for bit."""
    answers, counters = talk(256 << 20)
    assert answers == alone
    assert counters.demotions > 0
    assert counters.snapshots == counters.pauses > 0
    assert counters.replayed_tokens == 0
    assert counters.failed_transfers == 0


def test_without_a_host_pauses_replay_and_nothing_differs(alone: list[list[int]]) -> None:
    """[V-15], [K2], [C2]"""
    answers, counters = talk(0)
    assert answers == alone
    assert counters.snapshots == 0
    assert counters.replayed_tokens > 0
