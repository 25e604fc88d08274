"""The true Program and admission with counters: saves and their yield, evictions by class, planning time.

Watches and changes nothing.
"""

from __future__ import annotations

from collections import Counter

from ninfer.base.clock import Clock
from ninfer.base.ids import Handle, LaneId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts
from ninfer.engine.admission import Admission, Outcome
from ninfer.engine.failure import Endings
from ninfer.engine.request import Phase, Request
from ninfer.engine.state import EngineState
from ninfer.ports.native import Bound, DeleteAction, PrefillDone, Progress, Prompt, SourceQuote
from ninfer.program.program import Program


class CountedProgram(Program):
    """Counts what is saved, what of it is ever started from, and what is evicted."""

    saved = 0
    """Points that were kept: captures and endpoints."""
    _adopted: set[Handle]
    evictions: Counter[str]
    """By what the point was and whether anybody had ever started from it."""

    def watch(self) -> None:
        """Begin to count."""
        self._adopted = set()
        self.evictions = Counter()

    @property
    def yielded(self) -> int:
        """Points that were kept and from which at least one request started."""
        return len(self._adopted)

    def bind(self, quote: SourceQuote, prompt: Prompt, lane: LaneId) -> Bound | Shortfall:
        """Notes the source."""
        bound = super().bind(quote, prompt, lane)
        if isinstance(bound, Bound) and quote.checkpoint is not None:
            self._adopted.add(quote.checkpoint)
        return bound

    def poll(self) -> list[Progress]:
        """Counts captures that landed."""
        progress = super().poll()
        self.saved += sum(len(done.captured) for done in progress if isinstance(done, PrefillDone))
        return progress

    def freeze_end(self, sequence: Handle) -> Handle:
        """Counts endpoints."""
        self.saved += 1
        return super().freeze_end(sequence)

    def delete(self, action: DeleteAction) -> Amounts:
        """Counts evictions."""
        for point in action.points:
            used = "used" if point in self._adopted else "never_used"
            self.evictions[f"{self._stores.checkpoints[point].kind.value}_{used}"] += 1
        return super().delete(action)


class TimedAdmission(Admission):
    """Admission by the machine's clock: choosing a source, planning reclaim and binding, for each attempt."""

    def __init__(self, state: EngineState, endings: Endings, clock: Clock) -> None:
        super().__init__(state, endings)
        self._clock = clock
        self.attempts_s: list[float] = []

    def _try(self, request: Request) -> Outcome:
        is_fresh = request.phase is Phase.QUEUED
        start_s = self._clock.now()
        outcome = super()._try(request)
        if is_fresh:
            self.attempts_s.append(self._clock.now() - start_s)
        return outcome
