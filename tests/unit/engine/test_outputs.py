"""The engine over SimDevice: every output equals its closed form, and reuse is where it should be (V-15)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from sim_engine import GREEDY, VOCAB, Caller, SimEngine, filler

from ninfer.base.errors import BadInput
from ninfer.engine.draws import uniform
from ninfer.ports.output import FinishReason, OutputDelta, PrefillProgress, RestorePath
from ninfer.ports.sampling import SamplingParams
from ninfer.sim.script import Draw


def test_a_chat_continues_from_the_generation_endpoint() -> None:
    """[D1], [F4], HYB-01: each turn computes its new tokens and the one that was drawn last."""
    engine = SimEngine()
    prompt = filler(200, 1)
    for turn in range(6):
        caller = engine.ask(prompt, 20, recovery=len(prompt) - 4)
        caller.check_output()
        assert caller.tokens == caller.expected(20)
        if turn:
            assert caller.start.restore_path is RestorePath.END
            assert len(prompt) - caller.start.cached_tokens == 1 + 30
        prompt = prompt + caller.tokens + filler(30, turn + 2)


def test_a_retry_starts_at_the_input_point() -> None:
    """[D2], [D3], [E1]: the input point lies before the template's closing, the retry computes only that."""
    engine = SimEngine()
    first = engine.ask(filler(300, 1), 20, recovery=290)
    again = engine.ask(first.prompt, 20, recovery=290)
    again.check_output()
    assert again.start.restore_path is RestorePath.INPUT_POINT
    assert again.start.cached_tokens == 290
    assert again.tokens == first.tokens


def test_a_retry_after_more_turns_still_hits_the_carried_input_point() -> None:
    """[D6]: the endpoint is consumed by the next turn, the input point moves on with the history."""
    engine = SimEngine()
    first = engine.ask(filler(300, 1), 20, recovery=290)
    longer = first.prompt + first.tokens + filler(50, 2)
    engine.ask(longer, 10, recovery=len(longer) - 6).check_output()
    retry = engine.ask(longer, 10, recovery=len(longer) - 6)
    retry.check_output()
    assert retry.start.cached_tokens == len(longer) - 6


def test_an_exact_repeat_of_raw_input_samples_from_the_stored_row() -> None:
    """[D9]: P is the recovery point of raw input; a repeat computes no prompt token."""
    engine = SimEngine()
    first = engine.ask(filler(200, 1), 12)
    fed = engine.device.fed_tokens
    again = engine.ask(first.prompt, 12)
    again.check_output()
    assert again.start.cached_tokens == 200
    assert again.finished.timings.computed_prompt_tokens == 0
    assert engine.device.fed_tokens - fed == 11, "the last token is not fed"


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65])
def test_prompts_of_any_length_are_continued(count: int) -> None:
    """HYB-02: there is no smallest prompt."""
    engine = SimEngine()
    first = engine.ask(filler(count, 3), 3)
    first.check_output()
    second = engine.ask(first.prompt + first.tokens + [5], 3)
    second.check_output()
    assert second.start.cached_tokens == count + 2


def test_reuse_does_not_depend_on_the_chunk_length() -> None:
    """HYB-04, [E1], [V-11]: chunk ends create no restore point."""
    cached = []
    for chunk in (64, 128, 1024):
        engine = SimEngine(chunk=chunk)
        head = filler(400, 1)
        cached.append([])
        for user in range(4):
            caller = engine.ask(head + filler(50, user + 5), 5, recovery=400)
            caller.check_output()
            cached[-1].append(caller.start.cached_tokens)
    assert cached == [[0, 400, 400, 400]] * 3


def test_another_request_branches_from_points_of_a_running_one() -> None:
    """[F1]: the parent stays where its record is in use."""
    engine = SimEngine()
    first = engine.submit(filler(300, 1), 60, recovery=290)
    engine.turn(8)
    assert first.tokens
    assert first.end is None
    second = engine.submit(first.prompt, 60, recovery=290)
    engine.turn(4)
    assert second.start.cached_tokens == 290
    engine.run()
    first.check_output()
    second.check_output()
    assert first.tokens == second.tokens


def test_without_reuse_nothing_is_kept() -> None:
    engine = SimEngine(reuse=False)
    for _ in range(2):
        caller = engine.ask(filler(100, 1), 5)
        caller.check_output()
        assert caller.start.restore_path is RestorePath.ROOT
    assert engine.resources.facts().points == 0
    assert engine.program.occupancy().free == engine.program.occupancy().capacity


def test_cached_and_computed_tokens_add_up_to_the_prompt() -> None:
    """USE-03"""
    engine = SimEngine()
    prompt = filler(150, 1)
    for _ in range(3):
        caller = engine.ask(prompt, 7, recovery=140)
        end = caller.finished
        assert end.usage.cached_tokens + end.timings.computed_prompt_tokens == end.usage.prompt_tokens == len(prompt)
        assert end.usage.completion_tokens == len(caller.tokens)
        prompt = prompt + caller.tokens + filler(10, 2)


def test_progress_starts_at_the_cached_count_and_ends_at_the_prompt() -> None:
    """USE-04"""
    engine = SimEngine(chunk=64)
    first = engine.ask(filler(300, 1), 4, recovery=200)
    again = engine.ask(first.prompt, 4, recovery=200)
    for caller, start in ((first, 0), (again, 200)):
        covered = [event.covered_tokens for event in caller.events if isinstance(event, PrefillProgress)]
        assert covered[0] == start
        assert covered[-1] == 300
        assert covered == sorted(set(covered))


def test_start_and_end_are_published_once_and_in_order() -> None:
    """[N2], [V-12]"""
    engine = SimEngine()
    caller = engine.ask(filler(100, 1), 5)
    kinds = [type(event).__name__ for event in caller.events]
    assert kinds == ["GenerationStart", "PrefillProgress", "PrefillProgress", *["OutputDelta"] * 5, "Finished"]


def test_stop_tokens_and_stop_strings_end_the_output() -> None:
    engine = SimEngine()
    plain = engine.ask(filler(90, 1), 10)
    stopper = plain.tokens[4]
    stopped = engine.ask(filler(90, 1), 10, stops=frozenset({stopper}))
    assert stopped.tokens == plain.tokens[:5]
    assert stopped.finished.reason is FinishReason.STOP
    assert stopped.finished.stop_token == stopper
    assert stopped.text == plain.text[:4]
    by_text = engine.ask(filler(90, 1), 10, stop=[plain.text[3:5]])
    assert by_text.text == plain.text[:3]
    assert by_text.finished.stop_string == plain.text[3:5]
    assert by_text.finished.usage.completion_tokens == 5


def test_the_endpoint_holds_exactly_what_was_accepted() -> None:
    """Settled decision 15: a run goes past the stop; the tokens behind it never enter a restore point."""

    class Runs:
        def next_run(self, draw: Draw) -> tuple[int, ...]:
            return (1, 2, 3, 4)

    engine = SimEngine(script=Runs())
    first = engine.ask(filler(80, 1), 100, stops=frozenset({2}))
    assert first.tokens == [1, 2]
    second = engine.ask([*first.prompt, 1, 2, 9, 9], 100, stops=frozenset({2}))
    assert second.start.cached_tokens == 80, "the run was drawn at 80 and fed nothing"
    third = engine.ask([*first.prompt, 1, 2, 3, 4, 9], 100, stops=frozenset({2}))
    assert third.start.cached_tokens <= 82, "an uncommitted suffix is no restore point"


def test_sampling_is_a_function_of_seed_and_position() -> None:
    """Settled decision 7: lanes, neighbours and reuse change nothing."""
    params = SamplingParams(temperature=1.0, seed=77)
    alone = SimEngine().ask(filler(120, 1), 30, params=params)
    assert alone.tokens == alone.expected(30)
    crowd = SimEngine(delay_polls=2)
    others = [crowd.submit(filler(100 + seed, seed), 20) for seed in range(2, 5)]
    same = crowd.submit(filler(120, 1), 30, params=params)
    other_seed = crowd.submit(filler(120, 1), 30, params=SamplingParams(temperature=1.0, seed=78))
    crowd.run()
    for caller in (*others, same, other_seed):
        caller.check_output()
    assert same.tokens == alone.tokens != other_seed.tokens


def test_penalties_see_the_output_only() -> None:
    """SAMP-04: the prompt never counts."""
    seen: list[list[int]] = []
    engine = SimEngine()
    submit = engine.device.submit_sampling

    def spy(rows: list) -> object:
        seen.extend(list(row.output_ids) for row in rows if row.output_ids is not None)
        return submit(rows)

    engine.device.submit_sampling = spy  # type: ignore[method-assign, assignment]
    caller = engine.ask([7] * 50, 4, params=SamplingParams(temperature=0.0, presence_penalty=2.0))
    assert seen == [caller.tokens[:count] for count in range(4)]


def test_logprobs_come_with_their_tokens() -> None:
    engine = SimEngine()
    caller = engine.ask(filler(30, 1), 5, logprobs=3)
    tokens = [token for event in caller.events if isinstance(event, OutputDelta) for token in event.tokens]
    assert len(tokens) == 5
    for token in tokens:
        assert token.logprobs is not None
        assert token.logprobs.top[0][0] == token.token_id


def test_the_loss_report_names_the_first_difference() -> None:
    """CACHE-08, settled decision 14"""
    engine = SimEngine()
    first = engine.ask(filler(300, 1), 5, recovery=290)
    changed = list(first.prompt)
    changed[150] += 1
    report = engine.ask(changed, 5, recovery=290).start.loss
    assert (report.deepest_token_match, report.deepest_point, report.chosen_point) == (150, 0, 0)
    assert report.deepest_kv == 150, "KV is there, a state is not"
    assert report.reason == "no_point_at_match"
    hit = engine.ask(first.prompt, 5, recovery=290).start.loss
    assert (hit.deepest_token_match, hit.deepest_point, hit.chosen_point) == (300, 290, 290)
    assert hit.deepest_kv == 300


def scenario(seed: int) -> Iterator[tuple[str, int]]:
    rng = random.Random(seed)
    for _ in range(rng.randint(15, 40)):
        yield (
            rng.choice(["new", "continue", "continue", "retry", "cut", "cancel", "turn", "turn"]),
            rng.randrange(2**30),
        )


def play(engine: SimEngine, seed: int, max_context: int) -> list[Caller]:
    """A mixed load: chats, retries, branches from running requests, cancels."""
    callers: list[Caller] = []
    for action, number in scenario(seed):
        rng = random.Random(number)
        base: list[int] = []
        if action == "cancel" and callers:
            rng.choice(callers).handle.cancel()  # type: ignore[union-attr]
        if action == "turn" or action == "cancel":
            engine.turn(rng.randint(1, 12))
            continue
        if callers and action != "new":
            source = rng.choice(callers)
            base = source.prompt + (source.tokens if action == "continue" else [])
            if action == "cut":
                base = base[: rng.randint(1, len(base))]
        fresh = (
            []
            if action == "retry" and base
            else [rng.randrange(VOCAB) for _ in range(rng.randint(1, max_context // 4))]
        )
        prompt = (base + fresh)[: max_context - 1]
        params = rng.choice([GREEDY, SamplingParams(temperature=1.0, seed=rng.randrange(1000))])
        recovery = rng.choice([None, rng.randint(0, len(prompt))])
        callers.append(engine.submit(prompt, rng.randint(1, max_context // 3), recovery=recovery, params=params))
    engine.run()
    return callers


@pytest.mark.parametrize("seed", range(24))
def test_mixed_loads_give_the_closed_form(seed: int) -> None:
    """[V-15], [V-16]: roomy and tiny pools, prompt and late completions; nothing is lost, doubled or mixed up."""
    rng = random.Random(seed)
    lanes, max_context = rng.randint(1, 4), rng.choice([256, 512])
    engine = SimEngine(
        lanes=lanes,
        slots=lanes + rng.randint(0, lanes),
        pages=rng.randint(max(max_context // 64, lanes), lanes * max_context // 64),
        max_context=max_context,
        chunk=rng.choice([64, 128, 256]),
        delay_polls=rng.choice([0, 0, 1, 3]),
        seed=seed,
    )
    for caller in play(engine, seed, max_context):
        caller.check_output()
        assert caller.finished.reason in (FinishReason.LENGTH, FinishReason.CANCELLED)
        if caller.finished.reason is FinishReason.LENGTH:
            assert caller.finished.usage.completion_tokens == len(caller.tokens)
    engine.state.audit()
    assert engine.state.draws_in_flight == 0


def test_a_run_repeats_itself() -> None:
    """The same seed gives the same events, to the letter."""
    runs = []
    for _ in range(2):
        engine = SimEngine(lanes=3, pages=16, max_context=512, delay_polls=2, seed=5)
        runs.append([caller.events for caller in play(engine, 5, 512)])
    assert runs[0] == runs[1]


def test_draws_of_one_request_never_share_a_number() -> None:
    assert len({uniform(3, position) for position in range(1000)}) == 1000


def test_stop_tokens_wait_for_the_floor() -> None:
    """The model's stop tokens and the request's own are masked until `min_tokens` stand; then each one stops."""
    engine = SimEngine()
    prompt = filler(100, 5)
    free = engine.ask(prompt, 12).tokens
    stops = frozenset(free[:4:2])  # would stop at the first token
    assert len(engine.ask(prompt, 12, stops=stops).tokens) == 1
    own = engine.submit(prompt, 12, stops=frozenset({free[0]}), stop_token_ids=[free[2]], min_tokens=7)
    engine.run()
    assert len(own.tokens) >= 7
    assert not stops.intersection(own.tokens[:7])


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_tokens": True}, "min_tokens"),
        ({"min_tokens": 9}, "min_tokens"),
        ({"stop_token_ids": [VOCAB]}, "stop_token_ids"),
        ({"stop_token_ids": [1.5]}, "stop_token_ids"),
    ],
)
def test_a_floor_that_cannot_be_kept_is_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(BadInput) as refused:
        SimEngine().submit(filler(20, 1), 8, **fields)
    assert refused.value.param == param
