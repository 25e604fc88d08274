"""Rendered texts and ids agree with the reference: the recorded conversations, and random ones rendered by it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_world import BUNDLED_DIR, COMMON_DIR, FIXTURE_DIR, as_hugging_face, conversations, frontend_of, stripping
from tokenizers import Tokenizer
from transformers.utils.chat_template_utils import render_jinja_template

from ninfer.base.errors import BadInput
from ninfer.frontend.files import read_text_files
from ninfer.frontend.messages import ChatInput, Message, PastToolCall, Role, ToolSpec
from ninfer.frontend.template import ChatTemplate
from ninfer.frontend.tokens import SegmentTokenizer

GOLDENS = json.loads((COMMON_DIR / "chat.json").read_text())
CASES = [name for name in GOLDENS if name != "tokenize"]


def chat_of(case: dict[str, object]) -> ChatInput:
    messages = []
    for entry in case["messages"]:
        calls = tuple(
            PastToolCall(call["function"]["name"], json.dumps(call["function"]["arguments"]), call.get("id"))
            for call in entry.get("tool_calls", ())
        )
        content, reasoning = entry.get("content"), entry.get("reasoning_content")
        messages.append(Message(Role(entry["role"]), content, calls, reasoning, entry.get("tool_call_id")))
    # The recording sorts the keys of its objects; the tools in their own key order stand in the text.
    options = {name: value for name, value in case["options"].items() if name != "tools"}
    listed = case["text"].partition("<tools>\n")[2].partition("\n</tools>")[0].splitlines()
    tools = tuple(ToolSpec(tool["function"]["name"], tool) for tool in map(json.loads, listed))
    return ChatInput(tuple(messages), tools, options)


@pytest.mark.parametrize("name", [name for name in CASES if name != "media"])
def test_recorded_conversations_render_and_encode_exactly(name: str) -> None:
    """[B1] text and ids of the recorded conversations."""
    case = GOLDENS[name]
    chat = chat_of(case)
    assert stripping().render(chat) == case["text"]
    assert list(stripping().plan_chat(chat).tokens) == case["ids"]


def test_the_recorded_media_conversation_renders_at_template_level() -> None:
    """Media parts reach no typed message yet; the template and the tokenizer below them are exact already."""
    case = GOLDENS["media"]
    files = read_text_files(FIXTURE_DIR)
    text = ChatTemplate(files.template, {}).render(case["messages"], (), case["options"], generation_prompt=True)
    assert text == case["text"]
    tokens = SegmentTokenizer(files.plain, files.added, remembered_chars=1000)
    assert list(tokens.encode(text).tokens) == case["ids"]


@pytest.mark.parametrize("case", GOLDENS["tokenize"], ids=lambda case: repr(case["text"]))
def test_recorded_texts_encode_exactly(case: dict[str, object]) -> None:
    assert list(stripping().plan_text(case["text"]).tokens) == case["ids"]


@pytest.mark.parametrize("model_dir", [FIXTURE_DIR, BUNDLED_DIR], ids=lambda path: path.name)
def test_random_conversations_render_as_the_reference_renders_them(model_dir: Path) -> None:
    """[B1] equal text for every conversation, and ids equal to encoding the reference's text in one piece."""
    frontend = frontend_of(model_dir)
    source = (model_dir / "chat_template.jinja").read_text()
    whole = Tokenizer.from_file(str(model_dir / "tokenizer.json"))

    @settings(max_examples=120, deadline=None, derandomize=True)
    @given(conversations())
    def compare(chat: ChatInput) -> None:
        texts, _ = render_jinja_template(
            [as_hugging_face(chat)],
            tools=[dict(tool.raw) for tool in chat.tools] or None,
            chat_template=source,
            add_generation_prompt=True,
            **chat.template_kwargs,
        )
        assert frontend.render(chat) == texts[0]
        assert list(frontend.plan_chat(chat).tokens) == whole.encode(texts[0], add_special_tokens=False).ids

    compare()


SNIPPETS = [
    "{{ messages | tojson }}",
    "{{ messages | tojson(indent=2) }}",
    "{% for m in messages %}{% if loop.index0 == 2 %}{% break %}{% endif %}{{ m.role }},{% endfor %}",
    "{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else 'none' }};{% endfor %}",
    "{% for m in messages %}{% generation %}{{ m['content'] }}{% endgeneration %}\n{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }} {{ ns.gone }}",
    "{% macro f(x, y=1) %}{{ x }}-{{ y }}{% endmacro %}{{ f('a') }}{{ f('b', y=2) }}{{ f(y=3, x='c') }}",
    "{{ messages[0].items() | list | length }} {{ messages[0].missing is defined }} {{ messages[0].keys() | list }}",
    "  {% if true %}\n  x\n  {% endif %}\n{{ 'é<&>' | tojson }}{{ documents }}{{ tools }}",
    "{{ '%s' | format(messages[0].role) }} {{ 'a{}'.format(1) }} {{ messages[0].content.strip().upper() }}",
]


@pytest.mark.parametrize("source", SNIPPETS)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(chat=conversations(rounds=2))
def test_template_features_render_as_the_reference_renders_them(source: str, chat: ChatInput) -> None:
    messages = as_hugging_face(chat)
    texts, _ = render_jinja_template([messages], chat_template=source, add_generation_prompt=False)
    assert ChatTemplate(source, {}).render(messages, (), {}, generation_prompt=False) == texts[0]


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.append({}) }}",
        "{{ messages[0].update({'role': 'x'}) }}",
        "{{ ''.__class__.__mro__ }}{{ ''.__class__.__mro__[1] }}",
        "{{ messages[0].__class__.__base__ }}x{{ raise_exception('stop here') }}",
        "{{ missing.attribute }}",
        "{{ 1 // 0 }}",
    ],
)
def test_a_template_that_fails_or_reaches_out_is_bad_input(source: str) -> None:
    template = ChatTemplate(source, {})
    with pytest.raises(BadInput) as caught:
        template.render([{"role": "user", "content": "x"}], (), {}, generation_prompt=False)
    assert caught.value.param == "messages"


@settings(max_examples=10, derandomize=True)
@given(st.sampled_from(["%Y", "%d %b %Y"]))
def test_the_date_is_printed_in_the_form_asked_for(form: str) -> None:
    text = ChatTemplate("{{ strftime_now(form) }}", {}).render([], (), {"form": form}, generation_prompt=False)
    assert text[-4:].isdecimal()
    assert int(text[-4:]) >= 2024
