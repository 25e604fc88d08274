"""From a trace's segments to the `InputPlan` that the engine gets: typed R, recovery frontier, markers (D2-D4, D11).

Roles decide as the frontend does by its probe. With roles and template glue: R lies before the header that opens the
reply (ResponseReplay), unless thinking stands in the open turn, which the next user message would remove: then before
the first assistant header after the last user message (TurnClosure). C is where the content before R's closing glue
ends. A prompt of unknown roles is raw input: E and P alone (D3).
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
    markers = find_markers(request.prompt)
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


def find_markers(prompt: Sequence[Segment]) -> tuple[int, ...]:
    """Explicit markers, ascending; of more than four the deepest count, as a caller would move them on."""
    ends = accumulate(segment.tokens for segment in prompt)
    marked = sorted({end for end, segment in zip(ends, prompt, strict=True) if segment.is_marked})
    return tuple(marked[-MOST_MARKERS:])
