"""One event model: the body of a request is what its stream adds up to; framing, order, usage, timings, progress."""

from __future__ import annotations

from typing import Any

import pytest

from ninfer.ports.output import RestorePath

from .clients import CHAT, Api, fold_chat, read_events
from .scripted import Script, ScriptedEngine, all_splits, bytewise, whole

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
CALL = "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>"


def comparable(body: dict[str, Any]) -> dict[str, Any]:
    """What must be equal between a body and its folded stream: everything but ids and measured times."""
    message = dict(body["message"])
    if "tool_calls" in message:
        message["tool_calls"] = [{**call, "id": "id"} for call in message["tool_calls"]]
    timings = {name: body["timings"][name] for name in ("restore_path", "computed_prompt_tokens", "decode_steps")}
    return {
        "message": message,
        "finish": body["finish_reason"],
        "logprobs": body["logprobs"],
        "usage": body["usage"],
        "timings": timings,
    }


def body_of(answer: dict[str, Any]) -> dict[str, Any]:
    (choice,) = answer["choices"]
    return {**choice, "usage": answer["usage"], "timings": answer["timings"]}


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "text": ("Hello there.", {}),
    "empty": ("", {}),
    "reasoning": ("I think.\n</think>\n\nHello.", {"enable_thinking": True}),
    "still thinking": ("I think and think", {"enable_thinking": True, "max_tokens": 2}),
    "length": ("one two three", {"max_tokens": 1}),
    "stop string": ("one STOP two", {"stop": "STOP"}),
    "call": ("Let me look.\n\n" + CALL, {"tools": TOOLS}),
    "two calls": (CALL + "\n" + CALL.replace("Oslo", "Rome"), {"tools": TOOLS}),
    "reasoning and call": ("Hm.\n</think>\n\n" + CALL, {"tools": TOOLS, "enable_thinking": True}),
    "logprobs": ("Ünï 🙂 text", {"logprobs": True, "top_logprobs": 2}),
    "logprobs, reasoning, call": ("a\n</think>\n\nb\n\n" + CALL, {"tools": TOOLS, "logprobs": True}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_stream_adds_up_to_the_body(api: Api, engine: ScriptedEngine, name: str) -> None:
    """USE-01, TOOL-08, THINK-04, SAMP-09: streaming is no second implementation."""
    text, fields = CASES[name]
    for script in (whole(text), bytewise(text)):
        engine.script = script
        body = api.ask(**fields)
        chunks = api.stream(stream_options={"include_usage": True}, **fields)
        assert comparable(fold_chat(chunks)) == comparable(body_of(body))
        for chunk in chunks:
            assert {chunk[field] for field in ("object", "model")} == {"chat.completion.chunk", "tiny"}
        assert len({chunk["id"] for chunk in chunks}) == 1
        assert body["object"] == "chat.completion"
        assert body["id"].startswith("chatcmpl-")


def test_every_split_gives_the_same_answer(api: Api, engine: ScriptedEngine) -> None:
    """Tokens and steps may fall anywhere: text, reasoning and calls stay the same, streaming and not."""
    text = "Hm 🙂.\n</think>\n\nÉ voilà.\n\n" + CALL
    fields = {"tools": TOOLS, "enable_thinking": True}
    seen = set()
    for script in all_splits(text):
        engine.script = script
        for folded in (fold_chat(api.stream(**fields)), body_of(api.ask(**fields))):
            message = folded["message"]
            calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]]
            seen.add((message["content"], message["reasoning_content"], tuple(calls), folded["finish_reason"]))
    assert seen == {("É voilà.", "Hm 🙂.", (("get_weather", '{"city": "Oslo"}'),), "tool_calls")}


def test_usage_comes_once_and_only_when_asked(api: Api, engine: ScriptedEngine) -> None:
    """USE-01: one chunk with empty choices; null before it, absent without the option."""
    engine.script = bytewise("some text")
    chunks = api.stream(stream_options={"include_usage": True})
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == len("some text") + 1
    for options in ({}, {"stream_options": {"include_usage": False}}, {"stream_options": None}):
        assert all("usage" not in chunk and len(chunk["choices"]) == 1 for chunk in api.stream(**options))


def test_cached_tokens_are_always_there_and_add_up(api: Api, engine: ScriptedEngine) -> None:
    """USE-03: cached + computed = prompt, cold and warm."""
    for cached, path in ((0, RestorePath.ROOT), (5, RestorePath.END)):
        engine.script = Script(cached_tokens=cached, path=path)
        for answer in (api.ask(), api.stream(stream_options={"include_usage": True})[-1]):
            usage, timings = answer["usage"], answer["timings"]
            assert usage["prompt_tokens_details"]["cached_tokens"] == cached
            assert cached + timings["computed_prompt_tokens"] == usage["prompt_tokens"]
            assert timings["restore_path"] == path.value
            assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_timings_are_finite_also_for_one_token_and_a_full_hit(api: Api, engine: ScriptedEngine) -> None:
    """USE-04: no NaN, no Infinity; a rate that cannot be told is null."""
    prompt = api.ask()["usage"]["prompt_tokens"]
    engine.script = Script(((b"x",),), cached_tokens=prompt, path=RestorePath.INPUT_POINT)
    timings = api.ask(max_tokens=1)["timings"]
    assert timings["tokens_per_second"] is None
    assert timings["prefill_tokens_per_second"] is None
    for name in ("queued_s", "prefill_s", "ttft_s", "decode_s", "longest_gap_s"):
        assert 0 <= timings[name] < 60


def test_timings_are_on_the_last_chunk(api: Api) -> None:
    for options in ({}, {"stream_options": {"include_usage": True}}):
        chunks = api.stream(**options)
        assert ["timings" in chunk for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


def test_progress_starts_at_the_cached_count_and_ends_at_the_total(api: Api, engine: ScriptedEngine) -> None:
    """USE-04: non-decreasing; only when asked for."""
    engine.script = Script(cached_tokens=3, chunk_tokens=4)
    chunks = api.stream(return_progress=True)
    progress = [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]
    processed = [item["processed"] for item in progress]
    assert processed == sorted(processed)
    assert len(set(processed)) > 2
    assert (processed[0], processed[-1]) == (3, progress[0]["total"])
    assert {item["cached"] for item in progress} == {3}
    assert all("prompt_progress" not in chunk for chunk in api.stream())


def test_role_comes_first_even_for_an_empty_answer(api: Api, engine: ScriptedEngine) -> None:
    engine.script = whole("")
    chunks = api.stream()
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_an_error_after_the_start_is_an_event_and_ends_the_stream(api: Api, engine: ScriptedEngine) -> None:
    """OpenAI error body in the stream, no [DONE]; 500 with the same body otherwise."""
    from ninfer.base.errors import RequestFailed

    engine.script = Script(((b"half",),), error=RequestFailed("secret detail"))
    chunks = api.stream()
    assert chunks[-1] == {
        "error": {
            "message": "The request ended with an internal error.",
            "type": "server_error",
            "param": None,
            "code": "internal_error",
        }
    }
    answer = api.chat()
    assert answer.status_code == 500
    assert answer.json() == chunks[-1]


def test_an_exception_behind_the_door_is_a_plain_500(api: Api, engine: ScriptedEngine) -> None:
    engine.crash = RuntimeError("SECRET-123")
    for stream in (False, True):
        answer = api.chat(stream=stream)
        assert answer.status_code == 500
        assert answer.json()["error"]["code"] == "internal_error"
        assert "SECRET" not in answer.text
    engine.crash = None
    assert api.chat().status_code == 200


@pytest.mark.parametrize("part", ["parser", "renderer"])
def test_a_fault_of_ours_in_mid_answer_is_an_error_event(
    api: Api, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """Whatever raises: an error event and no [DONE], or a plain 500; the engine's work stops; the next one is fine."""

    def fail(*_: object) -> None:
        raise RuntimeError("SECRET-123")

    engine.script = Script(((b"some",), (b" words",)), ends=False, step_s=0.01)
    with monkeypatch.context() as patch:
        if part == "parser":
            patch.setattr("ninfer.frontend.channels.ChannelParser.push", fail)
        else:
            patch.setattr("ninfer.server.openai_chat_render.ChatRenderer._render_piece", fail)
        assert api.stream()[-1]["error"]["code"] == "internal_error"
        answer = api.chat()
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
        assert "SECRET" not in answer.text
    for request in engine.requests:
        assert request.ended.wait(5.0)
    engine.script = whole("fine")
    assert api.ask()["choices"][0]["message"]["content"] == "fine"


def test_any_name_can_be_taken(engine: ScriptedEngine) -> None:
    """OPS-07: a wildcard for clients that ask for names of their own."""
    with Api(engine, names=("tiny", "*")) as api:
        assert api.ask(model="some-other-model")["model"] == "some-other-model"
        assert api.ask()["model"] == "tiny"
        assert [model["id"] for model in api.get("/v1/models/").json()["data"]] == ["tiny"]


def test_requested_names_are_echoed(api: Api) -> None:
    """OPS-07."""
    for model in ("tiny", "org/tiny-chat"):
        assert api.ask(model=model)["model"] == model
        assert api.stream(model=model)[0]["model"] == model
    for model in ("", None):
        assert api.ask(model=model)["model"] == "tiny"


def test_stream_is_sent_as_events(api: Api) -> None:
    answer = api.post(CHAT, {"messages": [{"role": "user", "content": "x"}], "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert read_events(answer.text)
