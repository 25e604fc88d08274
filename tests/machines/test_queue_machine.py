"""The waiting queue against plain lists: order, overtaking, one attempt per capacity event ([J2], [J9], V-10)."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from machine_profile import machine_settings

from ninfer.base.ids import Ticket
from ninfer.sched.queue import WaitingQueue

LANES = 2


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = WaitingQueue(most_passes=LANES)
        self.passes: dict[Ticket, int] = {}
        self.fresh: list[Ticket] = []
        self.paused: list[Ticket] = []
        self.running: list[Ticket] = []
        self.barred: set[Ticket] = set()
        self.next_ticket = 0

    @rule()
    def arrive(self) -> None:
        ticket = Ticket(self.next_ticket)
        self.next_ticket += 1
        self.queue.arrive(ticket)
        self.fresh.append(ticket)

    @precondition(lambda self: self.queue.find_fresh() is not None)
    @rule()
    def start(self) -> None:
        ticket = self.queue.find_fresh()
        assert ticket is not None
        self.queue.start(ticket)
        for older in self.fresh[: self.fresh.index(ticket)]:
            self.passes[older] = self.passes.get(older, 0) + 1
            assert self.passes[older] <= LANES, "V-10"
        self.fresh.remove(ticket)
        self.running.append(ticket)

    @precondition(lambda self: self.queue.find_paused() is not None)
    @rule()
    def resume(self) -> None:
        ticket = self.queue.find_paused()
        assert ticket is not None
        self.queue.start(ticket)
        self.paused.remove(ticket)
        self.running.append(ticket)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def pause(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(self.running))
        self.running.remove(ticket)
        self.queue.pause(ticket)
        self.paused.append(ticket)
        self.barred = {ticket}  # room for the others, none for itself

    @precondition(lambda self: self.fresh or self.paused)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(self.fresh + self.paused))
        self.queue.leave(ticket)
        (self.fresh if ticket in self.fresh else self.paused).remove(ticket)
        self.barred.discard(ticket)

    @rule()
    def fail_the_heads(self) -> None:
        for ticket in (self.queue.find_fresh(), self.queue.find_paused()):
            if ticket is not None:
                self.queue.note_failure(ticket)
                self.barred.add(ticket)

    @rule()
    def release(self) -> None:
        self.queue.note_capacity()
        self.barred.clear()

    @invariant()
    def agrees(self) -> None:
        self.queue.audit()
        assert len(self.queue) == len(self.fresh) + len(self.paused)
        assert list(self.queue) == sorted(self.paused) + self.fresh
        assert self.queue.find_fresh() == self.next_of_scan()
        assert all(self.queue.count_passes(ticket) == self.passes.get(ticket, 0) for ticket in self.fresh)
        assert self.queue.find_paused() == self.head(sorted(self.paused))

    def next_of_scan(self) -> Ticket | None:
        untried = [ticket for ticket in self.fresh[: LANES + 1] if ticket not in self.barred]
        if not untried:
            return None
        passed = self.fresh[: self.fresh.index(untried[0])]
        return None if any(self.passes.get(older, 0) == LANES for older in passed) else untried[0]

    def head(self, waiting: list[Ticket]) -> Ticket | None:
        return waiting[0] if waiting and waiting[0] not in self.barred else None


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = machine_settings(60, 40)
