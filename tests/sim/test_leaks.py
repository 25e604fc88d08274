"""After a long life of one engine nothing is left of its requests; what is kept by mistake is named."""

from __future__ import annotations

import pytest

from ninfer.base.ids import Ticket
from ninfer.engine.cycle import Cycle
from ninfer.engine.request import Request
from ninfer.sim.leaks import live_long, run_life, stretch
from ninfer.sim.spec import draw_world


def test_nothing_is_left_of_hundreds_of_requests() -> None:
    """[B8, C5] with cancels, refusals and failed transfers; free cells and bytes are checked by the world itself."""
    (report,) = live_long(5, 250)
    assert report.counts.requests == 250
    assert report.counts.cancels > 10
    assert report.counts.faults > 10
    assert report.left == ()


def test_a_record_that_is_kept_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One reference too many to every seventh request."""
    kept: list[Request] = []
    arrive = Cycle.arrive

    def keep(self: Cycle, request: Request) -> None:
        if request.ticket % 7 == Ticket(0):
            kept.append(request)
        arrive(self, request)

    monkeypatch.setattr(Cycle, "arrive", keep)
    report = run_life(stretch(draw_world(3), 21))
    assert any(words.startswith("ninfer.engine.request.Request: 0 -> 3") for words in report.left)
