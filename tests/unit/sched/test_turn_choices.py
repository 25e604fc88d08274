"""Choices about turns: pure over tickets (C7, J4, J5, J7)."""

from __future__ import annotations

from ninfer.base.ids import Ticket
from ninfer.sched.members import Members
from ninfer.sched.permits import find_victim, may_preempt, order_of_asking
from ninfer.sched.rotation import PrefillRotation


def tickets(*numbers: int) -> list[Ticket]:
    return [Ticket(number) for number in numbers]


def test_the_full_permit_holder_asks_first_then_the_oldest() -> None:
    """[C7]"""
    assert order_of_asking(tickets(5, 2, 9), None) == tickets(2, 5, 9)
    assert order_of_asking(tickets(5, 2, 9), Ticket(9)) == tickets(9, 2, 5)


def test_only_younger_and_unprotected_residents_give_way_youngest_first() -> None:
    """[J4]"""
    residents = tickets(1, 4, 6, 8)
    assert find_victim(Ticket(4), residents, frozenset()) == 8
    assert find_victim(Ticket(4), residents, frozenset(tickets(8))) == 6
    assert find_victim(Ticket(8), residents, frozenset()) is None
    assert find_victim(Ticket(6), residents, frozenset(tickets(8))) is None


def test_a_paused_request_preempts_only_when_nobody_older_is_resident() -> None:
    """[J5]"""
    assert may_preempt(Ticket(3), tickets(4, 9))
    assert not may_preempt(Ticket(3), tickets(2, 9))
    assert may_preempt(Ticket(3), [])


def test_prefills_take_turns_and_a_newcomer_waits_one_round_at_most() -> None:
    """[J7], SCHED-06"""
    rotation = PrefillRotation()
    order = []
    for ready in (tickets(1, 2), tickets(1, 2), tickets(1, 2, 3), tickets(1, 2, 3), tickets(1, 2, 3)):
        chosen = rotation.list_turns(ready)[0]
        rotation.note_turn(chosen)
        order.append(chosen)
    assert order == tickets(1, 2, 3, 1, 2)


def test_a_recovering_request_leads_the_rotation() -> None:
    """[J6]"""
    rotation = PrefillRotation()
    rotation.note_turn(Ticket(1))
    assert rotation.list_turns(tickets(1, 2, 3), Ticket(1)) == tickets(1, 2, 3)
    assert rotation.list_turns(tickets(1, 2, 3)) == tickets(2, 3, 1)


def test_lanes_are_taken_lowest_first_and_given_back() -> None:
    """[A1]"""
    members = Members(2)
    assert members.seat(Ticket(7)) == 0
    assert members.seat(Ticket(5)) == 1
    assert not members.has_free_lane
    assert members.by_ticket() == tickets(5, 7)
    members.vacate(Ticket(7))
    assert members.peek_lane() == 0
    members.audit()
