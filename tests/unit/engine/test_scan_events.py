"""When waiting requests are asked again: at real events alone, and each at most once for one event (J2, J9)."""

from __future__ import annotations

import pytest
from sim_engine import Caller, SimEngine, filler

from ninfer.base.ids import Ticket
from ninfer.engine.admission import Admission, Outcome
from ninfer.engine.request import Request


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Ticket]:
    """Tickets in the order in which they were tried, whatever came of it, unless it was put off."""
    tickets: list[Ticket] = []
    attempt = Admission._attempt

    def spy(self: Admission, request: Request) -> Outcome:
        outcome = attempt(self, request)
        if not self._pace.has_yielded:
            tickets.append(request.ticket)
        return outcome

    monkeypatch.setattr(Admission, "_attempt", spy)
    return tickets


def ticket_of(caller: Caller) -> Ticket:
    assert caller.handle is not None
    return caller.handle.ticket


def test_chunks_and_decode_steps_reopen_no_scan(asked: list[Ticket]) -> None:
    """[J2]: a prompt that starts from nothing gives nothing back before it ends, however it goes on."""
    engine = SimEngine(lanes=2, pages=32, max_context=2048, chunk=512)
    long = engine.submit(filler(1800, 1), 150)
    engine.turn()
    while engine.state.requests[ticket_of(long)].frontier < 1536:
        engine.turn()
    blocked = engine.submit(filler(600, 2), 2)
    while len(long.tokens) < 140:
        engine.turn()
    assert asked == [ticket_of(long), ticket_of(blocked)], "a chunk and 140 decode steps are no event"
    engine.run()
    for caller in (long, blocked):
        caller.check_output()


def test_the_first_unit_from_a_restore_point_is_an_event(asked: list[Ticket]) -> None:
    """[J2] [V-03]: also where it feeds a drawn token, as after an exact hit."""
    engine = SimEngine(lanes=2, slots=2, pages=32, chunk=64)
    chat = engine.ask(filler(300, 1), 5, recovery=300)
    again = engine.submit(chat.prompt, 100, recovery=300)
    fresh = engine.submit(filler(50, 2), 5)
    engine.run()
    for caller in (again, fresh):
        caller.check_output()
    assert again.start.cached_tokens == 300
    assert fresh.finished.timings.queued_s < 0.02, "it did not have to wait for the end of the other"
    assert asked.count(ticket_of(fresh)) <= 3


def test_a_scan_that_was_broken_off_goes_on_behind_those_already_asked(asked: list[Ticket]) -> None:
    """[J2]: starts that give nothing back do not send it to the head again; a release does."""
    engine = SimEngine(lanes=4, pages=20, max_context=1280, chunk=1024)
    holder = engine.submit(filler(640, 1), 60)
    engine.turn(3)
    head = engine.submit(filler(900, 2), 2)
    small = [engine.submit(filler(20, 3 + index), 40) for index in range(2)]
    while not all(caller.tokens for caller in small):
        engine.turn()
    assert asked == [ticket_of(caller) for caller in (holder, head, *small)], "each once, in order of tickets"
    engine.run()
    assert asked[4:] and set(asked[4:]) == {ticket_of(head)}, "a release asks it again"
    for caller in (holder, head, *small):
        caller.check_output()
