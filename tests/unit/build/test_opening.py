"""`ninfer.Engine` on a real (tiny) model: chat, reuse, refusals. The walking skeleton."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ninfer import Engine
from ninfer.base.errors import BadInput, ModelFileError
from ninfer.config.options import ContextCacheOptions
from ninfer.ports.output import Event, Finished, FinishReason, GenerationStart, OutputDelta, RestorePath

FIXTURE = Path(__file__).parents[2] / "data" / "fixtures" / "dense_text"
CHAT = [{"role": "user", "content": "Hello! My name is Mira."}]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(FIXTURE, dtype="float32", threads=1, max_context=1024, audit_every_cycles=1) as engine:
        yield engine


def test_importing_the_package_brings_no_torch() -> None:
    code = "import sys, ninfer; sys.exit('torch' in sys.modules or 'ninfer.build' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_chat_is_answered_and_continued(engine: Engine) -> None:
    first = engine.submit(CHAT, max_tokens=12, temperature=0)
    events = list(first)
    assert isinstance(events[0], GenerationStart)
    assert isinstance(events[-1], Finished)
    assert first.text() == "".join(event.text for event in events if isinstance(event, OutputDelta))
    usage = first.result().usage
    assert usage.completion_tokens <= 12

    again = engine.submit(CHAT, max_tokens=12, temperature=0)
    start = next(event for event in again if isinstance(event, GenerationStart))
    assert start.restore_path is RestorePath.INPUT_POINT
    assert 0 < start.cached_tokens < usage.prompt_tokens
    assert again.text() == first.text(), "same tokens on miss and hit (HYB-09)"


def test_raw_tokens_and_raw_text_are_the_same_input(engine: Engine) -> None:
    text = "one two three"
    ids = list(engine.frontend.plan_text(text).tokens)
    cold = engine.submit(prompt=text, max_tokens=8, temperature=0)
    assert cold.text()
    warm = engine.submit(token_ids=ids, max_tokens=8, temperature=0)
    assert cold.text() == warm.text()
    assert warm.result().usage.cached_tokens == len(ids), "an exact repeat samples from the stored row [D9]"


@pytest.mark.parametrize("fixture", ["dense_text", "moe_text"])
def test_the_golden_tokens_come_out_of_the_whole_engine(fixture: str) -> None:
    """Cold in several chunks, as an exact repeat, and continued from the endpoint: one answer (settled decision 8)."""
    golden = json.loads((FIXTURE.parent / fixture / "golden.json").read_text())
    expected = golden["greedy_ids"]
    options = {"dtype": "float64", "threads": 1, "max_context": 256, "prefill_chunk_tokens": 64}
    with Engine(FIXTURE.parent / fixture, audit_every_cycles=1, **options) as engine:
        prompt = list(engine.frontend.plan_text(golden["prompt"]).tokens)
        assert len(prompt) == golden["prompt_tokens"] > 64
        for _ in range(2):
            assert _ids(engine, prompt, 32) == expected
        assert _ids(engine, prompt, 10) == expected[:10]
        assert _ids(engine, prompt + expected[:10], 22) == expected[10:]


def _ids(engine: Engine, prompt: list[int], count: int) -> list[int]:
    stream = engine.submit(token_ids=prompt, max_tokens=count, temperature=0, ignore_eos=True)
    return [token.token_id for event in stream if isinstance(event, OutputDelta) for token in event.tokens]


def test_the_same_seed_draws_the_same_tokens(engine: Engine) -> None:
    texts = [engine.submit(CHAT, max_tokens=16, temperature=1.0, seed=seed).text() for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]


def test_cancel_ends_a_stream(engine: Engine) -> None:
    stream = engine.submit(CHAT, max_tokens=900, temperature=1.0, ignore_eos=True)
    for event in stream:
        if isinstance(event, OutputDelta):
            stream.cancel()
    assert stream.result().reason is FinishReason.CANCELLED


def test_events_reach_an_event_loop_through_a_sink(engine: Engine) -> None:
    async def ask() -> list[Event]:
        loop, events = asyncio.get_running_loop(), asyncio.Queue[Event]()
        plan = engine.frontend.plan_text("hello")
        engine.submit_plan(
            plan,
            engine.default_sampling,
            max_tokens=4,
            sink=lambda event: loop.call_soon_threadsafe(events.put_nowait, event) and None,
        )
        heard = [await events.get()]
        while not isinstance(heard[-1], Finished):
            heard.append(await asyncio.wait_for(events.get(), 10))
        return heard

    assert isinstance(asyncio.run(ask())[0], GenerationStart)


def test_the_engine_says_what_it_is(engine: Engine) -> None:
    facts = engine.describe()
    assert facts.model_name == "dense_text"
    assert facts.max_model_len == engine.max_context == 1024
    assert facts.plan["state_slots"] == 8
    assert engine.health().failure is None
    assert engine.default_sampling.top_k == 20
    assert engine.options.max_context == 1024


@pytest.mark.parametrize(
    ("call", "param"),
    [
        ({"messages": CHAT, "prompt": "x"}, "messages"),
        ({}, "messages"),
        ({"messages": CHAT, "temperature": float("nan")}, "temperature"),
        ({"messages": CHAT, "max_tokens": 0}, "max_tokens"),
        ({"messages": CHAT, "stop": [""]}, "stop"),
        ({"messages": CHAT, "frobnicate": 1}, "frobnicate"),
        ({"token_ids": [10**9]}, "prompt"),
        ({"prompt": "word " * 5000}, "prompt"),
    ],
)
def test_bad_requests_name_their_field(engine: Engine, call: dict, param: str) -> None:
    with pytest.raises(BadInput) as error:
        engine.submit(**call)
    assert error.value.param == param


def test_bad_options_and_directories_are_refused_clearly(tmp_path: Path) -> None:
    for directory in (tmp_path / "missing", tmp_path):
        with pytest.raises(ModelFileError, match=str(tmp_path)):
            Engine(directory)
    for option, value in (
        ("max_concurrency", 9),
        ("prefill_chunk_tokens", 100),
        ("kv_capacity", 64),
        ("max_context", 10**9),
        ("device", "cuda"),
        ("speed", "fast"),
    ):
        with pytest.raises(BadInput) as error:
            Engine(FIXTURE, **{option: value})
        assert error.value.param == option
    with pytest.raises(BadInput):
        Engine(FIXTURE, context_cache=ContextCacheOptions(device_state_slots=-1))


def test_a_model_of_another_family_is_named_before_a_missing_file(tmp_path: Path) -> None:
    """config.json is read first: a directory without a tokenizer is told what is wrong with its model."""
    config = json.loads((FIXTURE / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["LlamaForCausalLM"]}))
    with pytest.raises(ModelFileError, match="architectures must be one of"):
        Engine(tmp_path)


def test_closing_twice_is_fine_and_ends_the_thread() -> None:
    engine = Engine(FIXTURE, threads=1, max_context=256)
    engine.close()
    engine.close()
    with pytest.raises(Exception, match="shutting down"):
        engine.submit(CHAT)


@pytest.mark.parametrize("temperature", [1e-46, 1e-300])
def test_a_temperature_that_rounds_to_zero_is_greedy(engine: Engine, temperature: float) -> None:
    """No valid parameter of one request may draw a token that does not exist, and so end the engine."""
    best = engine.submit(CHAT, max_tokens=6, temperature=0).text()
    small = engine.submit(CHAT, max_tokens=6, temperature=temperature, seed=1, logprobs=2)
    assert small.text() == best
    assert engine.find_failure() is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("logprobs", -1),
        ("logprobs", "x"),
        ("max_tokens", "3"),
        ("max_tokens", 1.5),
        ("stop", [5]),
        ("stop", [b"G"]),
        ("seed", "a"),
    ],
)
def test_wrong_arguments_are_refused_before_the_engine_sees_them(engine: Engine, name: str, value: object) -> None:
    with pytest.raises(BadInput) as error:
        engine.submit(CHAT, **{name: value})  # type: ignore[arg-type]
    assert error.value.param == name


@pytest.mark.parametrize("ids", [[1.5], [True], ["1"]])
def test_token_ids_are_whole_numbers(engine: Engine, ids: list[object]) -> None:
    with pytest.raises(BadInput):
        engine.submit(token_ids=ids, max_tokens=1)  # type: ignore[arg-type]
