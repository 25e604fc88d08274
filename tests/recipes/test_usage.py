"""Numbers that are true: what was cached, what was computed, how far a prefill is.

Sizes are an eighth of the recipes', rules the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ninfer.ports.output import Finished, PrefillProgress
from ninfer.server.app import CHAT_PATH, COMPLETIONS_PATH

from .live import NO_HOST, Answer, Heard, Live
from .words import filler, user


@pytest.fixture
def tight(append_dir: Path) -> Iterator[Live]:
    """Room for one request at full context, two lanes: the younger of two long ones is paused."""
    options = {"max_context": 512, "kv_capacity": 512, "prefill_chunk_tokens": 64, "context_cache": NO_HOST}
    with Live(append_dir, dtype="float32", **options) as live:
        yield live


def pause_one(live: Live) -> tuple[Heard, Heard]:
    """An older and a younger request that together do not fit."""
    with live.at_once():
        older, kept = live.start([user(filler(100, 1))], max_tokens=300)
        younger, paused = live.start([user(filler(130, 2))], max_tokens=200)
    older.result()
    younger.result()
    return kept, paused


def check_sum(answer: Answer) -> None:
    assert answer.cached + answer.body["timings"]["computed_prompt_tokens"] == answer.prompt


def test_cached_and_computed_add_up_and_agree_with_the_counters(append: Live) -> None:
    """USE-03: cold, partly and fully hit requests, against the engine's own count of prefilled tokens."""
    history = [user(filler(300, 1))]
    cold = append.ask(history, max_tokens=8)
    partial = append.ask(history, max_tokens=8)
    warm = append.ask([*history, partial.message, user("NEXT")], max_tokens=8)
    raw = [65, 66, 67] * 30
    asked = [cold, partial, warm, append.complete(raw, max_tokens=8), append.complete(raw, max_tokens=8)]
    assert [answer.cached > 0 for answer in asked] == [False, True, True, False, True]
    assert asked[-1].cached == len(raw)
    for answer in asked:
        check_sum(answer)
    assert append.state.counters.prefill_tokens == sum(answer.fresh for answer in asked)
    assert append.state.counters.cached_tokens == sum(answer.cached for answer in asked)


def test_a_pause_is_no_hit(tight: Live) -> None:
    """USE-03, a paused and replayed request: the replay is counted apart."""
    kept, paused = pause_one(tight)
    for heard in (kept, paused):
        usage, timings = heard.finished.usage, heard.finished.timings
        assert usage.cached_tokens == heard.cached == 0
        assert usage.cached_tokens + timings.computed_prompt_tokens == usage.prompt_tokens
    timings = paused.finished.timings
    assert timings.pauses >= 1
    assert timings.replayed_tokens > 0
    assert timings.paused_s > 0
    assert kept.finished.timings.pauses == 0
    assert tight.state.counters.prefill_tokens == sum(len(heard.prompt) for heard in tight.heard)
    assert tight.state.counters.replayed_tokens == timings.replayed_tokens


def test_progress_runs_from_the_cached_count_to_the_total(append: Live) -> None:
    """USE-04: cold and warm, non-decreasing, on the stream; the numbers are JSON."""
    history = [user(filler(1200, 1))]
    cold = append.stream(history, return_progress=True, max_tokens=1)
    warm = append.stream(history, return_progress=True, max_tokens=1)
    for chunks, covered in ((cold, 0), (warm, append.heard[1].cached)):
        progress = [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]
        processed = [item["processed"] for item in progress]
        assert processed == sorted(set(processed))
        assert (processed[0], processed[-1]) == (covered, progress[0]["total"])
        assert {(item["total"], item["cached"]) for item in progress} == {(len(append.heard[0].prompt), covered)}
        assert chunks[-1]["choices"][0]["finish_reason"] == "length"
        assert "timings" in chunks[-1]
    assert len(cold) > len(warm) > 3


def test_a_full_hit_has_progress_and_finite_numbers(append: Live) -> None:
    """USE-04: an exact repeat computes nothing; its rates are null, not infinite."""
    raw = [65, 66, 67] * 30
    append.complete(raw, max_tokens=1)
    again = append.complete(raw, max_tokens=1)
    covered = [event.covered_tokens for _, event in again.heard.events if isinstance(event, PrefillProgress)]
    assert covered == [90]
    assert again.body["timings"]["prefill_tokens_per_second"] is None
    assert again.body["timings"]["tokens_per_second"] is None
    for name in ("queued_s", "prefill_s", "ttft_s", "decode_s", "longest_gap_s"):
        assert 0 <= again.body["timings"][name] < 60


def test_a_pause_never_takes_progress_back(tight: Live) -> None:
    """USE-04, a paused request: progress is said once, whatever is replayed."""
    _, paused = pause_one(tight)
    covered = [event.covered_tokens for _, event in paused.events if isinstance(event, PrefillProgress)]
    assert covered == sorted(set(covered))
    assert covered[-1] == len(paused.prompt)
    assert isinstance(paused.events[-1][1], Finished)


@pytest.mark.parametrize("path", [CHAT_PATH, COMPLETIONS_PATH])
def test_no_output_at_all_is_refused(append: Live, path: str) -> None:
    """USE-04: max_tokens 0 is a 400 that names the field."""
    asked: dict[str, Any] = {"messages": [user("X")]} if path == CHAT_PATH else {"prompt": "X"}
    answer = append.post(path, {**asked, "max_tokens": 0})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "max_tokens")
