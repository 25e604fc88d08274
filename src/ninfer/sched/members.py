"""The C lanes and who sits on them."""

from __future__ import annotations

from ninfer.base.ids import LaneId, Ticket


class Members:
    """Residents by lane. A lane is a label: it says nothing about what its resident may run (A1)."""

    __slots__ = ("_free", "_lanes", "_seats")

    def __init__(self, lane_count: int) -> None:
        self._lanes = lane_count
        self._free = [LaneId(lane) for lane in range(lane_count)]
        self._seats: dict[Ticket, LaneId] = {}

    def __len__(self) -> int:
        return len(self._seats)

    def __contains__(self, ticket: Ticket) -> bool:
        return ticket in self._seats

    @property
    def lane_count(self) -> int:
        """C."""
        return self._lanes

    @property
    def has_free_lane(self) -> bool:
        """Whether someone could take a seat."""
        return bool(self._free)

    def peek_lane(self) -> LaneId:
        """The lane the next resident gets."""
        return self._free[0]

    def seat(self, ticket: Ticket) -> LaneId:
        """Take the lowest free lane."""
        assert ticket not in self._seats
        lane = self._free.pop(0)
        self._seats[ticket] = lane
        return lane

    def vacate(self, ticket: Ticket) -> None:
        """Give the lane back."""
        self._free.append(self._seats.pop(ticket))
        self._free.sort()

    def by_ticket(self) -> list[Ticket]:
        """Residents, oldest first."""
        return sorted(self._seats)

    def audit(self) -> None:
        """Every lane is free or taken once."""
        assert sorted([*self._free, *self._seats.values()]) == list(range(self._lanes)), "lanes differ"
