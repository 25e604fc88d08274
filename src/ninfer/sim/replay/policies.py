"""Policies to compare: ours, the same save points with victims by last use alone, and none at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import assert_never

from ninfer.ports.native import DeleteAction, NativeProgram
from ninfer.program.program import Program
from ninfer.resource.manager import ResourceManager
from ninfer.resource.ranking import Action, Facts, Ranked
from ninfer.resource.retention import Retention
from ninfer.resource.room import RoomMaker
from ninfer.resource.sources import CostModel


class Policy(Enum):
    """The values are those of `--policy`."""

    OURS = "ours"
    LRU = "lru"
    ROOT = "root"


def make_resources(policy: Policy, costs: CostModel, lanes: int) -> Callable[[Program], ResourceManager]:
    """The resource manager of a policy, for any Program."""
    match policy:
        case Policy.OURS:
            return lambda program: ResourceManager(program, costs, lane_count=lanes)
        case Policy.LRU:
            return lambda program: LruResources(program, costs, lane_count=lanes)
        case Policy.ROOT:
            return lambda program: ResourceManager(program, costs, keeps_points=False, lane_count=lanes)
        case _:
            assert_never(policy)


class LruFacts(Facts):
    """No classes and no losses: what its conversation has left behind goes first, then what was used longest ago."""

    def assess(self, action: Action, useful: int, victims: tuple[DeleteAction, ...] = ()) -> Ranked:
        """Equal losses for the same release, so that last use decides; none where nothing is lost."""
        known = super().assess(action, useful, victims)
        loss_tokens = useful if known.loss_tokens else 0
        return replace(known, retention=Retention.ORDINARY, loss_tokens=loss_tokens, demand_at=0)


class LruRoom(RoomMaker):
    """Room by last use."""

    def _find_facts(self) -> Facts:
        facts = super()._find_facts()
        return LruFacts(facts.holders, facts.loss_of)


class LruResources(ResourceManager):
    """Our save points in the same pools, victims by last use alone."""

    def __init__(self, program: NativeProgram, costs: CostModel, *, lane_count: int) -> None:
        super().__init__(program, costs, lane_count=lane_count)
        self._room = LruRoom(lambda: self._program, self._keeping, self._losses, lane_count)
