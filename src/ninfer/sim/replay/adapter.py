"""From a trace's segments to the engine's `InputPlan`: typed R, recovery frontier, markers (D2-D4, D11, D12).

Roles decide as the frontend does by its probe. With roles and template glue: R lies before the header that opens the
reply (ResponseReplay), unless thinking stands in the open turn, which the next user message would remove: then before
the first assistant header after the last user message (TurnClosure). C is where the content before R's closing glue
ends. Explicit markers come first, then the frontend's automatic ones: the end of the last text part (of the whole
message where a tool's result stands last), and the end of the leading instructions. A prompt of unknown roles is raw
input: E and P (D3), and the end of the tools or instructions that it begins with, where these are known (D12).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import PrefixDigests
from ninfer.frontend.plan import MOST_MARKERS, InputPlan, RewriteKind

from .trace import Role, Segment, TraceRequest, tokens_of

IDENTITY = b"replay"
"""Execution identity of every replay."""

_SPOKEN = (Role.ASSISTANT, Role.THINK)
_GLUE = (Role.HEADER, Role.CLOSE)
_CONVERSED = (Role.USER, Role.TOOL, Role.CTX, *_SPOKEN)


@dataclass(frozen=True, slots=True)
class RecoveryPoint:
    """Typed R and where its state is kept; for raw input P and no R."""

    frontier: int
    rewrite: RewriteKind | None = None
    rewrite_point: int | None = None


def make_plan(request: TraceRequest) -> InputPlan:
    """Exact input of one request. Its buffers belong to the receiver."""
    tokens = IntBuffer(tokens_of(request.prompt).tobytes())
    digests = PrefixDigests(IDENTITY)
    digests.extend_to(tokens, len(tokens))
    point = find_recovery_point(request.prompt)
    markers, moving = find_markers(request.prompt)
    rewrites = () if point.rewrite_point is None else (point.rewrite_point,)
    cuts = {frontier for frontier in (*rewrites, point.frontier, *markers) if 0 < frontier < len(tokens)}
    return InputPlan(
        tokens=tokens,
        digests=digests,
        recovery_frontier=point.frontier,
        stop_token_ids=frozenset(),
        rewrite=point.rewrite,
        rewrite_point=point.rewrite_point,
        rewrite_execution_frontiers=rewrites,
        shared_markers=markers,
        moving_marker=moving,
        execution_frontiers=tuple(sorted(cuts)),
        session=request.session,
    )


def find_recovery_point(prompt: Sequence[Segment]) -> RecoveryPoint:
    """R by the roles of the messages, and C before the closing glue of the message that R follows."""
    ends = [0, *accumulate(segment.tokens for segment in prompt)]
    if any(segment.role is Role.CTX for segment in prompt):
        return RecoveryPoint(ends[-1])
    opener = len(prompt) - 1 if prompt[-1].role is Role.HEADER else len(prompt)
    users = [index for index, segment in enumerate(prompt) if segment.role is Role.USER]
    start = users[-1] + 1 if users else 0
    rewrite = RewriteKind.RESPONSE_REPLAY
    if any(segment.role is Role.THINK for segment in prompt[start:opener]):
        rewrite = RewriteKind.TURN_CLOSURE
        opener = next(index for index in range(start, opener) if prompt[index].role in _SPOKEN)
        if opener and prompt[opener - 1].role is Role.HEADER:
            opener -= 1
    content = opener
    while content and prompt[content - 1].role is Role.CLOSE:
        content -= 1
    if content and prompt[content - 1].role not in (Role.USER, Role.SYSTEM):  # only behind these is C proven (D4)
        content = opener
    return RecoveryPoint(ends[content], rewrite, ends[opener])


def find_markers(prompt: Sequence[Segment]) -> tuple[tuple[int, ...], int | None]:
    """Shared markers, ascending, and the one of them at the end of the input that nobody asked for (D12)."""
    ends = list(accumulate(segment.tokens for segment in prompt))
    asked = [end for end, segment in zip(ends, prompt, strict=True) if segment.is_marked]
    chosen = dict.fromkeys(asked[-MOST_MARKERS:])
    instructions = _find_instructions_end(prompt, ends)
    moving = None if any(segment.role is Role.CTX for segment in prompt) else _find_input_end(prompt, ends)
    for automatic in (moving, instructions):
        if automatic and len(chosen) < MOST_MARKERS:
            chosen.setdefault(automatic)
    return tuple(sorted(chosen)), moving if moving in chosen and moving not in asked else None


def _find_input_end(prompt: Sequence[Segment], ends: Sequence[int]) -> int | None:
    """Behind the last text of a user or system message, or behind the whole message of a tool; else None."""
    last = max((index for index, segment in enumerate(prompt) if segment.role not in _GLUE), default=None)
    if last is None or prompt[last].role in _SPOKEN or prompt[last].role is Role.TOOLS:
        return None
    if prompt[last].role is Role.TOOL:
        while last + 1 < len(prompt) and prompt[last + 1].role is Role.CLOSE:
            last += 1
    return ends[last]


def _find_instructions_end(prompt: Sequence[Segment], ends: Sequence[int]) -> int | None:
    """As far as the prompt is the same whatever a user says first; None without instructions and tools."""
    first = next((index for index, segment in enumerate(prompt) if segment.role in _CONVERSED), len(prompt))
    if first == len(prompt) or all(segment.role in _GLUE for segment in prompt[:first]):
        return None
    return ends[first - 1] if first else None
