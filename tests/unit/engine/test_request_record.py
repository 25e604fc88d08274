"""The record of a request outlives its lanes (B2)."""

from __future__ import annotations

import pytest
from sim_engine import SimEngine, filler

from ninfer.base.ids import Ticket
from ninfer.engine.request import Interrupt, Phase
from ninfer.ports.output import FinishReason, GenerationStart


@pytest.mark.parametrize("host", [0, 1 << 30])
@pytest.mark.parametrize("cancels", [False, True])
def test_ticket_input_output_budget_and_first_times_stay_over_a_pause(host: int, *, cancels: bool) -> None:
    """[B2] [A5] [N2]: destructive or by snapshot, the request is the same one; what it had said stays said."""
    engine = SimEngine(lanes=2, pages=16, max_context=1024, host=host)
    engine.submit(filler(400, 1), 500)
    younger = engine.submit(filler(400, 2), 300, recovery=390)
    engine.turn()
    request = engine.state.requests[Ticket(1)]
    kept = (request.plan, request.params, request.watch, request.publication, request.history, request.order)
    while request.phase is not Phase.PAUSED:
        engine.turn()
    assert (request.lane, request.sequence) == (None, None), "nothing of the device is left with it"
    assert (request.snapshot is not None) == (host > 0)
    said = list(younger.tokens)
    assert list(request.output_view()) == said == younger.expected(len(said))
    first_s = request.publication.timings().ttft_s
    if cancels:
        engine.core.cancel(Ticket(1))
        engine.turn()
        assert request.interrupt is Interrupt.CANCEL
        assert younger.finished.reason is FinishReason.CANCELLED
        assert younger.tokens == said
        engine.run()
        return
    engine.run()
    now = (request.plan, request.params, request.watch, request.publication, request.history, request.order)
    assert all(one is other for one, other in zip(kept, now, strict=True)), "the same objects over every pause"
    assert younger.finished.timings.ttft_s == pytest.approx(first_s), "first times are kept"
    assert len(younger.tokens) == 300, "the budget counts on"
    assert sum(isinstance(event, GenerationStart) for event in younger.events) == 1
    younger.check_output()
    onward = [*younger.prompt, *younger.tokens, *filler(20, 3)]
    again = engine.ask(onward, 2)
    assert again.start.cached_tokens >= 390, "its continuation is that of the request, whatever lanes it had"
