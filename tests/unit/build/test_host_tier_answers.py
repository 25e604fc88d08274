"""The engine with a host tier on the CPU device, transfers late or failing: each request says what it says alone."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ninfer.build.assemble import open_parts
from ninfer.build.parts import make_engine
from ninfer.config.options import ContextCacheOptions, EngineOptions
from ninfer.device.cpu import CpuDevice
from ninfer.device.host import HostLink, Transfer
from ninfer.engine.facade import Engine, RequestStream
from ninfer.engine.state import Counters
from ninfer.ports.device import HostCopy
from ninfer.ports.output import Failed, OutputDelta

DENSE = Path(__file__).parents[2] / "data" / "fixtures" / "dense_text"
Fault = Callable[[int], None]
"""Called with the number of a transfer, on the copy thread, before its bytes move."""


class FaultyLink:
    """The device's link with something that happens first."""

    def __init__(self, link: HostLink, fault: Fault) -> None:
        self._link, self._fault, self._count = link, fault, 0

    def carry(self, copies: Sequence[HostCopy], transfer: Transfer) -> None:
        self._count += 1
        self._fault(self._count)
        self._link.carry(copies, transfer)


def open_engine(fault: Fault | None, **options: Any) -> Engine:
    """float64: rounding flips no token, whatever the route (settled decision 8)."""
    parts = open_parts(EngineOptions(DENSE, dtype="float64", threads=1, audit_every_cycles=7, **options))
    if fault is not None:
        assert isinstance(parts.device, CpuDevice)
        parts.device._link = FaultyLink(parts.device._link, fault)  # type: ignore[assignment]
    return make_engine(parts)


def read_tokens(stream: RequestStream) -> list[int] | None:
    """None: the request failed."""
    events = list(stream)
    if isinstance(events[-1], Failed):
        return None
    return [token.token_id for event in events if isinstance(event, OutputDelta) for token in event.tokens]


def make_rounds(seed: int) -> list[list[list[int]]]:
    """Rounds of prompts that run together; later ones go back to what earlier ones left."""
    dice = random.Random(seed)
    bases = [[dice.randrange(5, 250) for _ in range(dice.randrange(90, 200))] for _ in range(4)]
    rounds = []
    for _ in range(6):
        picked = dice.sample(bases, 3)
        rounds.append([base + [dice.randrange(5, 250) for _ in range(dice.randrange(1, 60))] for base in picked])
    return rounds


def answer_all(engine: Engine, rounds: list[list[list[int]]]) -> list[list[int] | None]:
    answers = []
    for prompts in rounds:
        streams = [engine.submit(token_ids=prompt, max_tokens=40, temperature=0, ignore_eos=True) for prompt in prompts]
        answers += [read_tokens(stream) for stream in streams]
    return answers


def run_with(fault: Fault | None, rounds: list[list[list[int]]]) -> tuple[list[list[int] | None], Counters]:
    cache = ContextCacheOptions(device_state_slots=1, host_capacity_bytes=4_000_000)
    options = {"max_context": 384, "kv_capacity": 448, "max_concurrency": 3, "prefill_chunk_tokens": 64}
    with open_engine(fault, context_cache=cache, **options) as engine:
        answers = answer_all(engine, rounds)
        assert engine.find_failure() is None
        engine.core._state.audit()
        return answers, engine.core._state.counters


def be_late(_: int) -> None:
    time.sleep(0.02)


def fail_often(number: int) -> None:
    if number % 3 == 0:
        raise RuntimeError("the bytes did not arrive")


@pytest.fixture(scope="module")
def rounds() -> list[list[list[int]]]:
    return make_rounds(3)


@pytest.fixture(scope="module")
def alone(rounds: list[list[list[int]]]) -> list[list[int] | None]:
    """What each request says with nothing beside it and nothing before it."""
    with open_engine(None, reuse=False, max_context=384, max_concurrency=1) as engine:
        return [answer for prompts in rounds for prompt in prompts for answer in answer_all(engine, [[prompt]])]


def test_late_transfers_change_no_answer(rounds: list[list[list[int]]], alone: list[list[int] | None]) -> None:
    """[V-15] [J8] [K1] [L2] tight pools, every transfer far slower than a step."""
    answers, counters = run_with(be_late, rounds)
    assert answers == alone
    assert counters.demotions and counters.snapshots_resumed, counters


def test_failed_transfers_cost_at_most_the_request_that_needed_them(
    rounds: list[list[list[int]]], alone: list[list[int] | None]
) -> None:
    """[L3] [issue B bad input] an error or the right answer, never a wrong one; the engine goes on."""
    answers, _ = run_with(fail_often, rounds)
    wrong = [index for index, (got, want) in enumerate(zip(answers, alone, strict=True)) if got not in (None, want)]
    assert wrong == []
    assert sum(answer is not None for answer in answers) > len(answers) / 2
