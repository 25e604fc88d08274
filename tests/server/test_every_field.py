"""Every field of the OpenAI schemas is honoured or refused by name; and the stop rules that other servers have too."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from openai.types import completion_create_params as text_params
from openai.types.chat import completion_create_params as chat_params

from ninfer.server import fields, schema

from .clients import CHAT, TEXT, Api, fold_chat
from .scripted import Script, ScriptedEngine, all_splits, whole
from .test_bad_input import NOT_BUILT, TYPE, USER, VALUE, check_error


@pytest.mark.parametrize(
    ("params", "struct", "refused"),
    [
        (chat_params.CompletionCreateParamsBase, schema.ChatFields, fields.list_refused_in_chat()),
        (text_params.CompletionCreateParamsBase, schema.CompletionFields, fields.list_refused_in_completions()),
    ],
)
def test_every_field_of_the_official_client_has_its_place(params: Any, struct: Any, refused: frozenset[str]) -> None:
    """JSON-01: read, refused, or listed as a field that no output depends on; never silently dropped."""
    read = {field.name for field in msgspec.structs.fields(struct)}
    assert set(params.__annotations__) - read - refused - fields.WITHOUT_EFFECT == set()
    assert not read & refused
    assert not read & fields.WITHOUT_EFFECT


CHAT_ERRORS: dict[str, tuple[dict[str, Any], str, str]] = {
    "stop token out of the vocabulary": ({"stop_token_ids": [3, 10**9]}, "stop_token_ids[1]", VALUE),
    "stop token negative": ({"stop_token_ids": [-1]}, "stop_token_ids[0]", VALUE),
    "300k stop tokens": ({"stop_token_ids": [1] * 300_000}, "stop_token_ids", VALUE),
    "stop_token_ids a number": ({"stop_token_ids": 5}, "stop_token_ids", TYPE),
    "min_tokens negative": ({"min_tokens": -1}, "min_tokens", VALUE),
    "min_tokens above the budget": ({"min_tokens": 9, "max_completion_tokens": 8}, "min_tokens", VALUE),
    "thinking_budget negative": ({"thinking_budget": -1}, "thinking_budget", VALUE),
    "thinking_token_budget a string": ({"thinking_token_budget": "5"}, "thinking_token_budget", TYPE),
    "min_tokens a string": ({"min_tokens": "5"}, "min_tokens", TYPE),
    "obfuscation": (
        {"stream_options": {"include_obfuscation": True}},
        "stream_options.include_obfuscation",
        NOT_BUILT,
    ),
    "usage in every chunk": (
        {"stream_options": {"continuous_usage_stats": True}},
        "stream_options.continuous_usage_stats",
        NOT_BUILT,
    ),
    "verbosity": ({"verbosity": "low"}, "verbosity", NOT_BUILT),
    "moderation": ({"moderation": {"model": "m"}}, "moderation", NOT_BUILT),
    "no special tokens": ({"skip_special_tokens": False}, "skip_special_tokens", NOT_BUILT),
    "another server's budget": ({"n_predict": 5}, "n_predict", NOT_BUILT),
    "allowed tools": ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice", VALUE),
    "past function call": (
        {"messages": [{"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}]},
        "messages[0].function_call",
        NOT_BUILT,
    ),
    "past audio": ({"messages": [{"role": "assistant", "audio": {"id": "a"}}]}, "messages[0].audio", NOT_BUILT),
    "prefix": (
        {"messages": [*USER, {"role": "assistant", "content": "a", "prefix": True}]},
        "messages[1].prefix",
        NOT_BUILT,
    ),
}
TEXT_ERRORS: dict[str, tuple[dict[str, Any], str, str]] = {
    "min_tokens above the default budget": ({"min_tokens": 17}, "min_tokens", VALUE),
    "a chat's budget": ({"max_completion_tokens": 5}, "max_completion_tokens", NOT_BUILT),
    "a chat's messages": ({"messages": [{}]}, "messages", NOT_BUILT),
    "a thought's budget": ({"thinking_budget": 5}, "thinking_budget", NOT_BUILT),
    "thinking": ({"enable_thinking": True}, "enable_thinking", NOT_BUILT),
}


@pytest.mark.parametrize("name", CHAT_ERRORS)
def test_a_chat_field_that_cannot_be_honoured_is_refused(api: Api, engine: ScriptedEngine, name: str) -> None:
    """JSON-01, SAMP-06."""
    given, param, code = CHAT_ERRORS[name]
    for stream in (False, True):
        check_error(api.post(CHAT, {"messages": USER, "stream": stream, **given}), 400, param, code)
    assert engine.requests == []


@pytest.mark.parametrize("name", TEXT_ERRORS)
def test_a_text_field_that_cannot_be_honoured_is_refused(api: Api, engine: ScriptedEngine, name: str) -> None:
    """JSON-01."""
    given, param, code = TEXT_ERRORS[name]
    check_error(api.post(TEXT, {"prompt": "a", **given}), 400, param, code)
    assert engine.requests == []


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_floor_and_stop_tokens_reach_the_engine(api: Api, engine: ScriptedEngine, path: str) -> None:
    prompt = {"messages": USER} if path == CHAT else {"prompt": "a"}
    api.post(path, {**prompt, "max_tokens": 9, "min_tokens": 4, "stop_token_ids": [7, 8]})
    asked = engine.requests[-1]
    assert (asked.min_tokens, asked.stop_token_ids) == (4, (7, 8))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [({}, None), ({"thinking_budget": 7}, 7), ({"thinking_budget": 7, "thinking_token_budget": 0}, 0)],
)
def test_the_budget_of_a_thought_reaches_the_engine(
    api: Api, engine: ScriptedEngine, given: dict[str, Any], wanted: int | None
) -> None:
    api.ask(**given)
    assert engine.requests[-1].thinking_budget == wanted


def test_a_floor_beyond_the_context_is_cut_with_the_budget(api: Api, engine: ScriptedEngine) -> None:
    api.ask(min_tokens=10**6)
    assert engine.requests[-1].min_tokens == engine.requests[-1].max_tokens


@pytest.mark.parametrize("stop", ["END", ["END", "zz"]])
def test_stop_strings_wait_for_the_floor(api: Api, engine: ScriptedEngine, stop: Any) -> None:
    """As other servers have it: a stop string completed within the floor is text, a later one stops."""
    engine.script = Script(((b"a",), (b"END",), (b"b",), (b"END",), (b"c",)))
    answer = api.ask(stop=stop, min_tokens=2)
    assert answer["choices"][0]["message"]["content"] == "aENDb"
    assert answer["usage"]["completion_tokens"] == 4
    assert api.ask(stop=stop)["choices"][0]["message"]["content"] == "a"


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
ONE_CALL = "<tool_call>\n<function=look>\n</function>\n</tool_call>"


@pytest.mark.parametrize("script", all_splits(f"Well.\n{ONE_CALL}\n{ONE_CALL}", stride=9))
def test_one_call_at_most_when_parallel_calls_are_off(api: Api, engine: ScriptedEngine, script: Script) -> None:
    """TOOL-08: `parallel_tool_calls` false delivers the first call; streamed and whole answers agree."""
    engine.script = script
    for parallel, count in ((True, 2), (False, 1)):
        wanted: dict[str, Any] = {"tools": [TOOL], "parallel_tool_calls": parallel}
        choice = api.ask(**wanted)["choices"][0]
        assert len(choice["message"]["tool_calls"]) == count
        assert choice["finish_reason"] == "tool_calls"
        streamed = fold_chat(api.stream(**wanted))
        assert len(streamed["message"]["tool_calls"]) == count


def test_null_is_absent_for_the_new_fields(api: Api, engine: ScriptedEngine) -> None:
    engine.script = whole("ok")
    api.ask(min_tokens=None, stop_token_ids=None, parallel_tool_calls=None, verbosity=None)
    assert engine.requests[-1].min_tokens == 0
