"""The official client, over a real socket: what its users write works, and errors arrive as its exception classes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ninfer.config.options import ServerOptions

from .answers import declare, write_call
from .clients import LiveServer
from .scripted import Script, bytewise, whole
from .simulated import SimulatedEngine

KEY = "sk-test-key-0001"
TOOLS: list[Any] = [declare("get_weather", "city")]
USER: list[Any] = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def engine() -> Iterator[SimulatedEngine]:
    engine = SimulatedEngine()
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def client(engine: SimulatedEngine) -> Iterator[Any]:
    import openai

    with LiveServer(engine, ServerOptions(api_keys=(KEY,))) as server:
        yield openai.OpenAI(base_url=server.url + "/v1", api_key=KEY, max_retries=0)


def test_chat(client: Any, engine: SimulatedEngine) -> None:
    engine.script = whole("Hello there.")
    answer = client.chat.completions.create(model="tiny", messages=USER, temperature=0)
    assert answer.choices[0].message.content == "Hello there."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens_details.cached_tokens >= 0
    assert answer.model_extra["timings"]["restore_path"] in ("root", "generation_endpoint", "recovery_point")
    assert answer._request_id


def test_stream(client: Any, engine: SimulatedEngine) -> None:
    engine.script = bytewise("Hm.\n</think>\n\nYes 🙂.")
    stream = client.chat.completions.create(
        model="tiny",
        messages=USER,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"chat_template_kwargs": {"enable_thinking": True}},
    )
    text, reasoning, usage, finish = "", "", [], None
    for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reasoning += (choice.delta.model_extra or {}).get("reasoning_content") or ""
            finish = choice.finish_reason or finish
        usage += [chunk.usage] if chunk.usage is not None else []
    assert (text, reasoning, finish, len(usage)) == ("Yes 🙂.", "Hm.", "stop", 1)
    assert usage[0].completion_tokens_details.reasoning_tokens == 3


def test_an_agent_round_trip(client: Any, engine: SimulatedEngine) -> None:
    """Tool call, result, answer; the SDK's own message objects go back as they came."""
    engine.script = bytewise(write_call("get_weather", city="Oslo"))
    first = client.chat.completions.create(model="tiny", messages=USER, tools=TOOLS)
    message = first.choices[0].message
    assert first.choices[0].finish_reason == "tool_calls"
    assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Oslo"}
    engine.script = whole("It rains.")
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"}
    second = client.chat.completions.create(model="tiny", messages=[*USER, message, result], tools=TOOLS)
    assert second.choices[0].message.content == "It rains."
    assert second.usage.prompt_tokens_details.cached_tokens > 0, "the history was read a moment ago"


def test_logprobs(client: Any, engine: SimulatedEngine) -> None:
    engine.script = bytewise("é!")
    answer = client.chat.completions.create(model="tiny", messages=USER, logprobs=True, top_logprobs=2)
    entries = answer.choices[0].logprobs.content
    assert bytes(byte for entry in entries for byte in entry.bytes).decode() == "é!"


def test_raw_completion(client: Any, engine: SimulatedEngine) -> None:
    engine.script = whole(" upon a time")
    answer = client.completions.create(model="tiny", prompt=[5, 6, 7], max_tokens=5, logprobs=1)
    assert answer.choices[0].text == " upon a time"
    stream = client.completions.create(model="tiny", prompt="Once", max_tokens=5, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == " upon a time"


def test_models(client: Any) -> None:
    assert [model.id for model in client.models.list()] == ["tiny", "org/tiny-chat"]
    assert client.models.retrieve("org/tiny-chat").model_extra["max_model_len"] == 2048


def test_errors_are_the_clients_own_classes(client: Any, engine: SimulatedEngine) -> None:
    import openai

    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-x", messages=USER)
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model="tiny", messages=USER, n=2)
    assert (bad.value.code, bad.value.param) == ("unsupported_parameter", "n")
    with pytest.raises(openai.BadRequestError) as long:
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "word " * 4000}])
    assert long.value.code == "context_length_exceeded"
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="tiny", messages=USER, response_format={"type": "json_object"})


def test_many_turns_reuse_what_they_said() -> None:
    """HYB-01 over HTTP: an append-only chat computes its new tokens and little more on every turn."""
    import openai

    engine = SimulatedEngine()
    messages: list[Any] = [{"role": "system", "content": "You are kind."}]
    computed = []
    with LiveServer(engine) as server:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        for turn in range(6):
            engine.script = Script(tuple((f"word{turn}{step} ".encode(),) for step in range(40)))
            messages.append({"role": "user", "content": f"question number {turn}"})
            answer = client.chat.completions.create(model="tiny", messages=messages, temperature=0)
            usage = answer.usage
            assert usage is not None
            assert usage.prompt_tokens_details is not None
            computed.append(usage.prompt_tokens - (usage.prompt_tokens_details.cached_tokens or 0))
            messages.append(answer.choices[0].message)
    engine.close()
    assert usage.prompt_tokens > 600
    # A scripted answer is not cut as the tokenizer would cut it, so each answer is read once more, and only once.
    assert len(set(computed[1:])) == 1, f"the work of a turn must not grow: {computed}"
    assert computed[1] < 200
