"""`InputPlan`: all the engine gets to know about a prompt (B1). Frozen, exact, in tokens."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import MediaSpan, PrefixDigests

MOST_MARKERS = 4
"""Shared markers of one request, and private anchors of one record (D1, D11)."""


class RewriteKind(Enum):
    """Why a later request may differ from this one behind `rewrite_point` (D2)."""

    RESPONSE_REPLAY = "response_replay"
    """Only the current assistant response may be rewritten: R stands just before it."""
    TURN_CLOSURE = "turn_closure"
    """A new user turn rewrites the open turn: R stands before its first assistant message."""


@dataclass(frozen=True, slots=True)
class ThoughtEnd:
    """How an open thought ends: `mark` is the one token that tells the end, `token_ids` all that is said with it."""

    token_ids: tuple[int, ...]
    mark: int

    def __post_init__(self) -> None:
        assert self.mark in self.token_ids


@dataclass(frozen=True, slots=True)
class InputPlan:
    """Exact input of one request. The buffers belong to the receiver and may grow behind the prompt.

    `rewrite_point`: R in tokens, or None for raw input. `recovery_frontier`: where input state is kept: C, R, or P
    for raw input (D3, D4). `execution_frontiers`: ascending positions in (0, prompt) where the mathematics is cut
    (settled decision 6): the rewrite frontiers of D5, the recovery frontier, markers and anchors. `shared_markers`,
    `anchors`: ascending positions in (0, prompt], at most four each, offered for saving in order (D1, D11).
    `moving_marker`: the one of these at the end of the input, kept unasked; the next turn's replaces it.
    `positions`: int32 [3 * tokens], axis-major, or None when all three axes equal the index. `opens_thinking`: the
    prompt ends inside an open think block; `thought_end`: how that is closed, where the model has a token for it.
    """

    tokens: IntBuffer
    digests: PrefixDigests
    recovery_frontier: int
    stop_token_ids: frozenset[int]
    rewrite: RewriteKind | None = None
    rewrite_point: int | None = None
    rewrite_execution_frontiers: tuple[int, ...] = ()
    shared_markers: tuple[int, ...] = ()
    moving_marker: int | None = None
    anchors: tuple[int, ...] = ()
    execution_frontiers: tuple[int, ...] = ()
    session: str | None = None
    media: tuple[MediaSpan, ...] = ()
    positions: IntBuffer | None = None
    rope_delta: int = 0
    opens_thinking: bool = False
    thought_end: ThoughtEnd | None = None

    def __post_init__(self) -> None:
        prompt = len(self.tokens)
        assert 0 <= self.recovery_frontier <= prompt
        assert self.rewrite_point is None or self.recovery_frontier <= self.rewrite_point <= prompt
        assert list(self.execution_frontiers) == sorted(set(self.execution_frontiers))
        assert all(0 < frontier < prompt for frontier in self.execution_frontiers)
        assert self.moving_marker is None or self.moving_marker in self.shared_markers
        for kept in (self.shared_markers, self.anchors):
            assert list(kept) == sorted(set(kept)) and len(kept) <= MOST_MARKERS
            assert all(at == prompt or at in self.execution_frontiers for at in kept), "D5: a marker without its cut"
