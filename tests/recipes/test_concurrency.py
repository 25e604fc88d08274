"""Several requests at once: nobody's text, sampler state, cache or turn is another's.

Sizes are an eighth of the recipes', rules the same. Order is read from the control thread's own events, so that a
slow machine changes nothing.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ninfer.engine.facade import RequestStream
from ninfer.ports.output import FinishReason, OutputDelta, PrefillProgress

from .conftest import OpenLive
from .live import CAPITALS, Answer, Heard, Live, wait_until
from .words import Message, filler, system, user


def test_each_request_gets_its_own_text(open_live: OpenLive, append_dir: Path, append_ref: Live) -> None:
    """CONC-01: twelve prompts in eight lanes that join and leave at different times, three times over."""
    prompts = [[user(f"Name three {filler(10 + 5 * number, number)}")] for number in range(12)]
    alone = [append_ref.ask(prompt, max_tokens=25).tokens for prompt in prompts]
    assert len(set(map(tuple, alone))) == 12
    live = open_live(append_dir, max_concurrency=8)
    for loop in range(3):
        budgets = [1 + (7 * number + 11 * loop) % 25 for number in range(12)]
        running = [live.start(prompt, max_tokens=count) for prompt, count in zip(prompts, budgets, strict=True)]
        for (stream, heard), tokens, count in zip(running, alone, budgets, strict=True):
            stream.result()
            assert heard.tokens == tokens[:count]


def test_penalties_act_on_their_own_request_only(append: Live, append_ref: Live) -> None:
    """CONC-03: neither a penalised neighbour nor the request that had the lane before changes a plain one."""
    prompt = [user("Repeat the word go forever")]
    plain = append_ref.ask(prompt, max_tokens=40).tokens
    with append.at_once():
        stream, heard = append.start(prompt, max_tokens=40)
        neighbour, beside = append.start([user("NEIGHBOUR")], max_tokens=60, frequency_penalty=2.0)
    stream.result()
    neighbour.result()
    assert heard.tokens == plain
    assert beside.tokens == append_ref.ask([user("NEIGHBOUR")], max_tokens=60, frequency_penalty=2).tokens
    penalised = append.ask(prompt, max_tokens=40, presence_penalty=2, repetition_penalty=1.5).tokens
    assert penalised != plain
    for _ in range(2):
        assert append.ask(prompt, max_tokens=40).tokens == plain


def branch(live: Live, budget: int) -> tuple[list[Message], Answer, RequestStream, Heard, Heard]:
    """A chat that is continued and regenerated at the same moment.

    Returns its history, its first answer, the continuation (not waited for) and the regeneration.
    """
    history = [system(filler(150, 1)), user(filler(60, 2))]
    first = live.ask(history, max_tokens=20)
    with live.at_once():
        going_on, continued = live.start([*history, first.message, user(filler(30, 3))], max_tokens=budget)
        regeneration, regenerated = live.start(history, max_tokens=40)
    regeneration.result()
    assert continued.cached >= first.prompt
    assert regenerated.cached > 210
    return history, first, going_on, continued, regenerated


def cancel_mid_decode(going_on: RequestStream, continued: Heard) -> None:
    wait_until(lambda: len(continued.tokens) >= 3)
    going_on.cancel()
    assert going_on.result().reason is FinishReason.CANCELLED


def test_aborting_a_branch_leaves_the_other_owners_their_cache(
    open_live: OpenLive, append_dir: Path, append_ref: Live
) -> None:
    """LIFE-05: a chat goes on and is regenerated at once; the continuation is cancelled; then it is tried again."""
    live = open_live(append_dir, max_concurrency=4)
    history, first, going_on, continued, regenerated = branch(live, 2000)
    cancel_mid_decode(going_on, continued)
    assert regenerated.tokens == append_ref.ask(history, max_tokens=40).tokens
    onward = [*history, first.message, user(filler(30, 3))]
    again = live.ask(onward, max_tokens=20)
    assert again.cached >= first.prompt
    assert again.tokens == append_ref.ask(onward, max_tokens=20).tokens


def test_another_way_on_after_an_aborted_one(open_live: OpenLive, append_dir: Path, append_ref: Live) -> None:
    """LIFE-05: the user aborts the continuation and says something else instead."""
    live = open_live(append_dir, max_concurrency=4)
    history, first, going_on, continued, _ = branch(live, 2000)
    cancel_mid_decode(going_on, continued)
    other = [*history, first.message, user(filler(30, 4))]
    answer = live.ask(other, max_tokens=20)
    assert answer.tokens == append_ref.ask(other, max_tokens=20).tokens
    assert answer.cached >= 210


def test_a_branch_keeps_the_input_point_it_started_from(open_live: OpenLive, append_dir: Path) -> None:
    """LIFE-05: regenerated once more when the continuation has moved its own point on."""
    live = open_live(append_dir, max_concurrency=4)
    history, _, going_on, _, regenerated = branch(live, 60)
    going_on.result()
    assert live.ask(history, max_tokens=20).cached == regenerated.cached


@pytest.mark.parametrize("attackers", [1, 4])
def test_a_long_prefill_stops_no_stream(open_live: OpenLive, append_dir: Path, attackers: int) -> None:
    """SCHED-05: between two tokens of a stream lies one chunk of prefill at most, however many prefill."""
    lanes = 2 if attackers == 1 else 8
    live = open_live(append_dir, dtype="float32", max_concurrency=lanes, prefill_chunk_tokens=64)
    attack = live.hold(lambda heard, _: len(heard.tokens) == 5)
    victim, heard = live.start([user("VICTIM")], max_tokens=88)
    prompts = [list(itertools.islice(itertools.cycle(CAPITALS), 3750 - number)) for number in range(attackers)]
    with attack:
        others = [live.start_raw(prompt, max_tokens=3) for prompt in prompts]
    victim.result()
    for stream, _ in others:
        stream.cancel()
        stream.result()
    attack_s = min(other.events[0][0] for _, other in others)
    times = [now for now, _ in heard.events if now >= attack_s]
    chunks = [
        now
        for now, speaker, event in live.log
        if speaker is not heard and isinstance(event, PrefillProgress) and event.covered_tokens
    ]
    assert len(chunks) > 40, "the attack was under way"
    for earlier, later in itertools.pairwise(times):
        assert sum(earlier < now <= later for now in chunks) <= 1
    chunk_s = max(later - earlier for earlier, later in itertools.pairwise(chunks))
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) <= 2 * chunk_s + 0.1


def test_a_short_warm_request_goes_before_running_prefills(open_live: OpenLive, append_dir: Path) -> None:
    """SCHED-06: four lanes, two long prefills and a stream; the newcomer's first token does not wait for them."""
    live = open_live(append_dir, dtype="float32", max_concurrency=4, prefill_chunk_tokens=64)
    chat = [user(filler(200, 1))]
    chat.append(live.ask(chat, max_tokens=8).message)
    stream, heard = live.start([user("STREAM")], max_tokens=400)
    busy = live.hold(lambda heard, event: isinstance(event, PrefillProgress) and event.covered_tokens > 640)
    long = [live.start([user(filler(2000, seed))], max_tokens=3) for seed in (2, 3)]
    with busy:
        short, newcomer = live.start([*chat, user(filler(25, 4))], max_tokens=3)
    timings = short.result().timings
    speakers = [speaker for _, speaker, event in live.log if isinstance(event, OutputDelta)]
    for _, other in long:
        other_first = speakers.index(other) if other in speakers else len(speakers)
        assert speakers.index(newcomer) < other_first, "its first token came before either prefill ended"
    assert newcomer.cached > 200
    assert 0 <= timings.queued_s < timings.ttft_s
    assert timings.queued_s + timings.prefill_s == pytest.approx(timings.ttft_s)
    for running in (stream, *(other for other, _ in long)):
        running.cancel()
        running.result()
    assert heard.tokens
