"""The whole stack over HTTP: the CPU device with a tiny model of random weights behind the real server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ninfer.build.assemble import assemble
from ninfer.config.options import EngineOptions

from .clients import CHAT, TEXT, LiveServer, fold_chat, read_events, read_until, wait_until

DENSE = Path(__file__).resolve().parents[1] / "data" / "fixtures" / "dense_text"


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    engine = assemble(
        EngineOptions(
            DENSE, dtype="float32", threads=1, max_concurrency=2, prefill_chunk_tokens=64, audit_every_cycles=20
        )
    )
    with LiveServer(engine) as server:
        yield server
    engine.close()


def post(server: LiveServer, path: str, **fields: Any) -> dict[str, Any]:
    answer = httpx2.post(server.url + path, json={"ignore_eos": True, **fields}, timeout=60)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def chat(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 24, **fields}


def test_stream_and_body_agree_token_for_token(server: LiveServer) -> None:
    """SAMP-09, SAMP-10: greedy, cold and warm, text and log-probabilities."""
    for path, fields in (
        (CHAT, chat("Hello there", logprobs=True, top_logprobs=2, temperature=0, reasoning_effort="none")),
        (TEXT, {"prompt": "Hello there", "logprobs": 2, "temperature": 0, "max_tokens": 24}),
    ):
        bodies = [post(server, path, **fields)["choices"][0] for _ in range(3)]
        assert bodies[0]["finish_reason"] == "length"
        streamed = httpx2.post(server.url + path, json={"ignore_eos": True, "stream": True, **fields}, timeout=60)
        chunks = read_events(streamed.text)
        if path == CHAT:
            texts = {body["message"]["content"] for body in bodies} | {fold_chat(chunks)["message"]["content"]}
            for body in bodies:
                joined = bytes(byte for entry in body["logprobs"]["content"] for byte in entry["bytes"])
                assert joined.decode(errors="replace") == body["message"]["content"]
        else:
            joined_text = "".join(choice["text"] for chunk in chunks for choice in chunk["choices"])
            texts = {body["text"] for body in bodies} | {joined_text}
        assert len(texts) == 1


def test_a_seed_repeats_a_draw_and_neighbours_change_nothing(server: LiveServer) -> None:
    """CONC-03: the same seed gives the same text alone and beside another request."""
    fields = {"prompt": [9, 8, 7, 6], "seed": 5, "temperature": 1, "max_tokens": 40}
    alone = post(server, TEXT, **fields)["choices"][0]["text"]
    neighbour = threading.Thread(
        target=lambda: post(server, TEXT, prompt=[1, 2, 3], max_tokens=60, frequency_penalty=2, temperature=1)
    )
    neighbour.start()
    beside = post(server, TEXT, **fields)["choices"][0]["text"]
    neighbour.join()
    assert beside == alone
    assert post(server, TEXT, **{**fields, "seed": 6})["choices"][0]["text"] != alone


def test_usage_adds_up_cold_warm_and_grown(server: LiveServer) -> None:
    """USE-03 against the engine's own counters; HYB-02: a short prompt has a restore point too."""
    prompt = [(7 * index) % 250 for index in range(150)]
    cold = post(server, TEXT, prompt=prompt, temperature=0, max_tokens=4)
    warm = post(server, TEXT, prompt=prompt, temperature=0, max_tokens=4)
    grown = post(server, TEXT, prompt=[*prompt, 1, 2, 3], temperature=0, max_tokens=4)
    cached = [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in (cold, warm, grown)]
    assert cached == [0, 150, 150]
    for answer, count in ((cold, 150), (warm, 150), (grown, 153)):
        assert answer["usage"]["prompt_tokens"] == count
        computed = answer["timings"]["computed_prompt_tokens"]
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] + computed == count
    assert warm["choices"][0]["text"] == cold["choices"][0]["text"]
    assert warm["timings"]["restore_path"] == "recovery_point"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_its_lane(server: LiveServer, stream: bool) -> None:
    """LIFE-01, LIFE-02: in decode and in prefill; the record has what was really computed."""
    with server.connect() as connection:
        server.send_chat(connection, "Tell me everything.", stream=stream, max_tokens=3000, ignore_eos=True)
        wait_until(lambda: running(server) == 1)
        if stream:
            read_until(connection, b'"reasoning_content"')
    wait_until(lambda: running(server) == 0, timeout_s=2.0)
    prompt = json.dumps({"prompt": [5] * 3500, "max_tokens": 5, "stream": stream}).encode()
    with server.connect() as connection:
        connection.sendall(
            f"POST {TEXT} HTTP/1.1\r\nhost: t\r\ncontent-length: {len(prompt)}\r\n\r\n".encode() + prompt
        )
        wait_until(lambda: running(server) == 1)
    wait_until(lambda: running(server) == 0, timeout_s=2.0)
    wait_until(lambda: [record.finish for record in server.journal.records[-2:]] == ["cancelled"] * 2)
    decoding, prefilling = server.journal.records[-2:]
    assert decoding.output_tokens
    assert prefilling.output_tokens == 0
    assert 0 < (prefilling.computed_tokens or 0) < 3500
    began = time.monotonic()
    post(server, CHAT, **chat("hi", max_tokens=2))
    assert time.monotonic() - began < 2.0


def running(server: LiveServer) -> int:
    health: dict[str, int] = httpx2.get(server.url + "/health").json()
    return health["running"] + health["waiting"]
