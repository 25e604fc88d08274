"""Penalties, log-probabilities and the first request, against the logits of a live model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ninfer.ports.output import OutputDelta
from ninfer.ports.sampling import TokenLogprobs

from .conftest import OpenLive
from .live import NO_HOST, Heard, Live
from .words import filler, user

VOCAB = 317
"""Every token the tokenizer can write."""

PENALTIES = {"presence_penalty": 2.0, "frequency_penalty": 0.5}


def rows(heard: Heard) -> list[dict[int, float]]:
    """Log-probability of every token, for each token drawn."""
    drawn: list[TokenLogprobs] = []
    for _, event in heard.events:
        if isinstance(event, OutputDelta):
            drawn += [token.logprobs for token in event.tokens if token.logprobs is not None]
    return [dict(logprobs.top) for logprobs in drawn]


def listen(live: Live, tokens: Sequence[int], count: int, **fields: Any) -> Heard:
    """Raw greedy output with the whole distribution of each draw."""
    stream, heard = live.start_raw(tokens, max_tokens=count, logprobs=VOCAB, ignore_eos=True, **fields)
    stream.result()
    return heard


def penalise(plain: dict[int, float], output: Sequence[int]) -> dict[int, float]:
    """The reference calculator: from the plain distribution to the penalised one."""
    counts = Counter(output)
    logits = {
        token: value
        - PENALTIES["presence_penalty"] * (token in counts)
        - PENALTIES["frequency_penalty"] * counts[token]
        for token, value in plain.items()
    }
    norm = math.log(sum(math.exp(value) for value in logits.values()))
    return {token: value - norm for token, value in logits.items()}


def close(left: dict[int, float], right: dict[int, float]) -> bool:
    return left.keys() == right.keys() and all(abs(left[token] - right[token]) < 1e-6 for token in left)


def test_penalties_count_the_output_only(open_live: OpenLive, append_dir: Path, append_ref: Live) -> None:
    """SAMP-04: the first distribution ignores the prompt, the twentieth equals a calculator's, also behind a pause."""
    prompt = append_ref.encode("zebra " * 25)
    plain = listen(append_ref, prompt, 1)
    penalised = listen(append_ref, prompt, 110, **PENALTIES)
    assert close(rows(plain)[0], rows(penalised)[0])
    for step in (20, 100):
        output = penalised.tokens[:step]
        at_step = listen(append_ref, [*prompt, *output], 1)
        assert close(penalise(rows(at_step)[0], output), rows(penalised)[step])
        assert not close(rows(at_step)[0], rows(penalised)[step])
    tight = open_live(append_dir, max_context=320, kv_capacity=320, prefill_chunk_tokens=64, context_cache=NO_HOST)
    with tight.at_once():
        older, _ = tight.start_raw([65] * 100, max_tokens=200, ignore_eos=True)
        younger, paused = tight.start_raw(prompt, max_tokens=110, logprobs=VOCAB, ignore_eos=True, **PENALTIES)
    older.result()
    younger.result()
    assert paused.finished.timings.pauses >= 1
    assert paused.finished.timings.replayed_tokens > 20
    assert paused.tokens == penalised.tokens
    assert close(rows(paused)[100], rows(penalised)[100])


def test_the_first_request_is_like_every_other(open_live: OpenLive, append_dir: Path) -> None:
    """SAMP-10: three times at once after the start, then once more on another engine."""
    body = [user(filler(80, 1))]
    seen = []
    for _ in range(2):
        live = open_live(append_dir, max_concurrency=4)
        seen += [live.ask(body, max_tokens=24).tokens for _ in range(3)]
        with live.at_once():
            together = [live.start(body, max_tokens=24) for _ in range(3)]
        for stream, heard in together:
            stream.result()
            seen.append(heard.tokens)
    assert all(tokens == seen[0] for tokens in seen)


@pytest.mark.parametrize("top", [0, 3])
def test_logprobs_belong_to_their_tokens(append: Live, top: int) -> None:
    """SAMP-09: one entry for each token of the content, greedy the best of them, the stream as the body."""
    fields = {"logprobs": True, "top_logprobs": top, "max_tokens": 12}
    messages = [user("COUNT")]
    answer = append.ask(messages, **fields)
    entries = answer.body["choices"][0]["logprobs"]["content"]
    assert [entry["bytes"] for entry in entries] == [[token] for token in answer.tokens]
    assert "".join(entry["token"] for entry in entries) == answer.message["content"]
    for entry in entries:
        assert len(entry["top_logprobs"]) == top
        assert not top or entry["top_logprobs"][0]["logprob"] == entry["logprob"]
    append.start([user("NEIGHBOUR")], max_tokens=40)
    chunks = append.stream(messages, **fields)
    streamed = [item for chunk in chunks for item in (chunk["choices"][0]["logprobs"] or {"content": []})["content"]]
    assert [entry["token"] for entry in streamed] == [entry["token"] for entry in entries]
    assert [entry["logprob"] for entry in streamed] == pytest.approx([entry["logprob"] for entry in entries])
