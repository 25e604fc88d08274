"""Nominal order: arrivals, starts and finishes as the timeline says, without a clock (`--order nominal`).

A request is submitted when it arrives and waits for its lane like any other. At its start it is admitted and its prompt
prefilled; one that does not fit after legal reclaim is put off to the next finish. At a finish its reply is appended
and it ends. A finish whose prompt is not prefilled yet, and an arrival whose parent has not ended, wait for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import assert_never

from ninfer.engine.request import Phase

from .timeline import What, nominal_order
from .trace import Trace
from .world import Ran, ReplayWorld

_MOST_STEPS = 100_000
"""Cycles for one moment; more would be an engine that moves without end."""


class NominalDriver:
    """Plays one trace."""

    def __init__(self, world: ReplayWorld, trace: Trace) -> None:
        self._world = world
        self._trace = trace
        self._ran: dict[int, Ran] = {}
        self._living: dict[int, Ran] = {}
        self._due: set[int] = set()
        """Requests whose finish has come."""
        self._put_off: list[int] = []
        """Arrivals that wait for the end of their parent."""
        self.deferred = 0
        """Starts whose prompt could not be prefilled at once."""

    def run(self, note: Callable[[int], None]) -> list[Ran]:
        """Everything, in order of the trace. `note`: how many requests have ended, after each moment."""
        for moment in nominal_order(self._trace.requests, self._world.settings.lanes):
            match moment.what:
                case What.ARRIVAL:
                    self._put_off.append(moment.index)
                    self._submit_ready()
                case What.START:
                    self.deferred += moment.index not in self._living or not self._is_prefilled(moment.index)
                case What.FINISH:
                    self._due.add(moment.index)
                    self._finish_due()
                case _:
                    assert_never(moment.what)
            note(len(self._ran) - len(self._living))
        assert not self._living and not self._put_off, "a request of the trace never ended"
        return [self._ran[index] for index in range(len(self._trace.requests))]

    def _submit_ready(self) -> None:
        """Submit whoever need not wait for a parent, and go on as far as there are lanes and room."""
        waiting, self._put_off = self._put_off, []
        for index in waiting:
            request = self._trace.requests[index]
            if request.parent is not None and (request.parent not in self._ran or request.parent in self._living):
                self._put_off.append(index)
                continue
            ran = self._world.submit(request)
            self._world.held.add(ran.ticket)
            self._ran[index] = self._living[index] = ran
        self._settle()

    def _finish_due(self) -> None:
        """End every request whose finish has come and whose prompt is done; each end is a chance for those put off."""
        while (index := next(self._list_endable(), None)) is not None:
            self._due.remove(index)
            self._world.held.discard(self._living[index].ticket)
            self._settle()
            assert index not in self._living, f"request {index} draws without end"
            self._submit_ready()

    def _list_endable(self) -> Iterator[int]:
        return (index for index in sorted(self._due) if index in self._living and self._is_prefilled(index))

    def _is_prefilled(self, index: int) -> bool:
        request = self._world.find(self._living[index])
        return request is not None and request.phase is Phase.DECODE

    def _settle(self) -> None:
        """Cycles until nothing moves, and who ended is noted."""
        for _ in range(_MOST_STEPS):
            if not self._world.step() and not self._world.state.has_work_in_flight:
                break
        else:
            raise AssertionError("the engine moves without end")
        for index, ran in list(self._living.items()):
            if ran.has_ended:
                if ran.error is not None:
                    raise ran.error
                self._world.forget(ran)
                del self._living[index]
