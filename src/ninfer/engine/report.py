"""The engine in figures: one frozen moment, made on the control thread, read anywhere (N1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from ninfer.base.pools import Amounts, Pool

from .state import EngineState


@dataclass(frozen=True, slots=True)
class PoolUse:
    """Occupancy of one pool: slots, pages or bytes. `reserved`: promised and not filled yet; neither free nor held."""

    pool: Pool
    capacity: int
    free: int
    reserved: int

    @property
    def held(self) -> int:
        """What has content."""
        return self.capacity - self.free - self.reserved


@dataclass(frozen=True, slots=True)
class EngineReport:
    """`counters`: totals since the start by name. `points`: restore points kept, by the highest class of their owners.

    `footprints`: what these points hold, each cell once, in the higher class; running requests may share it.
    """

    counters: Mapping[str, int]
    pools: tuple[PoolUse, ...]
    points: Mapping[str, int]
    footprints: Mapping[str, Amounts]
    records: int


EMPTY_REPORT = EngineReport({}, (), {}, {}, 0)
"""Of an engine that has not said anything yet."""


def make_report(state: EngineState) -> EngineReport:
    """Control thread only. Costs a walk over the records, so it is made when somebody asks."""
    occupancy = state.program.occupancy()
    totals = (state.counters, state.transfers)
    classes = state.resources.list_classes()
    footprints = state.program.list_footprints(list(classes.values()))
    return EngineReport(
        counters={field.name: getattr(each, field.name) for each in totals for field in fields(each)},
        pools=tuple(
            PoolUse(pool, capacity, occupancy.free[pool], occupancy.reserved[pool])
            for pool, capacity in occupancy.capacity.items()
        ),
        points={each.name.lower(): len(points) for each, points in classes.items()},
        footprints={each.name.lower(): held for each, held in zip(classes, footprints, strict=True)},
        records=state.resources.facts().records,
    )
