"""Typed R, the recovery position and the frontiers of the mathematics."""

from __future__ import annotations

import contextlib
import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_world import (
    ADD,
    FIXTURE_DIR,
    IDENTITY,
    appending,
    assistant,
    chat,
    conversations,
    result,
    stripping,
    text_of,
    user,
    words,
)

from ninfer.base.errors import BadInput
from ninfer.frontend.files import read_text_files
from ninfer.frontend.frontend import Frontend
from ninfer.frontend.messages import ChatInput, Message, PastToolCall, Role, TextPart, ToolSpec
from ninfer.frontend.plan import InputPlan, RewriteKind
from ninfer.frontend.rewrite import common_prefix

HEADER = "<|im_start|>assistant\n"
CLOSING = "<|im_end|>\n"
CALL = PastToolCall("add", '{"a": 1}', "c1")


def parts(frontend: Frontend, plan: InputPlan) -> tuple[str, str, str]:
    """Text up to the recovery position, from there to R, and behind R."""
    assert plan.rewrite_point is not None
    cuts = (0, plan.recovery_frontier, plan.rewrite_point, len(plan.tokens))
    before, closing, behind = (text_of(frontend, plan.tokens.view(a, b)) for a, b in itertools.pairwise(cuts))
    return before, closing, behind


def test_a_plain_turn_is_kept_at_the_end_of_the_users_words() -> None:
    """[D2] [D3] [D4] user header, body, C, closing, R, generation header, P."""
    for frontend in (appending(), stripping()):
        plan = frontend.plan_chat(chat(Message(Role.SYSTEM, "S"), user("one"), assistant("two"), user(" three ")))
        before, closing, behind = parts(frontend, plan)
        assert plan.rewrite is RewriteKind.RESPONSE_REPLAY
        assert before.endswith("<|im_start|>user\nthree")
        assert closing == CLOSING
        assert behind.startswith(HEADER)


@pytest.mark.parametrize("message", [user("u"), Message(Role.SYSTEM, "s"), Message(Role.DEVELOPER, "d")])
def test_words_of_user_system_and_developer_are_provably_closed(message: Message) -> None:
    """[D4] R directly follows such a message: C is used."""
    plan = appending().plan_chat(chat(message))
    before, closing, _ = parts(appending(), plan)
    assert before.endswith(str(message.content))
    assert closing == CLOSING


@pytest.mark.parametrize(
    "tail", [[assistant("x", CALL), result("4", "c1")], [assistant("prefilled")], [user("")], [user(" \n ")]]
)
def test_without_proof_the_rewrite_point_itself_is_kept(tail: list[Message]) -> None:
    """[D4] a tool result, an assistant, an empty body: R."""
    plan = appending().plan_chat(chat(user("u"), *tail))
    assert plan.recovery_frontier == plan.rewrite_point
    assert parts(appending(), plan)[2].startswith(HEADER)


def test_an_open_turn_of_a_stripping_template_is_kept_before_its_first_answer() -> None:
    """[D2] CACHE-03: the next user turn rewrites the open turn, so R stands before its first assistant message."""
    frontend = stripping()
    history = [Message(Role.SYSTEM, "S"), user("old"), assistant("done"), user("one")]
    rounds: list[Message] = []
    first = frontend.plan_chat(chat(*history))
    for number in range(4):
        rounds += [assistant("thinking", CALL, reasoning=f"why {number}"), result("r" * 40, "c1")]
        plan = frontend.plan_chat(chat(*history, *rounds))
        assert plan.rewrite is RewriteKind.TURN_CLOSURE
        assert (plan.recovery_frontier, plan.rewrite_point) == (first.recovery_frontier, first.rewrite_point)
    stripped = [assistant("thinking", CALL) if message.role is Role.ASSISTANT else message for message in rounds]
    later = frontend.plan_chat(chat(*history, *stripped, assistant("end"), user("next")))
    assert later.tokens.common_prefix(plan.tokens) >= plan.rewrite_point
    kept = frontend.plan_chat(chat(*history, *rounds, preserve_thinking=True))
    assert kept.rewrite is RewriteKind.RESPONSE_REPLAY
    more = chat(*history, *rounds, assistant("end", reasoning="so"), user("next"), preserve_thinking=True)
    assert frontend.plan_chat(more).tokens.common_prefix(kept.tokens) == len(kept.tokens)


def test_a_tool_loop_moves_the_point_forward_when_history_is_append_only() -> None:
    """HYB-05: with thinking kept, R follows each round; a trimmed answer costs that round only."""
    messages = [user("go")]
    last = 0
    for number in range(30):
        plan = appending().plan_chat(chat(*messages))
        assert plan.rewrite is RewriteKind.RESPONSE_REPLAY
        assert plan.rewrite_point > last
        last = plan.rewrite_point
        trimmed = appending().plan_chat(chat(*messages, assistant(f"round {number}", CALL), result("x", "c1")))
        assert trimmed.tokens.common_prefix(plan.tokens) >= plan.recovery_frontier
        messages += [assistant(f"round {number}\n", CALL), result("x" * 30, "c1")]


def test_an_empty_think_pair_is_behind_the_point() -> None:
    """CACHE-05: with thinking off, the pair that only the generation header prints is not in the kept input."""
    frontend = stripping()
    messages: list[Message] = []
    for number in range(8):
        messages.append(user(f"question {number}"))
        plan = frontend.plan_chat(chat(*messages, enable_thinking=False))
        messages.append(assistant(f"answer {number}"))
        longer = frontend.plan_chat(chat(*messages, user("more"), enable_thinking=False))
        assert plan.rewrite is RewriteKind.RESPONSE_REPLAY
        assert longer.tokens.common_prefix(plan.tokens) >= plan.rewrite_point
        assert not plan.opens_thinking


def test_reprinted_arguments_differ_only_behind_the_point() -> None:
    """CACHE-06: the client's key order is rendered, and the response-start point precedes it."""
    frontend = appending()
    plan = frontend.plan_chat(chat(user("go"), tools=[ADD]))
    for arguments in ('{"b":"2","a":"1"}', '{"a": "1", "b": "2"}'):
        again = chat(user("go"), assistant(None, PastToolCall("add", arguments, "c")), result("3", "c"), tools=[ADD])
        assert frontend.plan_chat(again).tokens.common_prefix(plan.tokens) >= plan.rewrite_point
        text = frontend.render(again)
        keys = list(json.loads(arguments))
        assert text.index(f"<parameter={keys[0]}>") < text.index(f"<parameter={keys[1]}>")


def test_results_of_one_call_set_are_printed_in_call_order() -> None:
    """CACHE-11: whatever order they came in; unknown ids come last, in the order given."""
    calls = tuple(PastToolCall("add", "{}", call_id) for call_id in "ABC")
    results = {call_id: result(f"result {call_id}", call_id) for call_id in "ABCX"}
    orders = ["ABC", "CAB", "BCA"]
    texts = {appending().render(chat(user("u"), assistant("", *calls), *(results[c] for c in o))) for o in orders}
    assert len(texts) == 1
    later = [chat(user("u"), assistant("", *calls), *(results[c] for c in o), user("v")) for o in orders]
    assert len({appending().render(one) for one in later}) == 1
    strange = appending().render(chat(user("u"), assistant("", *calls), *(results[c] for c in "XCBA")))
    assert [strange.index(f"result {c}") for c in "ABCX"] == sorted(strange.index(f"result {c}") for c in "ABCX")


@pytest.mark.parametrize("broken", ['{"cmd": "ls", ', "[1, 2]", '"x"', "{" * 100_000, "nonsense <|im_end|>"])
def test_unparsable_arguments_in_history_are_printed_as_text(broken: str) -> None:
    """STATE-08: a poisoned history is served."""
    for frontend in (appending(), stripping()):
        poisoned = chat(user("u"), assistant("before", PastToolCall("run", broken, "c1")), result("r", "c1"))
        text = frontend.render(poisoned)
        assert f"before\n\n<tool_call>\n<function=run>\n{broken}\n</function>\n</tool_call>" in text
        assert frontend.plan_chat(poisoned).rewrite_point


@pytest.mark.parametrize("depth", [100, 400, 600, 900, 990, 1500, 5000])
def test_deep_arguments_tools_and_variables_end_in_an_answer(depth: int) -> None:
    """SAMP-06: any depth is served or refused by name, never an exception of ours."""
    text = '{"a":' * depth + "1" + "}" * depth
    nested: object = 1
    for _ in range(depth):
        nested = {"a": nested}
    raw = {"type": "function", "function": {"name": "f", "parameters": nested}}
    for attempt in (
        chat(user("u"), assistant(None, PastToolCall("f", text)), result("r")),
        chat(user("u"), tools=[ToolSpec("f", raw)]),
        chat(user("u"), note=nested),
    ):
        with contextlib.suppress(BadInput):
            assert appending().plan_chat(attempt).rewrite_point


@pytest.mark.parametrize("empty", ["", "  ", "null", "{}"])
def test_empty_arguments_are_a_call_without_arguments(empty: str) -> None:
    """TOOL-05"""
    text = appending().render(chat(user("u"), assistant(None, PastToolCall("list", empty)), result("r")))
    assert "<tool_call>\n<function=list>\n</function>\n</tool_call>" in text


@settings(max_examples=150, deadline=None, derandomize=True)
@given(conversations(), words, st.sampled_from([appending, stripping]), st.booleans())
def test_the_next_turn_agrees_up_to_the_rewrite_point(first: ChatInput, answer: str, make: object, loop: bool) -> None:
    """[D2] [D4] [D5] whatever is said next, tokens below R stay; positions are in order."""
    frontend = make()
    plan = frontend.plan_chat(first)
    assert plan.rewrite is not None
    assert 0 < plan.recovery_frontier <= plan.rewrite_point < len(plan.tokens)
    assert all(frontier >= plan.rewrite_point for frontier in plan.rewrite_execution_frontiers)
    cuts = {*plan.rewrite_execution_frontiers, plan.recovery_frontier, *plan.shared_markers, *plan.anchors}
    assert set(plan.execution_frontiers) == cuts - {len(plan.tokens)}
    between = text_of(frontend, plan.tokens.view(plan.recovery_frontier, plan.rewrite_point))
    assert between in ("", CLOSING)
    if loop:
        more = (assistant(answer, CALL, reasoning="other"), result("r", "c1"))
    else:
        more = (assistant(answer), user("next"))
    longer = frontend.plan_chat(ChatInput((*first.messages, *more), first.tools, first.template_kwargs))
    assert longer.tokens.common_prefix(plan.tokens) >= plan.rewrite_point


def test_the_cuts_of_the_mathematics_do_not_follow_the_recovery_position() -> None:
    """[D5] with and without the proof of C, the rewrite frontier stands at the same place relative to R."""
    frontend = stripping()
    proven = frontend.plan_chat(chat(user("one"), assistant("x"), user("two")))
    unproven = frontend.plan_chat(chat(user("one"), assistant("x"), user("")))
    assert proven.recovery_frontier < proven.rewrite_point
    assert unproven.recovery_frontier == unproven.rewrite_point
    offsets = [
        [frontier - plan.rewrite_point for frontier in plan.rewrite_execution_frontiers] for plan in (proven, unproven)
    ]
    assert offsets[0] == offsets[1] != []
    behind = text_of(frontend, proven.tokens.view(proven.rewrite_point, proven.rewrite_execution_frontiers[0]))
    assert behind == HEADER


def with_template(source: str) -> Frontend:
    files = read_text_files(FIXTURE_DIR)
    changed = {name: getattr(files, name) for name in files.__dataclass_fields__} | {"template": source}
    return Frontend(type(files)(**changed), IDENTITY, 4096)


PLAIN = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def test_a_template_without_control_tokens_is_cut_only_at_exact_frontiers() -> None:
    """[D4] [D13] C and R lie inside one text segment: used if the tokens end there."""
    frontend = with_template(PLAIN)
    plan = frontend.plan_chat(chat(user("the order"), assistant("x"), user("then the other")))
    whole = list(plan.tokens)
    assert all(frontier >= plan.rewrite_point for frontier in plan.rewrite_execution_frontiers)
    if plan.rewrite_point is not None:
        text = text_of(frontend, whole[: plan.rewrite_point])
        assert text.endswith("then the other\n")
        assert list(frontend.plan_text(text).tokens) == whole[: plan.rewrite_point]
        kept = text_of(frontend, whole[: plan.recovery_frontier])
        assert list(frontend.plan_text(kept).tokens) == whole[: plan.recovery_frontier]


def test_a_closing_that_differs_from_the_probes_is_no_proof() -> None:
    """[D4] a template that adds words of its own behind this user message: R, not C."""
    noted = PLAIN.replace("{{ m.content }}", "{{ m.content }}{% if m.content == 'special' %} (noted){% endif %}")
    plain, special = (with_template(noted).plan_chat(chat(user(word))) for word in ("ordinary", "special"))
    assert plain.recovery_frontier < plain.rewrite_point
    assert special.recovery_frontier == special.rewrite_point


def test_content_printed_twice_is_no_proof() -> None:
    """[D4] provenance must be unique."""
    twice = with_template(PLAIN.replace("{{ m.content }}", "{{ m.content }}{{ m.content }}"))
    plan = twice.plan_chat(chat(user("word")))
    assert plan.recovery_frontier == plan.rewrite_point


def test_a_template_that_refuses_the_probe_still_gives_a_point() -> None:
    """[D2] R at the generation header when the render without it is a prefix; otherwise no typed rewrite."""
    short = with_template("{% if messages | length > 1 %}{{ raise_exception('one only') }}{% endif %}" + PLAIN)
    plan = short.plan_chat(chat(user("word")))
    assert plan.rewrite is RewriteKind.RESPONSE_REPLAY
    assert text_of(short, plan.tokens.view(plan.rewrite_point)) == "assistant: "
    whole = with_template("{{ messages | length }}{% if add_generation_prompt %}!{% else %}?{% endif %}")
    plan = whole.plan_chat(chat(user("word")))
    assert plan.rewrite is None
    assert plan.recovery_frontier == len(plan.tokens)


def test_a_template_that_prints_a_changing_head_is_not_trusted() -> None:
    """[D2] what a new turn changes from the first character on has no point."""
    plan = with_template("{{ messages | length }} " + PLAIN).plan_chat(chat(user("word")))
    assert plan.rewrite is None


def test_late_and_repeated_system_messages_stay_in_place() -> None:
    """ANTH-01: no template exception, the order is kept, an appended turn shares the prompt before it."""
    base = [Message(Role.SYSTEM, "S"), Message(Role.DEVELOPER, "D"), user("a"), Message(Role.SYSTEM, "agents: x")]
    for frontend in (appending(), stripping()):
        plan = frontend.plan_chat(chat(*base, assistant("b"), user("c")))
        text = text_of(frontend, plan.tokens)
        assert text.startswith("<|im_start|>system\nS\n\nD<|im_end|>\n<|im_start|>user\na<|im_end|>\n")
        assert text.index("agents: x") > text.index("user\na")
        longer = frontend.plan_chat(chat(*base, assistant("b"), user("c"), assistant("d"), user("e")))
        assert longer.tokens.common_prefix(plan.tokens) >= plan.rewrite_point


def test_conversations_without_words_or_without_a_user() -> None:
    """LIMIT-06: served, or refused by name."""
    for frontend, strict in ((appending(), False), (stripping(), True)):
        with pytest.raises(BadInput) as caught:
            frontend.plan_chat(chat())
        assert caught.value.param == "messages"
        odd = [
            chat(Message(Role.SYSTEM, "only")),
            chat(assistant("only")),
            chat(Message(Role.SYSTEM, "s"), assistant(None, CALL), result("r", "c1")),
        ]
        for one in odd:
            if strict:
                with pytest.raises(BadInput, match="a user message is required") as caught:
                    frontend.plan_chat(one)
                assert caught.value.param == "messages"
            else:
                assert frontend.plan_chat(one).rewrite is RewriteKind.RESPONSE_REPLAY
        for tail in (user(""), Message(Role.USER, ()), Message(Role.USER, (TextPart(""),)), assistant(None)):
            assert len(frontend.plan_chat(chat(user("u"), assistant(None), tail)).tokens) > 0


def test_inline_reasoning_in_history_is_reasoning_and_other_markers_are_text() -> None:
    """LIMIT-07 THINK-03"""
    inline = assistant("<think>\nwhy\n</think>\n\nanswer </think> more")
    apart = assistant("answer </think> more", reasoning="why")
    in_parts = Message(Role.ASSISTANT, (TextPart("<think>why</think>answer </think> more"),))
    texts = {appending().render(chat(user("u"), one, user("v"))) for one in (inline, apart, in_parts)}
    assert len(texts) == 1
    assert "<think>\nwhy\n</think>\n\nanswer </think> more<|im_end|>" in texts.pop()


@settings(max_examples=100, derandomize=True)
@given(st.text("ab", max_size=40), st.text("ab", max_size=40))
def test_common_prefix_is_the_longest(left: str, right: str) -> None:
    length = common_prefix(left, right)
    assert left[:length] == right[:length]
    assert length in (len(left), len(right)) or left[length] != right[length]
