"""What library callers may pass: messages as mappings, sampling by keyword. Each refusal names its field."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ninfer.base.errors import BadInput
from ninfer.engine.chat import read_chat
from ninfer.engine.sampling import make_sampling
from ninfer.frontend.messages import Message, PastToolCall, Role, TextPart
from ninfer.ports.sampling import SamplingParams


def test_messages_in_the_form_of_chat_completions_are_read() -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
    chat = read_chat(
        [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": {"at": "x"}}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "seen"},
            Message(Role.USER, "Thanks"),
        ],
        [tool],
        {"enable_thinking": False},
        "s1",
    )
    assert chat.messages[1].content == (TextPart("Hello"),)
    assert chat.messages[2].tool_calls == (PastToolCall("look", '{"at": "x"}', "c1"),)
    assert chat.messages[3].tool_call_id == "c1"
    assert chat.messages[4].content == "Thanks"
    assert chat.tools[0].name == "look"
    assert chat.session == "s1"


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        ("hello", "messages"),
        ([7], "messages[0]"),
        ([{"role": "robot", "content": "x"}], "messages[0].role"),
        ([{"content": "x"}], "messages[0].role"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0]"),
        ([{"role": "assistant", "tool_calls": "x"}], "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": [{}]}], "messages[0].tool_calls[0]"),
        ([{"role": "tool", "content": "x", "tool_call_id": 5}], "messages[0].tool_call_id"),
    ],
)
def test_bad_messages_are_refused_by_path(messages: object, param: str) -> None:
    with pytest.raises(BadInput) as error:
        read_chat(messages, [], {}, None)  # type: ignore[arg-type]
    assert error.value.param == param


def test_sampling_keywords_override_the_defaults() -> None:
    defaults = SamplingParams(temperature=0.6, top_k=20)
    params = make_sampling(defaults, {"temperature": 0, "top_p": 0.5, "min_p": None}, seed=4)
    assert params == SamplingParams(temperature=0.0, top_k=20, top_p=0.5, seed=4)
    assert make_sampling(defaults, {"logit_bias": {3: -1}}, seed=0).logit_bias == {3: -1}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", math.nan),
        ("temperature", -0.1),
        ("temperature", "hot"),
        ("temperature", True),
        ("top_p", 1.5),
        ("top_k", -1),
        ("presence_penalty", math.inf),
        ("repetition_penalty", 0),
        ("logit_bias", 5),
        ("repetition_penalty", 1e-5),
        ("logit_bias", {1: math.nan}),
        ("logit_bias", {-1: 1.0}),
        ("logit_bias", {2**70: 1.0}),
        ("logit_bias", {True: 1.0}),
        ("logit_bias", {1: 1e39}),
        ("seeds", 1),
    ],
)
def test_bad_sampling_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(BadInput) as error:
        make_sampling(SamplingParams(), {name: value}, seed=0)
    assert error.value.param == name


@pytest.mark.parametrize("seed", ["a", 1.5, True])
def test_a_seed_that_is_no_whole_number_is_refused(seed: Any) -> None:
    with pytest.raises(BadInput) as error:
        make_sampling(SamplingParams(), {}, seed=seed)
    assert error.value.param == "seed"
