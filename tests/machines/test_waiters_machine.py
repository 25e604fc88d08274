"""Wait holds against a dictionary: who keeps what, who is told when nobody keeps it any more ([G6] [G7] [G9])."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from machine_profile import machine_settings

from ninfer.base.ids import Handle, Ticket
from ninfer.resource.continuation import Use
from ninfer.resource.waiters import Waiters, WaitHold

tickets = st.integers(0, 5).map(Ticket)
points = st.integers(0, 4).map(lambda number: Handle(number, 0))


class WaitersMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.waiters = Waiters()
        self.kept: dict[Ticket, set[Handle]] = {}
        self.revoked: set[Ticket] = set()

    def kept_points(self) -> set[Handle]:
        return set().union(*self.kept.values())

    @rule(ticket=tickets, point=points, carried=st.lists(points, max_size=2))
    def keep(self, ticket: Ticket, point: Handle, carried: list[Handle]) -> None:
        before = self.kept.pop(ticket, set())
        self.kept[ticket] = {point, *carried}
        self.revoked.discard(ticket)
        dropped = self.waiters.keep(WaitHold(ticket, point, tuple((one, frozenset({Use.INPUT})) for one in carried)))
        assert set(dropped) == before - self.kept_points()

    @rule(ticket=tickets)
    def release(self, ticket: Ticket) -> None:
        before = self.kept.pop(ticket, set())
        self.revoked.discard(ticket)
        assert set(self.waiters.release(ticket)) == before - self.kept_points()

    @rule(ticket=tickets)
    def revoke(self, ticket: Ticket) -> None:
        if ticket in self.kept:
            before = self.kept.pop(ticket)
            self.revoked.add(ticket)
            assert set(self.waiters.revoke(ticket)) == before - self.kept_points()

    @rule()
    def choose_again(self) -> None:
        assert self.waiters.take_revoked() == sorted(self.revoked)
        self.revoked.clear()

    @rule(without=st.frozensets(tickets))
    def look(self, without: frozenset[Ticket]) -> None:
        others = (kept for ticket, kept in self.kept.items() if ticket not in without)
        assert self.waiters.list_kept(without) == set().union(*others)

    @invariant()
    def is_sound(self) -> None:
        self.waiters.audit(frozenset(self.kept_points()), frozenset(self.kept))
        assert self.waiters.list_tickets() == sorted(self.kept, reverse=True)
        for point in self.kept_points():
            assert self.waiters.list_holders(point) == sorted(t for t, kept in self.kept.items() if point in kept)


TestWaitersMachine = WaitersMachine.TestCase
TestWaitersMachine.settings = machine_settings(60, 30)
