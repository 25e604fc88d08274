"""Tokens that the engine says itself, and what a snapshot leaves to feed."""

from __future__ import annotations

import pytest
from sim_engine import VOCAB, Caller, SimEngine, filler

from ninfer.base.errors import BadInput
from ninfer.build.opening import Engine
from ninfer.engine.draws import uniform
from ninfer.engine.request import Phase
from ninfer.frontend.plan import ThoughtEnd
from ninfer.ports.output import FinishReason, OutputDelta
from ninfer.ports.sampling import SamplingParams
from ninfer.sim.chain import expected_tokens
from ninfer.sim.device import SIM_STATE_BYTES

END = ThoughtEnd((701, 702, 703), 702)


def expected(caller: Caller, count: int, after: int, end: ThoughtEnd = END) -> list[int]:
    draws = None if caller.params.is_greedy else (lambda at: uniform(caller.params.seed, at))
    return expected_tokens(
        caller.prompt,
        count,
        vocab_tokens=VOCAB,
        uniforms=draws,
        closing=end.token_ids,
        closing_mark=end.mark,
        closing_after=after,
    )


@pytest.mark.parametrize("longest_run", [1, 8])
@pytest.mark.parametrize("after", [0, 1, 5, 17, 18, 19, 20, 40])
def test_a_thought_over_its_budget_is_ended_for_the_model(after: int, longest_run: int) -> None:
    """[C6] [J1]: after exactly so many tokens however they come in runs, cut short by the output's own budget, and what
    follows depends on what was said."""
    engine = SimEngine(delay_polls=2, longest_run=longest_run)
    caller = engine.ask(filler(60, 1), 20, thought_end=END, thinking_budget=after)
    assert caller.tokens == expected(caller, 20, after)
    assert caller.tokens[after : after + 3] == [701, 702, 703][: max(0, 20 - after)]
    assert caller.finished.reason is FinishReason.LENGTH


def test_a_thought_that_the_model_has_ended_is_left_alone() -> None:
    """[C6]: the mark counts, not what the template writes around it; without a budget nothing is ever said."""
    engine = SimEngine()
    free = engine.ask(filler(60, 1), 20)
    free.check_output()
    ends = ThoughtEnd((701, free.tokens[6], 703), free.tokens[6])
    for budget in (7, 12, None):
        caller = engine.ask(filler(60, 1), 20, thought_end=ends, thinking_budget=budget)
        assert caller.tokens == free.tokens
    late = engine.ask(filler(60, 1), 20, thought_end=ends, thinking_budget=6)
    assert late.tokens[:9] == [*free.tokens[:6], 701, free.tokens[6], 703]


def test_what_is_said_counts_like_what_is_drawn() -> None:
    """[K4] [SAMP-04]: for penalties, for stops and in the usage; with log-probabilities it is certain."""
    engine = SimEngine()
    stopped = engine.ask(filler(60, 1), 20, thought_end=END, thinking_budget=4, stops=frozenset({702}))
    assert stopped.finished.reason is FinishReason.STOP
    assert stopped.finished.usage.completion_tokens == 6
    params = SamplingParams(temperature=1.0, seed=9, presence_penalty=0.5)
    told = engine.ask(filler(60, 1), 12, thought_end=END, thinking_budget=4, logprobs=1, params=params)
    assert told.tokens == expected(told, 12, 4)
    outs = [out for event in told.events if isinstance(event, OutputDelta) for out in event.tokens]
    assert [out.logprobs.chosen if out.logprobs else None for out in outs[4:7]] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("host", [0, 32 * SIM_STATE_BYTES])
@pytest.mark.parametrize("longest_run", [1, 8])
def test_a_pause_forgets_nothing_of_it(host: int, longest_run: int) -> None:
    """[K4] [V-15]: before, in and behind the closing, by snapshot or by replay."""
    engine = SimEngine(lanes=4, slots=8, pages=10, max_context=600, host=host, longest_run=longest_run, delay_polls=1)
    callers = [engine.submit(filler(90, seed), 120, thought_end=END, thinking_budget=5 + 9 * seed) for seed in range(4)]
    engine.run()
    assert engine.state.counters.pauses > 0
    assert (engine.state.counters.snapshots > 0) == (host > 0)
    for seed, caller in enumerate(callers):
        assert caller.tokens == expected(caller, 120, 5 + 9 * seed)


def list_left(engine: SimEngine) -> list[int]:
    """Tokens that each snapshot has left to feed, in order of the pauses."""
    left: list[int] = []
    paused: set[int] = set()
    for _ in range(5000):
        engine.turn()
        for ticket, request in engine.state.requests.items():
            if request.phase is not Phase.PAUSED:
                paused.discard(ticket)
            elif request.snapshot is not None and ticket not in paused:
                paused.add(ticket)
                assert engine.program.point_frontier(request.snapshot) == request.frontier
                left.append(len(request.ledger) - request.frontier)
        if not engine.state.requests:
            return left
    raise AssertionError("the engine does not come to an end")


def test_a_snapshot_leaves_one_token_to_feed() -> None:
    """[K2] [D8] [C6]: a row of a longer run is normalised before its pause, as one unit of its own, and goes on with a
    plain decode; where there is no room for that the snapshot keeps the position as it stands."""
    left: list[int] = []
    for pages in range(10, 20):
        engine = SimEngine(
            lanes=4, slots=8, pages=pages, max_context=600, host=32 * SIM_STATE_BYTES, longest_run=8, delay_polls=1
        )
        callers = [engine.submit(filler(90, seed), 150) for seed in range(4)]
        left += list_left(engine)
        for caller in callers:
            caller.check_output()
    assert len(left) >= 5
    assert left.count(1) > len(left) * 0.6, left


def test_a_real_thought_is_ended_as_the_template_would() -> None:
    """[C6]: the bundled model, which thinks before it answers; without thinking the budget has no effect."""
    asked = [{"role": "user", "content": "What is my dog called?"}]
    with Engine(threads=1, max_context=512) as engine:
        texts = {
            (thinks, budget): engine.submit(
                asked,
                template_kwargs={"enable_thinking": thinks},
                thinking_budget=budget,
                max_tokens=60,
                temperature=0,
            ).text()
            for thinks in (True, False)
            for budget in (None, 0, 3)
        }
        with pytest.raises(BadInput, match="thinking_budget"):
            engine.submit(asked, thinking_budget=-1)
    free = texts[True, None]
    assert free.count("</think>") == 1
    assert texts[True, 0].startswith("\n</think>\n\n")
    thought, answer = texts[True, 3].split("\n</think>\n\n")
    assert free.startswith(thought)
    assert thought
    assert answer
    assert texts[False, 0] == texts[False, 3] == texts[False, None]
