"""From segments to input plans: typed R, where its state is kept, and markers, as the frontend would say."""

from __future__ import annotations

from itertools import accumulate

from ninfer.frontend.plan import RewriteKind
from ninfer.sim.replay.adapter import find_markers, find_recovery_point, make_plan
from ninfer.sim.replay.trace import Role, Segment, TraceRequest

GLUE = {Role.HEADER: 4, Role.CLOSE: 2}


def prompt(*words: str) -> list[Segment]:
    """Roles in order; a star marks the end. Bodies have 100 tokens."""
    roles = [(Role(word.rstrip("*")), word.endswith("*")) for word in words]
    return [Segment(role, 50 + at, 0, GLUE.get(role, 100), marked) for at, (role, marked) in enumerate(roles)]


def end_of(segments: list[Segment], count: int) -> int:
    """Tokens of the first `count` segments."""
    return list(accumulate((segment.tokens for segment in segments), initial=0))[count]


ASKED = ("tools", "sys*", "hdr", "user", "close", "hdr")
CALLED = ("tools", "sys*", "hdr", "user", "close", "hdr", "think", "asst", "close", "hdr", "tool", "close", "hdr")


def test_an_answer_that_may_be_rewritten_starts_at_its_header() -> None:
    """[D2] [D3] [D4]: R lies before the header; behind a user's words C is where they end."""
    segments = prompt(*ASKED)
    point = find_recovery_point(segments)
    assert point.rewrite is RewriteKind.RESPONSE_REPLAY
    assert point.rewrite_point == end_of(segments, 5)
    assert point.frontier == end_of(segments, 4)


def test_thinking_in_the_open_turn_moves_r_to_its_beginning() -> None:
    """[D2]: the next user message removes it, so that nothing behind the turn's first answer is safe."""
    segments = prompt(*CALLED)
    point = find_recovery_point(segments)
    assert point.rewrite is RewriteKind.TURN_CLOSURE
    assert point.rewrite_point == end_of(segments, 5)
    assert point.frontier == end_of(segments, 4)


def test_a_tool_result_is_followed_by_r_itself() -> None:
    """[D4]: only behind user, system and developer messages is C proven."""
    segments = prompt(*(word for word in CALLED if word != "think"))
    point = find_recovery_point(segments)
    assert point.rewrite is RewriteKind.RESPONSE_REPLAY
    assert point.frontier == point.rewrite_point == end_of(segments, 11)


def test_thinking_of_a_closed_turn_changes_nothing() -> None:
    segments = prompt(*CALLED[:-1], "hdr", "asst", "close", "hdr", "user", "close", "hdr")
    assert find_recovery_point(segments).rewrite is RewriteKind.RESPONSE_REPLAY


def test_unknown_roles_are_raw_input() -> None:
    """[D3] [D12]: P is where a raw prompt is kept; of what is known of it the end of the tools is marked unasked."""
    segments = prompt("ctx", "ctx", "ctx")
    point = find_recovery_point(segments)
    assert (point.rewrite, point.rewrite_point, point.frontier) == (None, None, 300)
    assert find_markers(segments) == ((), None)
    segments = prompt("tools", "ctx", "ctx")
    assert find_recovery_point(segments).frontier == 300
    assert find_markers(segments) == ((end_of(segments, 1),), None)


def test_markers_are_the_callers_and_the_frontends_own() -> None:
    """[D11] [D12]: the end of the input moves on with the conversation, the instructions' end stays."""
    segments = prompt(*ASKED)
    shared, moving = find_markers(segments)
    assert moving == end_of(segments, 4)
    assert shared == (end_of(segments, 2), end_of(segments, 3), end_of(segments, 4))
    segments = prompt(*CALLED)
    _, moving = find_markers(segments)
    assert moving == end_of(segments, 12)


def test_four_explicit_markers_leave_no_room() -> None:
    """[D12]: none is added, and of five the deepest four count."""
    segments = prompt("tools*", "sys*", "user*", "asst", "user*", "asst", "user*", "asst", "user")
    shared, moving = find_markers(segments)
    assert moving is None
    assert shared == tuple(end_of(segments, count) for count in (2, 3, 5, 7))


def test_a_marker_asked_for_at_the_end_does_not_move() -> None:
    segments = prompt("sys", "user*")
    assert find_markers(segments) == ((100, 200), None)


def test_the_plan_cuts_where_something_is_kept() -> None:
    """[D5]: every marker and the recovery frontier are execution frontiers, or the end."""
    segments = prompt(*ASKED)
    request = TraceRequest(0, 0, "s", 0, None, 0.0, 0.0, "", tuple(segments), (Segment(Role.ASSISTANT, 1, 0, 3),))
    plan = make_plan(request)
    assert len(plan.tokens) == request.prompt_tokens
    assert plan.digests.pages == request.prompt_tokens // 64
    assert set(plan.shared_markers) | {plan.recovery_frontier} <= set(plan.execution_frontiers)
    assert plan.session == "s"
