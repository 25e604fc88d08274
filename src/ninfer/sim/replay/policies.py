"""Policies to compare: ours, the same save points in the source's order or by last use alone, and none at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import assert_never

from ninfer.ports.native import DeleteAction, NativeProgram
from ninfer.program.program import Program
from ninfer.resource.manager import ResourceManager
from ninfer.resource.ranking import Action, Columns, Facts, Ranked, Vector, order_of_source
from ninfer.resource.retention import Retention
from ninfer.resource.room import RoomMaker
from ninfer.resource.sources import CostModel
from ninfer.resource.uses import Uses


class Policy(Enum):
    """The values are those of `--policy`."""

    OURS = "ours"
    SOURCE = "source"
    LRU = "lru"
    ROOT = "root"


def make_resources(policy: Policy, costs: CostModel, lanes: int) -> Callable[[Program], ResourceManager]:
    """The resource manager of a policy, for any Program."""
    match policy:
        case Policy.OURS:
            return lambda program: ResourceManager(program, costs, lane_count=lanes)
        case Policy.SOURCE:
            return lambda program: ResourceManager(program, costs, lane_count=lanes, key_of=order_of_source)
        case Policy.LRU:
            return lambda program: LruResources(program, costs, lane_count=lanes)
        case Policy.ROOT:
            return lambda program: ResourceManager(program, costs, keeps_points=False, lane_count=lanes)
        case _:
            assert_never(policy)


class LruFacts(Facts):
    """No classes and no losses: what its conversation has left behind goes first, then what was used longest ago."""

    def assess(self, action: Action, useful: int, victims: tuple[DeleteAction, ...] = ()) -> Ranked:
        """Equal losses, so that last use decides; none where nothing is lost."""
        known = super().assess(action, useful, victims)
        return replace(known, retention=Retention.ORDINARY, loss_tokens=int(known.loss_tokens > 0), demand_at=0)


def order_of_use(columns: Columns, _now: Uses) -> tuple[Vector, ...]:
    """What nothing is lost with, then what was used longest ago."""
    return columns.loss_tokens, columns.last_used


class LruRoom(RoomMaker):
    """Room by last use."""

    facts_type = LruFacts


class LruResources(ResourceManager):
    """Our save points in the same pools, victims by last use alone."""

    def __init__(self, program: NativeProgram, costs: CostModel, *, lane_count: int) -> None:
        super().__init__(program, costs, lane_count=lane_count)
        self._room = LruRoom(lambda: self._program, self._keeping, self._losses, lane_count, order_of_use)
