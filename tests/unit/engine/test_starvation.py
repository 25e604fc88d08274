"""Room for restore points goes to those who come back: nobody who is gone keeps it for ever (H3, E3, CACHE-12)."""

from __future__ import annotations

import pytest
from sim_engine import Caller, SimEngine, filler


def chat_turn(engine: SimEngine, history: list[int], number: int, *, lead: int = 4) -> Caller:
    """A turn of a chat whose template rewrites what the model said: only the input point can serve the next one."""
    history += filler(60, 1000 * len(history) + number)
    caller = engine.ask(history, 6, recovery=len(history) - lead)
    caller.check_output()
    del history[-lead:]
    history += filler(10, 77 + number)
    return caller


@pytest.mark.parametrize("length", [100, 200, 400])
def test_chats_that_are_gone_leave_room_for_a_new_one(length: int) -> None:
    """[H3], [E3]: two chats were reused once and never return; the third is warm after a few turns, and stays so."""
    engine = SimEngine(lanes=2, slots=4, pages=64)
    for seed in (1, 2):
        history = filler(200, seed)
        chat_turn(engine, history, 1)
        assert chat_turn(engine, history, 2).start.cached_tokens > 0
    history = filler(length, 3)
    cached = [chat_turn(engine, history, number).start.cached_tokens for number in range(8)]
    assert all(cached[3:]), cached


def test_one_lane_and_a_single_state_beside_it_are_no_exception() -> None:
    """[H3], [I9]: a chat that was reused gives way to the next one as soon as that is the longer, and for good."""
    engine = SimEngine(lanes=1, slots=2, pages=64, max_context=3000)
    gone = filler(300, 1)
    chat_turn(engine, gone, 1)
    assert chat_turn(engine, gone, 2).start.cached_tokens > 0
    for chat in range(2, 6):
        history = filler(300, chat)
        cached = [chat_turn(engine, history, number).start.cached_tokens for number in range(5 * chat)]
        assert cached[-1], (chat, cached)


def test_a_huge_history_that_never_returns_loses_its_place() -> None:
    """[E3] [H2] [I9]: two requests that computed a position prove its demand, which no length outweighs."""
    engine = SimEngine(lanes=1, slots=2, pages=64, max_context=4096, chunk=1024)
    engine.ask(filler(3500, 1), 4, recovery=3490)
    cached = []
    for _ in range(9):
        cached.append(engine.ask(filler(60, 2), 4, recovery=50).start.cached_tokens)
        if cached[-1]:
            break
    assert len(cached) == 4, cached
