"""THE HEARTBEAT: one cycle, in the order of the design (J1).

Reads from top to bottom. Each step lives in a file of its own; what they share is `EngineState`.
"""

from __future__ import annotations

from ninfer.base.ids import Ticket

from .admission import Admission
from .failure import Endings
from .request import Interrupt, Phase, Request
from .room import MOST_ACTIONS, Pace
from .settle import Settlement
from .state import EngineState
from .turns import Turns


class Cycle:
    """Runs the engine one step at a time. One thread only."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.endings = Endings(state)
        self._settlement = Settlement(state, self.endings)
        self._admission = Admission(state, self.endings)
        self._turns = Turns(state, self.endings)

    def run(self) -> bool:
        """One cycle. False: nothing could be done, and nothing will change without an event (V-16)."""
        # 1. What has landed, who left, who is overdue.
        moved = self._settlement.poll()
        moved |= self._settlement.expire()

        # 2. The oldest paused request, when capacity was really released.
        if self._admission.resume_paused():
            moved = True
            self._settlement.poll()

        # 3. Residents get the permits of their next units, before anybody new can spend the room.
        granted = self._turns.grant_residents()

        # 4. Fresh requests take what is left. Who needs room made waits for it until the granted draws are under way.
        pace = Pace(0 if granted.draws else MOST_ACTIONS)
        moved |= self._admit(pace)
        moved |= self._settlement.poll()  # a context transaction may have landed meanwhile (J8)

        # 5. One compact set of draws; while the device computes them, room for a newcomer.
        moved |= self._turns.submit_draws(granted)
        if pace.has_yielded and granted.draws:
            pace = Pace()
            moved |= self._admit(pace)
        self.state.making_room = pace.has_yielded
        moved |= pace.has_yielded  # it goes on in the next cycle, which comes at once (V-16)

        # 6. One chunk of prefill or replay, of somebody whose bind has landed by now.
        moved |= self._settlement.poll()
        self._turns.grant_newcomer(granted)
        moved |= self._turns.submit_prefill(granted)

        self._count_cycle()
        return moved

    def _admit(self, pace: Pace) -> bool:
        """Fresh requests, one by one. A bind without copies is complete at once. True: somebody left the queue."""
        moved = False
        while self._admission.admit_fresh(pace):
            moved = True
            self._settlement.poll()
        return moved

    def arrive(self, request: Request) -> None:
        """A new request joins the queue."""
        assert request.phase is Phase.QUEUED
        request.order = self.state.resources.order
        self.state.requests[request.ticket] = request
        self.state.queue.arrive(request.ticket)
        self._settlement.arrive(request)

    def interrupt(self, ticket: Ticket, why: Interrupt) -> None:
        """Cancel a request, now or when its unit in flight has landed. Unknown tickets have ended already."""
        self._settlement.interrupt(ticket, why)

    @property
    def next_deadline_s(self) -> float | None:
        """When the cycle must run even if nothing else happens."""
        return self._settlement.next_deadline_s

    def _count_cycle(self) -> None:
        state = self.state
        state.counters.cycles += 1
        every = state.settings.audit_every_cycles
        if every and state.counters.cycles % every == 0:
            state.audit()
