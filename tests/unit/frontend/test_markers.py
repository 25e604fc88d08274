"""Where markers lie: as serialised, merged, at most four, explicit before automatic ([D11] [D12] [D13])."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_world import (
    ADD,
    LIST_TASKS,
    WRITE_FILE,
    appending,
    assistant,
    chat,
    conversations,
    result,
    stripping,
    text_of,
    user,
)

from ninfer.base.errors import BadInput
from ninfer.frontend.frontend import Frontend
from ninfer.frontend.messages import ChatInput, MarkerUse, Message, PastToolCall, Role, TextPart
from ninfer.frontend.plan import MOST_MARKERS, InputPlan

SHARED, ANCHOR = MarkerUse.SHARED, MarkerUse.ANCHOR
SYSTEM = Message(Role.SYSTEM, "You are terse.")
CALL = PastToolCall("add", '{"a": 1}', "c1")


def cut(frontend: Frontend, plan: InputPlan, frontier: int) -> tuple[str, str]:
    """Text before and behind a position."""
    return tuple(text_of(frontend, plan.tokens.view(*span)) for span in ((0, frontier), (frontier, len(plan.tokens))))


def befores(frontend: Frontend, plan: InputPlan) -> list[str]:
    return [cut(frontend, plan, frontier)[0] for frontier in plan.shared_markers]


@pytest.mark.parametrize("make", [appending, stripping])
def test_unasked_the_last_words_and_the_instructions_are_kept(make: object) -> None:
    """[D12] the last cacheable source part; instructions and tools; the first lies on the private recovery point."""
    frontend = make()
    plan = frontend.plan_chat(chat(SYSTEM, user("one"), assistant("two"), user(" three "), tools=[ADD]))
    assert plan.recovery_frontier in plan.shared_markers
    head, words = befores(frontend, plan)
    assert "You are terse." in head and '"add"' in head and "one" not in head
    assert words.endswith("three")
    assert plan.anchors == ()


@pytest.mark.parametrize("make", [appending, stripping])
def test_a_tool_round_is_kept_at_its_message_boundary(make: object) -> None:
    """[D12] also where the private point must stay before the open turn (HYB-05)."""
    frontend = make()
    plan = frontend.plan_chat(chat(user("u"), assistant(None, CALL), result("4", "c1"), tools=[ADD]))
    before, behind = cut(frontend, plan, plan.shared_markers[-1])
    assert before.endswith("<|im_end|>\n")
    assert behind.startswith("<|im_start|>assistant\n")


def test_a_call_at_the_end_is_kept_at_its_message_boundary() -> None:
    """[D12] a structured tool call uses its message boundary."""
    plan = appending().plan_chat(chat(user("u"), assistant(None, CALL), tools=[ADD]))
    before, behind = cut(appending(), plan, plan.shared_markers[-1])
    assert before.endswith("<|im_end|>\n")
    assert behind.startswith("<|im_start|>assistant\n")


@pytest.mark.parametrize("make", [appending, stripping])
def test_marked_parts_messages_and_tools_lie_where_they_are_printed(make: object) -> None:
    """[D11] [D13] end of text, end of message with its closing, behind the tool; anchors are private."""
    frontend = make()
    parts = (TextPart("first part. ", SHARED), TextPart("second part."))
    messages = (SYSTEM, Message(Role.USER, parts), assistant("done"), user("next"))
    marked = replace(messages[2], marker=ANCHOR)
    tools = (WRITE_FILE, replace(ADD, marker=SHARED), LIST_TASKS)
    plan = frontend.plan_chat(ChatInput((*messages[:2], marked, messages[3]), tools))
    tool_end, *_, part_end, last = befores(frontend, plan)
    assert '"name": "add"' in tool_end and "list_tasks" not in tool_end
    assert part_end.endswith("first part.")
    assert last.endswith("next")
    (anchor,) = plan.anchors
    before, behind = cut(frontend, plan, anchor)
    assert before.endswith("done<|im_end|>\n")
    assert behind.startswith("<|im_start|>user\nnext")
    assert {*plan.shared_markers, anchor} <= {*plan.execution_frontiers, len(plan.tokens)}


def test_a_changed_tool_behind_the_marker_leaves_it_where_it_was() -> None:
    """[D11] CACHE-08: shallower markers keep serving changed suffixes."""
    first = [replace(WRITE_FILE, marker=SHARED), ADD]
    second = [replace(WRITE_FILE, marker=SHARED), LIST_TASKS]
    plans = [appending().plan_chat(chat(user("u"), tools=tools)) for tools in (first, second)]
    at = plans[0].shared_markers[0]
    assert at == plans[1].shared_markers[0]
    assert plans[0].tokens.to_bytes(0, at) == plans[1].tokens.to_bytes(0, at)


def test_equal_positions_are_merged_and_both_uses_kept() -> None:
    """[D11] [D12] a marker on the last words coincides with the automatic one and with the recovery point."""
    marked = chat(SYSTEM, Message(Role.USER, (TextPart("u", SHARED),)))
    plan = appending().plan_chat(marked)
    assert (
        plan.shared_markers == appending().plan_chat(chat(SYSTEM, Message(Role.USER, (TextPart("u"),)))).shared_markers
    )
    anchored = appending().plan_chat(chat(SYSTEM, Message(Role.USER, (TextPart("u", ANCHOR),))))
    assert anchored.anchors == (anchored.recovery_frontier,)
    assert anchored.recovery_frontier in anchored.shared_markers


def test_four_explicit_markers_leave_no_room() -> None:
    """[D12] and a fifth is an error."""
    parts = tuple(TextPart(f"part {number}. ", SHARED) for number in range(4))
    messages = (Message(Role.USER, parts), assistant("a"), user("b"))
    plan = appending().plan_chat(chat(SYSTEM, *messages))
    assert len(plan.shared_markers) == MOST_MARKERS
    assert [text.rsplit(" ", 1)[1] for text in befores(appending(), plan)] == [f"{number}." for number in range(4)]
    with pytest.raises(BadInput, match="at most 4"):
        appending().plan_chat(chat(replace(SYSTEM, marker=SHARED), *messages))


@pytest.mark.parametrize("make", [appending, stripping])
@pytest.mark.parametrize("odd", ["\x02", "\x02\x020\x03", "\x021\x03\x02\x020"])
def test_characters_of_terminals_anywhere_change_no_place(make: object, odd: str) -> None:
    """[D12] [D13] prompts of shells come with \\x01 and \\x02; all positions are as with other characters there."""
    plans = []
    for shown in (odd, "\x05" * len(odd)):
        said = Message(Role.USER, (TextPart(f"a{shown}", SHARED), TextPart(f"{shown}b")))
        messages = (said, assistant(None, CALL), result(f"{shown}4{shown}", "c1"), assistant(f"{shown}"), user("c"))
        frontend = make()
        plan = frontend.plan_chat(chat(replace(SYSTEM, marker=ANCHOR), *messages, tools=[ADD]))
        assert befores(frontend, plan)[1].endswith(f"a{shown}")
        cuts = (*plan.shared_markers, *plan.anchors, plan.recovery_frontier)
        plans.append([len(cut(frontend, plan, at)[0]) for at in cuts])
    assert plans[0] == plans[1]


def test_what_the_template_hides_cannot_be_marked() -> None:
    """[D13] a blank part has no text of its own."""
    with pytest.raises(BadInput, match="marker"):
        appending().plan_chat(chat(Message(Role.USER, (TextPart(" \n ", SHARED), TextPart("x")))))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(conversations(), st.sampled_from([appending, stripping]))
def test_markers_change_no_token_and_are_found_again(first: ChatInput, make: object) -> None:
    """[D12] [D13] the next turn has the same tokens up to the marker behind the last words, and so up to the head."""
    frontend = make()
    plan = frontend.plan_chat(first)
    assert len(plan.shared_markers) <= 2
    places = [place for place, message in enumerate(first.messages) if message.content and str(message.content).strip()]
    for place in places[:1]:
        marked = [*first.messages]
        marked[place] = replace(marked[place], marker=SHARED)
        try:
            again = frontend.plan_chat(replace(first, messages=tuple(marked)))
        except BadInput:
            continue
        assert again.tokens == plan.tokens
        assert set(plan.shared_markers) <= set(again.shared_markers)
    longer = frontend.plan_chat(replace(first, messages=(*first.messages, assistant("ok"), user("more"))))
    for at in plan.shared_markers:
        if at <= (plan.rewrite_point or 0):
            assert plan.tokens.to_bytes(0, at) == longer.tokens.to_bytes(0, at)
