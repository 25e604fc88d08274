"""Why a request could not start deeper: what matched, what was there, what went and why (settled decision 14)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable

from ninfer.base.pools import PAGE_TOKENS
from ninfer.ports.output import LossReport

from .continuation import Continuation, History
from .demand import Position, position_at

REMEMBERED_ENDS = 1024
"""How many ended points a report can name."""

MATCHED_RECORDS = 64
"""How many records, the most recently used first, a report compares with."""

REMEMBERED_PROMPTS = 16
"""How many earlier prompts it compares with besides, whatever became of their points."""


class LossMemory:
    """Positions whose points ended, with the reason. Digests only; decides nothing."""

    __slots__ = ("_ends", "_prompts")

    def __init__(self) -> None:
        self._ends: OrderedDict[bytes, tuple[Position, str]] = OrderedDict()
        self._prompts: deque[History] = deque(maxlen=REMEMBERED_PROMPTS)

    def note_prompt(self, history: History) -> None:
        """A request started with this prompt."""
        self._prompts.append(history)

    def note(self, position: Position, reason: str) -> None:
        """A point there ended."""
        self._ends[position.digest] = position, reason
        self._ends.move_to_end(position.digest)
        if len(self._ends) > REMEMBERED_ENDS:
            self._ends.popitem(last=False)

    def explain(
        self, history: History, limit: int, deepest_point: int, chosen: int, records: Iterable[Continuation]
    ) -> LossReport:
        """The report for a request that starts at `chosen`."""
        recent = sorted(records, key=lambda record: -record.last_used)[:MATCHED_RECORDS]
        matched = [(record, record.history.match(history.tokens, history.digests)) for record in recent]
        earlier = (prompt.match(history.tokens, history.digests) for prompt in self._prompts if prompt is not history)
        match = min(limit, max((*(found for _, found in matched), *earlier), default=0))
        kept = (min(found, max(record.frontiers.values(), default=0)) for record, found in matched)
        deepest_kv = min(limit, max(kept, default=0))
        reason = "none"
        if chosen < deepest_point:
            reason = "cheaper_source_chosen"
        elif chosen < max(match, deepest_point) or chosen < limit:
            ended = self._find_ended(history, chosen, limit)
            if ended is not None:
                match, reason = max(match, ended[0].frontier), ended[1]
            elif chosen < match:
                reason = "no_point_at_match"
        return LossReport(
            deepest_token_match=max(match, deepest_point),
            deepest_point=deepest_point,
            chosen_point=chosen,
            reason=reason,
            deepest_kv=max(deepest_kv, deepest_point),
        )

    def _find_ended(self, history: History, chosen: int, limit: int) -> tuple[Position, str] | None:
        """The deepest ended point on this prefix behind the start."""
        for pages in range(min(limit // PAGE_TOKENS, history.digests.pages), chosen // PAGE_TOKENS - 1, -1):
            known = self._ends.get(history.digests.at_page(pages))
            if known is None or not chosen < known[0].frontier <= limit:
                continue
            if position_at(history.tokens, history.digests, known[0].frontier) == known[0]:
                return known
        return None
