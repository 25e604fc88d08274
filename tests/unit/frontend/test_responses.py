"""Stored and new input of a Responses conversation: one chat, the policy at its end, nothing added to what is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_world import ADD, appending, assistant, chat, result, stripping, user

from ninfer.base.errors import BadInput
from ninfer.frontend.frontend import Frontend
from ninfer.frontend.messages import MarkerUse, Message, PastToolCall, Role, TextPart
from ninfer.frontend.plan import MOST_MARKERS, InputPlan
from ninfer.frontend.responses import StoredResponse, expand_responses

SHARED = MarkerUse.SHARED
words = st.sampled_from(["one", "two words", "Ünï 💥", " spaced ", "a\nb"])
markers = st.sampled_from([None, None, SHARED, MarkerUse.ANCHOR])


@st.composite
def inputs(draw: st.DrawFn) -> tuple[Message, ...]:
    """The new input of one turn."""
    parts = st.builds(TextPart, words, markers)
    content = draw(st.one_of(words, st.lists(parts, min_size=1, max_size=2).map(tuple)))
    return (Message(Role.USER, content, marker=draw(st.none() | st.just(SHARED))),)


@st.composite
def answers(draw: st.DrawFn, number: int) -> tuple[Message, ...]:
    """An answer in items: thinking, text, calls."""
    items: list[Message] = []
    if draw(st.booleans()):
        items.append(assistant(None, reasoning=draw(words)))
    if draw(st.booleans()):
        items.append(assistant(draw(words)))
    calls = [PastToolCall("add", '{"a": 1}', f"c{number}.{n}") for n in range(draw(st.integers(0, 2)))]
    items += [assistant(None, call) for call in calls]
    return tuple(items) or (assistant("yes"),)


@st.composite
def stores(draw: st.DrawFn) -> dict[str, StoredResponse]:
    """A line of stored responses, each behind the one before."""
    stored: dict[str, StoredResponse] = {}
    previous = None
    pending: tuple[Message, ...] = ()
    for number in range(draw(st.integers(0, 5))):
        answer = draw(answers(number))
        name = f"resp_{number}"
        stored[name] = StoredResponse(name, previous, (*pending, *draw(inputs())), answer)
        pending = tuple(result("4", call.id) for message in answer for call in message.tool_calls)
        previous = name
    return stored


def last_of(stored: dict[str, StoredResponse]) -> str | None:
    return f"resp_{len(stored) - 1}" if stored else None


def bare(message: Message) -> Message:
    content = message.content
    if isinstance(content, tuple):
        content = tuple(TextPart(part.text) for part in content)
    return replace(message, content=content, marker=None)


def uses_in(messages: tuple[Message, ...]) -> list[MarkerUse]:
    """All markers, in order."""
    found = []
    for message in messages:
        if isinstance(message.content, tuple):
            found += [part.marker for part in message.content]
        found.append(message.marker)
    return [use for use in found if use is not None]


@settings(derandomize=True, max_examples=60, deadline=None)
@given(stores(), inputs(), st.none() | words)
def test_what_is_stored_is_what_was_said(
    stored: dict[str, StoredResponse], new: tuple[Message, ...], instructions: str | None
) -> None:
    """[D12]: no instructions, no marker of ours, and nothing stored before is changed."""
    before = dict(stored)
    expanded = expand_responses(stored, last_of(stored), new, instructions=instructions)
    assert expanded.given == new
    assert stored == before
    again = expand_responses(stored, last_of(stored), new, instructions=instructions)
    assert again == expanded, "a function of its input"


@settings(derandomize=True, max_examples=60, deadline=None)
@given(stores(), inputs(), inputs(), answers(9))
def test_a_turn_is_the_beginning_of_the_next(
    stored: dict[str, StoredResponse],
    new: tuple[Message, ...],
    later: tuple[Message, ...],
    answer: tuple[Message, ...],
) -> None:
    """[D12]: with the same instructions the next turn's chat begins with this one's, markers aside."""
    first = expand_responses(stored, last_of(stored), new, instructions="Be brief.")
    store = {**stored, "next": StoredResponse("next", last_of(stored), first.given, answer)}
    second = expand_responses(store, "next", later, instructions="Be brief.")
    said = [bare(message) for message in first.chat.messages]
    assert [bare(message) for message in second.chat.messages][: len(said)] == said
    assert bare(second.chat.messages[-1]) == bare(later[-1])


@settings(derandomize=True, max_examples=60, deadline=None)
@given(stores(), inputs())
def test_the_newest_markers_stay(stored: dict[str, StoredResponse], new: tuple[Message, ...]) -> None:
    """[D11]: at most four of each use over all turns: a long history never becomes an error, and the new ones stay."""
    expanded = expand_responses(stored, last_of(stored), new)
    everything = tuple(m for turn in stored.values() for m in (*turn.given, *turn.answer)) + new
    for use in MarkerUse:
        kept, said = uses_in(expanded.chat.messages).count(use), uses_in(everything).count(use)
        assert kept == min(MOST_MARKERS, said)
    assert uses_in(expanded.chat.messages[-1:]) == uses_in(new)


def frontiers(plan: InputPlan) -> tuple[object, ...]:
    return bytes(plan.tokens.view(0, len(plan.tokens))), plan.shared_markers, plan.moving_marker, plan.anchors


@pytest.mark.parametrize("make", [appending, stripping])
@settings(derandomize=True, max_examples=25, deadline=None)
@given(stored=stores(), new=inputs())
def test_the_policy_is_that_of_a_chat_that_says_the_same(
    make: object, stored: dict[str, StoredResponse], new: tuple[Message, ...]
) -> None:
    """[D12]: applied to the whole after expansion; the automatic marker is at the end of the new input."""
    frontend: Frontend = make()  # type: ignore[operator]
    expanded = expand_responses(stored, last_of(stored), new, tools=(ADD,))
    same = chat(*expanded.chat.messages, tools=[ADD])
    plan = frontend.plan_chat(expanded.chat)
    assert frontiers(plan) == frontiers(frontend.plan_chat(same))
    if uses_in(expanded.chat.messages).count(SHARED) < MOST_MARKERS - 1:
        assert plan.shared_markers, "room for the automatic ones"
    assert len(plan.shared_markers) <= MOST_MARKERS


def test_items_of_one_answer_are_one_message() -> None:
    """[D12]: thinking, text and calls come as items; a template has one message of the assistant."""
    one, two = (PastToolCall("add", "{}", name) for name in ("c1", "c2"))
    stored = StoredResponse(
        "r", None, (user("u"),), (assistant(None, reasoning="hm"), assistant("so"), assistant(None, one, two))
    )
    new = [result("1", "c1"), result("2", "c2")]
    messages = expand_responses({"r": stored}, "r", new).chat.messages
    assert messages == (user("u"), assistant("so", one, two, reasoning="hm"), *new)


@pytest.mark.parametrize(
    ("previous", "new", "field"),
    [
        ("nothing", "hi", "previous_response_id"),
        ("loop", "hi", "previous_response_id"),
        (None, "", "input"),
        (None, (), "input"),
        (None, (Message(Role.USER, tuple(TextPart("a", SHARED) for _ in range(5))),), "input"),
    ],
)
def test_what_cannot_be_expanded_is_refused_by_field(previous: str | None, new: object, field: str) -> None:
    """Bad input: named, and nothing is guessed."""
    loop = StoredResponse("loop", "loop", (user("u"),), (assistant("a"),))
    with pytest.raises(BadInput) as refused:
        expand_responses({"loop": loop}, previous, new)  # type: ignore[arg-type]
    assert refused.value.param == field


def test_text_is_a_user_message_and_instructions_lead() -> None:
    """[D12]: instructions are of one request and are not stored."""
    expanded = expand_responses({}, None, "hi", instructions="Be brief.")
    assert expanded.chat.messages == (Message(Role.DEVELOPER, "Be brief."), user("hi"))
    assert expanded.given == (user("hi"),)
