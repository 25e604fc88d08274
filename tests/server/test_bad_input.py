"""Bad input: each gets a clear OpenAI error that names the field; the server goes on, others notice nothing."""

from __future__ import annotations

import json
import resource
import time
from typing import Any

import pytest

from .clients import CHAT, TEXT, Api
from .scripted import ScriptedEngine

USER = [{"role": "user", "content": "hi"}]


def tool(name: Any = "f", **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}, **more}}


def call_history(arguments: Any, **call: Any) -> list[dict[str, Any]]:
    function = {"name": "f", "arguments": arguments}
    return [*USER, {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function, **call}]}]


VALUE, TYPE, MISSING, NOT_BUILT = "invalid_value", "invalid_type", "missing_field", "unsupported_parameter"

CHAT_ERRORS: dict[str, tuple[dict[str, Any], str, str]] = {
    # messages
    "no messages field": ({"messages": None}, "messages", MISSING),
    "empty messages": ({"messages": []}, "messages", MISSING),
    "messages a string": ({"messages": "hi"}, "messages", TYPE),
    "message a string": ({"messages": ["hi"]}, "messages[0]", TYPE),
    "no role": ({"messages": [{"content": "hi"}]}, "messages[0].role", MISSING),
    "unknown role": ({"messages": [*USER, {"role": "robot", "content": "x"}]}, "messages[1].role", VALUE),
    "old function role": ({"messages": [*USER, {"role": "function", "content": "x"}]}, "messages[1].role", VALUE),
    "role a number": ({"messages": [{"role": 1, "content": "x"}]}, "messages[0].role", TYPE),
    "user without content": ({"messages": [{"role": "user"}]}, "messages[0].content", MISSING),
    "user with null content": ({"messages": [{"role": "user", "content": None}]}, "messages[0].content", MISSING),
    "content a number": ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", TYPE),
    "part without type": ({"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0].type", MISSING),
    "unknown part": (
        {"messages": [{"role": "user", "content": [{"type": "hologram"}]}]},
        "messages[0].content[0].type",
        VALUE,
    ),
    "text part without text": (
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        "messages[0].content[0].text",
        MISSING,
    ),
    "image": (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]},
        "messages[0].content[0]",
        NOT_BUILT,
    ),
    "image in history": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}, *USER]},
        "messages[0].content[1]",
        NOT_BUILT,
    ),
    "audio": (
        {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
        "messages[0].content[0]",
        NOT_BUILT,
    ),
    "file": (
        {"messages": [{"role": "user", "content": [{"type": "file"}]}]},
        "messages[0].content[0]",
        NOT_BUILT,
    ),
    "call without function": (
        {"messages": [*USER, {"role": "assistant", "tool_calls": [{"id": "1"}]}]},
        "messages[1].tool_calls[0].function",
        MISSING,
    ),
    "call arguments a number": ({"messages": call_history(5)}, "messages[1].tool_calls[0].function.arguments", TYPE),
    "call of another type": (
        {"messages": call_history("{}", type="custom")},
        "messages[1].tool_calls[0].type",
        VALUE,
    ),
    # tools
    "tools an object": ({"tools": {}}, "tools", TYPE),
    "tool a string": ({"tools": ["f"]}, "tools[0]", TYPE),
    "tool without function": ({"tools": [{"type": "function"}]}, "tools[0].function", MISSING),
    "tool without name": ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name", MISSING),
    "tool with an empty name": ({"tools": [tool("")]}, "tools[0].function.name", VALUE),
    "tool whose name breaks the markup": ({"tools": [tool(), tool("a>b")]}, "tools[1].function.name", VALUE),
    "tool with a long name": ({"tools": [tool("x" * 129)]}, "tools[0].function.name", VALUE),
    "tool whose schema is a list": ({"tools": [tool(parameters=[])]}, "tools[0].function.parameters", TYPE),
    "tool of another type": ({"tools": [{"type": "web", "function": {"name": "f"}}]}, "tools[0].type", NOT_BUILT),
    "too many tools": ({"tools": [tool(f"f{n}") for n in range(10_000)]}, "tools", VALUE),
    "schema nested too deeply": (
        {"tools": [tool(parameters=json.loads('{"a":' * 200 + "1" + "}" * 200))]},
        "tools[0]",
        VALUE,
    ),
    # tool choice (TOOL-10, TOOL-11)
    "required tool choice": ({"tools": [tool()], "tool_choice": "required"}, "tool_choice", NOT_BUILT),
    "required without tools": ({"tool_choice": "required"}, "tool_choice", VALUE),
    "named tool choice": (
        {"tools": [tool()], "tool_choice": {"type": "function", "function": {"name": "f"}}},
        "tool_choice",
        NOT_BUILT,
    ),
    "named tool that is not there": (
        {"tools": [tool()], "tool_choice": {"type": "function", "function": {"name": "nope"}}},
        "tool_choice",
        VALUE,
    ),
    "strange tool choice": ({"tool_choice": "maybe"}, "tool_choice", VALUE),
    "tool choice a number": ({"tool_choice": 3}, "tool_choice", TYPE),
    # sampling
    "temperature too high": ({"temperature": 2.5}, "temperature", VALUE),
    "temperature negative": ({"temperature": -0.1}, "temperature", VALUE),
    "temperature a string": ({"temperature": "0"}, "temperature", TYPE),
    "temperature a bool": ({"temperature": True}, "temperature", TYPE),
    "top_p too high": ({"top_p": 1.1}, "top_p", VALUE),
    "top_p negative": ({"top_p": -1}, "top_p", VALUE),
    "top_k too low": ({"top_k": -2}, "top_k", VALUE),
    "top_k too high": ({"top_k": 2**40}, "top_k", VALUE),
    "top_k not whole": ({"top_k": 1.5}, "top_k", TYPE),
    "min_p too high": ({"min_p": 2}, "min_p", VALUE),
    "presence_penalty": ({"presence_penalty": 3}, "presence_penalty", VALUE),
    "frequency_penalty": ({"frequency_penalty": -3}, "frequency_penalty", VALUE),
    "repetition_penalty zero": ({"repetition_penalty": 0}, "repetition_penalty", VALUE),
    "seed not whole": ({"seed": 1.5}, "seed", TYPE),
    "seed too large": ({"seed": 2**70}, "seed", VALUE),
    "bias list": ({"logit_bias": [1]}, "logit_bias", TYPE),
    "bias far out of the vocabulary": ({"logit_bias": {"1000000000": 1}}, "logit_bias", VALUE),
    "bias with a negative id": ({"logit_bias": {"-1": 1}}, "logit_bias", VALUE),
    "bias with a word": ({"logit_bias": {"cat": 1}}, "logit_bias", VALUE),
    "bias too strong": ({"logit_bias": {"5": 101}}, "logit_bias", VALUE),
    "bias for 300k tokens": ({"logit_bias": {str(n): 1 for n in range(300_000)}}, "logit_bias", VALUE),
    # counts (SAMP-06)
    "max_tokens zero": ({"max_tokens": 0}, "max_tokens", VALUE),
    "max_tokens negative": ({"max_tokens": -5}, "max_tokens", VALUE),
    "max_completion_tokens zero": ({"max_completion_tokens": 0}, "max_completion_tokens", VALUE),
    "max_tokens a string": ({"max_tokens": "5"}, "max_tokens", TYPE),
    "n zero": ({"n": 0}, "n", VALUE),
    "n a string": ({"n": "2"}, "n", VALUE),
    "n two": ({"n": 2}, "n", NOT_BUILT),
    "n five million": ({"n": 5_000_000}, "n", NOT_BUILT),
    "top_logprobs huge": ({"logprobs": True, "top_logprobs": 10**9}, "top_logprobs", VALUE),
    "top_logprobs negative": ({"logprobs": True, "top_logprobs": -1}, "top_logprobs", VALUE),
    "top_logprobs alone": ({"top_logprobs": 2}, "top_logprobs", VALUE),
    "logprobs a number": ({"logprobs": 5}, "logprobs", TYPE),
    "17 stop strings": ({"stop": ["x"] * 17}, "stop", VALUE),
    "10 000 stop strings": ({"stop": [str(n) for n in range(10_000)]}, "stop", VALUE),
    "empty stop string": ({"stop": ["a", ""]}, "stop[1]", VALUE),
    "empty stop": ({"stop": ""}, "stop", VALUE),
    "stop string of 1 MB": ({"stop": "x" * 1_000_000}, "stop", VALUE),
    "stop a number": ({"stop": 5}, "stop", TYPE),
    # others
    "stream a string": ({"stream": "yes"}, "stream", TYPE),
    "stream_options a list": ({"stream_options": []}, "stream_options", TYPE),
    "include_usage a string": ({"stream_options": {"include_usage": "no"}}, "stream_options.include_usage", TYPE),
    "unknown template switch": ({"chat_template_kwargs": {"colour": 1}}, "chat_template_kwargs.colour", NOT_BUILT),
    "thinking a string": ({"enable_thinking": "on"}, "enable_thinking", TYPE),
    "unknown effort": ({"reasoning_effort": "heroic"}, "reasoning_effort", VALUE),
    "model a number": ({"model": 5}, "model", TYPE),
    # not built (JSON-01): refused by name, never accepted and ignored
    "json_object": ({"response_format": {"type": "json_object"}}, "response_format", NOT_BUILT),
    "json_schema": ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format", NOT_BUILT),
    "response_format a string": ({"response_format": "json"}, "response_format", NOT_BUILT),
    "guided_json": ({"guided_json": {"type": "object"}}, "guided_json", NOT_BUILT),
    "guided_choice": ({"guided_choice": ["a"]}, "guided_choice", NOT_BUILT),
    "grammar": ({"grammar": "root ::= x"}, "grammar", NOT_BUILT),
    "functions": ({"functions": [{"name": "f"}]}, "functions", NOT_BUILT),
    "function_call": ({"function_call": "auto"}, "function_call", NOT_BUILT),
    "audio out": ({"audio": {"voice": "x"}}, "audio", NOT_BUILT),
    "modalities": ({"modalities": ["text", "audio"]}, "modalities", NOT_BUILT),
    "prediction": ({"prediction": {"type": "content", "content": "x"}}, "prediction", NOT_BUILT),
    "best_of": ({"best_of": 3}, "best_of", NOT_BUILT),
    "prompt_logprobs": ({"prompt_logprobs": -1}, "prompt_logprobs", NOT_BUILT),
    "mirostat": ({"mirostat": 2}, "mirostat", NOT_BUILT),
    "web search": ({"web_search_options": {"search_context_size": "low"}}, "web_search_options", NOT_BUILT),
}

TEXT_ERRORS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no prompt": ({"prompt": None}, "prompt", MISSING),
    "empty text": ({"prompt": ""}, "prompt", VALUE),
    "empty ids": ({"prompt": []}, "prompt", VALUE),
    "number": ({"prompt": 5}, "prompt", TYPE),
    "id out of the vocabulary": ({"prompt": [1, 10**7]}, "prompt[1]", VALUE),
    "negative id": ({"prompt": [-1]}, "prompt[0]", VALUE),
    "id not whole": ({"prompt": [1, 2.5]}, "prompt[1]", TYPE),
    "id a bool": ({"prompt": [True]}, "prompt[0]", TYPE),
    "mixed": ({"prompt": [1, "a"]}, "prompt[1]", TYPE),
    "several texts": ({"prompt": ["a", "b"]}, "prompt", NOT_BUILT),
    "several id lists": ({"prompt": [[1], [2]]}, "prompt", NOT_BUILT),
    "echo": ({"prompt": "a", "echo": True}, "echo", NOT_BUILT),
    "suffix": ({"prompt": "a", "suffix": "b"}, "suffix", NOT_BUILT),
    "best_of": ({"prompt": "a", "best_of": 2}, "best_of", NOT_BUILT),
    "n": ({"prompt": "a", "n": 3}, "n", NOT_BUILT),
    "logprobs": ({"prompt": "a", "logprobs": 21}, "logprobs", VALUE),
    "logprobs negative": ({"prompt": "a", "logprobs": -1}, "logprobs", VALUE),
    "max_tokens": ({"prompt": "a", "max_tokens": 0}, "max_tokens", VALUE),
    "response_format": ({"prompt": "a", "response_format": {"type": "json_object"}}, "response_format", NOT_BUILT),
}


def check_error(answer: Any, status: int, param: str | None, code: str) -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["param"], error["code"]) == (param, code), error
    assert error["message"]
    assert error["type"] in ("invalid_request_error", "server_error", "authentication_error")
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize("name", CHAT_ERRORS)
def test_a_bad_chat_request_is_refused_by_field(api: Api, engine: ScriptedEngine, name: str) -> None:
    """JSON-01, SAMP-06, SAMP-07, TOOL-10, TOOL-11: 400 with the path, streaming or not, before any engine work."""
    fields, param, code = CHAT_ERRORS[name]
    for stream in (False, True):
        check_error(api.post(CHAT, {"messages": USER, "stream": stream, **fields}), 400, param, code)
    assert engine.requests == []
    assert api.chat().status_code == 200


@pytest.mark.parametrize("name", TEXT_ERRORS)
def test_a_bad_text_request_is_refused_by_field(api: Api, engine: ScriptedEngine, name: str) -> None:
    fields, param, code = TEXT_ERRORS[name]
    check_error(api.post(TEXT, fields), 400, param, code)
    assert engine.requests == []


ACCEPTED: dict[str, dict[str, Any]] = {
    "harmless fields": {
        "user": "u",
        "store": True,
        "metadata": {"a": "b"},
        "service_tier": "auto",
        "prompt_cache_retention": "24h",
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "verbosity": "medium",
        "stream_options": {"include_usage": True, "include_obfuscation": False},
        "client_metadata": {},
        "some_new_field": 5,
    },
    "values that ask for nothing": {
        "n": 1,
        "best_of": 1,
        "functions": [],
        "function_call": "none",
        "response_format": {"type": "text"},
        "modalities": ["text"],
        "audio": None,
        "guided_json": None,
        "stop": None,
        "logit_bias": {},
        "logprobs": False,
        "top_logprobs": 0,
        "min_tokens": 0,
        "stop_token_ids": [],
        "parallel_tool_calls": True,
        "tools": [],
        "tool_choice": "none",
    },
    "null everywhere": dict.fromkeys(
        [
            "model",
            "temperature",
            "top_p",
            "n",
            "stream",
            "stop",
            "max_tokens",
            "seed",
            "tools",
            "tool_choice",
            "logprobs",
        ]
    ),
    "limits": {
        "temperature": 2,
        "top_p": 0,
        "top_k": -1,
        "min_p": 1,
        "presence_penalty": -2,
        "frequency_penalty": 2,
        "repetition_penalty": 10,
        "seed": -1,
        "logit_bias": {"0": -100, "5": 100.0},
        "max_tokens": 10**12,
        "stop": ["x" * 1024] * 16,
    },
    "thinking switches": {
        "reasoning_effort": "high",
        "enable_thinking": True,
        "chat_template_kwargs": {"enable_thinking": False, "preserve_thinking": True},
    },
    "four and five stops": {"stop": ["a", "b", "c", "d", "e"]},
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_harmless_values_are_accepted(api: Api, name: str) -> None:
    for stream in (False, True):
        answer = api.chat(**{"stream": stream, **ACCEPTED[name]})
        assert answer.status_code == 200, answer.text


def test_odd_history_is_taken_as_it_is(api: Api) -> None:
    """LIMIT-06, STATE-08: tolerant to what clients replay."""
    tools = {"role": "tool", "content": "r", "tool_call_id": "1"}
    histories: list[list[dict[str, Any]]] = [
        [{"role": "system", "content": "s"}],
        [{"role": "assistant", "content": "a"}],
        [{"role": "system", "content": "s"}, *call_history("{}")[1:], tools],
        [*USER, {"role": "assistant", "content": None, "tool_calls": []}, *USER],
        [*USER, {"role": "assistant"}, *USER],
        [*USER, {"role": "assistant", "content": None, "refusal": "no"}, *USER],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": []}],
        [*USER, {"role": "assistant", "content": "prefix"}],
        [*call_history('{"cmd": "ls", '), tools],
        [*call_history("[1]"), tools],
        [*call_history(""), tools],
        [*call_history(None), tools],
        [*call_history({"a": {"b": 1}}), {**tools, "content": None}],
        [*call_history("{" * 1000), tools],
        [*call_history("[" * 400 + "]" * 400), tools],
        [*call_history('{"a":' * 300 + "1" + "}" * 300), tools],
        [*USER, {"role": "assistant", "content": "a", "reasoning_content": "r"}, *USER],
        [*USER, {"role": "assistant", "content": "a", "reasoning": "r"}, *USER],
        [*USER, {"role": "developer", "content": "late"}, *USER],
        [
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}],
                "name": "n",
            }
        ],
    ]
    for messages in histories:
        answer = api.post(CHAT, {"messages": messages, "max_tokens": 1})
        assert answer.status_code == 200, (messages, answer.text)


def test_bodies_that_are_no_json(api: Api, engine: ScriptedEngine) -> None:
    """LIMIT-03: NaN, Infinity, invalid UTF-8, half a body, too deep: 400, never 5xx."""
    head, deep = b'{"messages":[{"role":"user","content":"', 100_000
    bad = {
        "empty": b"",
        "half": b'{"messages":[',
        "two": b"{}{}",
        "nan": b'{"temperature": NaN, "messages": []}',
        "infinity": b'{"temperature": -Infinity, "messages": []}',
        "too large a number": b'{"temperature": 1e999, "messages": []}',
        "ff fe": head + b'\xff\xfe"}]}',
        "utf-16": json.dumps({"messages": USER}).encode("utf-16"),
        "a surrogate as bytes": head + b'\xed\xa0\xbd"}]}',
        "ff fe in an unknown field": b'{"x":"\xff\xfe","messages":[{"role":"user","content":"a"}]}',
        "deep": b'{"messages":' + b"[" * deep + b"]" * deep + b"}",
        "deep and open": b'{"tools":' + b'{"a":' * deep,
        "deep in an unknown field": b'{"x":' + b"[" * deep + b"]" * deep + b"}",
        "a list": b"[]",
        "a string": b'"messages"',
        "null": b"null",
    }
    for name, body in bad.items():
        answer = api.post(CHAT, body)
        assert answer.status_code == 400, (name, answer.text)
        assert answer.json()["error"]["code"] in ("invalid_json", "invalid_type", "invalid_value"), name
        assert "Traceback" not in answer.text
    assert engine.requests == []


def test_lone_surrogates_become_replacement_characters(api: Api, engine: ScriptedEngine) -> None:
    """LIMIT-03: in every text field, streaming or not; a pair stays a pair, an escaped backslash stays one."""
    bodies = [
        b'{"messages":[{"role":"user","content":"a\\ud83d b"}]}',
        b'{"messages":[{"role":"user","content":"\\ude00"}]}',
        b'{"messages":[{"role":"system","content":"\\ud83d\\ud83d"},{"role":"user","content":"x"}]}',
        b'{"messages":[{"role":"user","content":[{"type":"text","text":"\\ud83d"}]}]}',
        b'{"messages":[{"role":"user","content":"x"}],"stop":"\\ud83d"}',
        b'{"messages":[{"role":"user","content":"x"}],"metadata":{"\\ud83d":"\\udc00"}}',
        b'{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"a\\ud83d"}}]}',
        b'{"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"1","function":'
        b'{"name":"f","arguments":"{\\"a\\":\\"\\\\ud83d\\"}"}}]},{"role":"tool","content":"\\ud83d"}]}',
        b'\xef\xbb\xbf{"messages":[{"role":"user","content":"with a BOM"}]}',
        b'{"messages":[{"role":"user","content":"a\\u0000b"}]}',
    ]
    for body in bodies:
        for streamed in (body, body[:-1] + b',"stream":true}'):
            answer = api.post(CHAT, streamed)
            assert answer.status_code == 200, (body, answer.text)
    kept = b'{"messages":[{"role":"user","content":"\\ud83d\\ude00 \\\\ud83d \\ud83d"}]}'
    assert api.post(CHAT, kept).status_code == 200
    prompt = b"".join(engine.frontend.token_bytes(i) for i in engine.requests[-1].plan.tokens).decode()
    assert "😀 \\ud83d �" in prompt


def test_a_prompt_longer_than_the_context(api: Api, engine: ScriptedEngine) -> None:
    """LIMIT-01: both numbers, in the words clients look for, before any engine work; one free token is enough."""
    limit = engine.max_context
    assert api.get("/v1/models").json()["data"][0]["max_model_len"] == limit
    answer = api.post(TEXT, {"prompt": [5] * (limit - 1), "max_tokens": 50})
    assert answer.json()["choices"][0]["finish_reason"] == "length"
    assert answer.json()["usage"]["completion_tokens"] == 1
    submitted = len(engine.requests)
    for count in (limit, limit + 1, 200_000):
        refused = api.post(TEXT, {"prompt": [5] * count})
        check_error(refused, 400, "prompt", "context_length_exceeded")
        words = f"maximum context length is {limit} tokens. However, your prompt resulted in {count} tokens."
        assert words in refused.json()["error"]["message"]
    for stream in (False, True):
        refused = api.chat("word " * 3000, stream=stream)
        check_error(refused, 400, "messages", "context_length_exceeded")
        assert (
            f"This model's maximum context length is {limit} tokens. However, your messages resulted in" in refused.text
        )
    assert len(engine.requests) == submitted


def test_the_budget_is_clamped_to_the_context(api: Api, engine: ScriptedEngine) -> None:
    api.ask(max_tokens=10**12)
    api.ask()
    api.ask(max_tokens=7, max_completion_tokens=5)
    api.ask(max_tokens=7)
    room = engine.max_context - len(engine.requests[0].plan.tokens)
    assert [request.max_tokens for request in engine.requests] == [room, room, 5, 7]


@pytest.mark.parametrize("model", ["nope", "org/nope", "x" * 5000, "a\nb"])
def test_an_unknown_model_is_not_found(api: Api, model: str) -> None:
    """OPS-07."""
    check_error(api.chat(model=model), 404, "model", "model_not_found")
    check_error(api.post(TEXT, {"model": model, "prompt": "a"}), 404, "model", "model_not_found")


def test_unknown_routes_and_methods_have_error_bodies(api: Api) -> None:
    check_error(api.get("/v1/nothing"), 404, None, "not_found")
    check_error(api.post("/", {}), 404, None, "not_found")
    for path, meant in (("/chat/completions", CHAT), ("/v1/v1/completions", TEXT), (CHAT + "/", CHAT)):
        answer = api.post(path, {})
        check_error(answer, 404, None, "not_found")
        assert answer.json()["error"]["message"] == f"There is no route {path}. Did you mean {meant}?"
    assert api.get("/v1/nothing").json()["error"]["message"] == "There is no route /v1/nothing."
    for method, path in (("GET", CHAT), ("DELETE", "/v1/models"), ("PUT", TEXT), ("POST", "/health")):
        answer = api.request(method, path)
        check_error(answer, 405, None, "method_not_allowed")
        assert answer.headers["allow"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": "0"}, "temperature must be a number."),
        ({"seed": 1.5}, "seed must be a whole number."),
        ({"stop": 5}, "stop must be a string or a list."),
        ({"stream": 5}, "stream must be true or false."),
        ({"tool_choice": 3}, "tool_choice must be a string or an object."),
        ({"messages": ["hi"]}, "messages[0] must be an object."),
        ({"messages": [{"content": "hi"}]}, "messages[0].role is missing."),
        ({"logit_bias": {"5": "a"}}, "Every value of logit_bias must be a number."),
    ],
)
def test_a_wrong_type_is_said_in_plain_words(api: Api, fields: dict[str, Any], message: str) -> None:
    assert api.post(CHAT, {"messages": USER, **fields}).json()["error"]["message"] == message


def test_huge_counts_cost_neither_time_nor_memory(api: Api) -> None:
    """SAMP-06: refused in well under 50 ms each once read, without growth."""
    bodies = [
        {"messages": USER, "logprobs": True, "top_logprobs": 10**9},
        {"messages": USER, "n": 5_000_000},
        {"messages": USER, "stop": [str(n) for n in range(10_000)]},
        {"messages": USER, "max_tokens": -(10**15)},
    ]
    api.chat()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for body in bodies:
        began = time.monotonic()
        assert api.post(CHAT, body).status_code == 400
        assert time.monotonic() - began < 0.25
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024


def test_refusals_are_the_same_everywhere(api: Api) -> None:
    """The error body on a text route is the same form as on the chat route."""
    for path, fields in ((CHAT, {"messages": USER}), (TEXT, {"prompt": "a"})):
        check_error(api.post(path, {**fields, "temperature": 9}), 400, "temperature", "invalid_value")
