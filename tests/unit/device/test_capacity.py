"""What an engine takes of a machine: host tier beside the pools, refusals, the report of every byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer.base.errors import BadInput
from ninfer.base.pools import Pool
from ninfer.config.geometry import read_geometry
from ninfer.config.options import ContextCacheOptions, EngineOptions
from ninfer.device.capacity import CapacityPlan, MemoryBudget, plan_capacity

GEOMETRY = read_geometry(Path(__file__).resolve().parents[2] / "data" / "fixtures" / "dense_text")
IMAGE = GEOMETRY.state_bytes("float32")
DEFAULT = (8 << 30) + 8 * IMAGE
NAME = "context_cache.host_capacity_bytes"


def plan(budget: MemoryBudget | None = None, host: int | None = None, **options: Any) -> CapacityPlan:
    cache = ContextCacheOptions(host_capacity_bytes=host)
    options.setdefault("max_context", 512)
    chosen = EngineOptions(model_dir=Path(), context_cache=cache, **options)
    return plan_capacity(GEOMETRY, "float32", chosen, budget or MemoryBudget())


def least_bytes(**options: Any) -> int:
    layout = plan(kv_capacity=512, **options).layout
    return layout.arena_bytes + layout.workspace_bytes


def test_the_default_host_tier_is_eight_gib_and_eight_images() -> None:
    """[C2]"""
    assert plan().host_bytes == DEFAULT
    assert plan(MemoryBudget(1 << 30, 1 << 40)).host_bytes == DEFAULT
    assert plan().notes == ()


def test_a_machine_with_less_gets_less_and_is_told_why() -> None:
    """[C2] the default is no demand: it shrinks, and below one StateImage there is none."""
    reduced = plan(MemoryBudget(1 << 30, 5 << 20))
    assert reduced.host_bytes == 5 << 20
    (note,) = reduced.notes
    assert note == reduced.list_lines()[-1]
    assert f"{5 << 20:,} instead of the default {DEFAULT:,}" in note
    assert plan(MemoryBudget(1 << 30, IMAGE - 1)).host_bytes == 0


def test_a_capacity_between_pages_is_rounded_up_and_said() -> None:
    """[C2]"""
    rounded = plan(kv_capacity=1000)
    assert rounded.layout.kv_capacity == 1024
    assert rounded.notes == ("kv_capacity 1000 is rounded up to 1024: pages hold 64 tokens",)
    assert plan(kv_capacity=1024).notes == ()


@pytest.mark.parametrize("host", [1, IMAGE - 1])
def test_a_host_tier_below_one_image_is_refused(host: int) -> None:
    """[issue B bad input] need, have and the nearest legal values; 0 and one image are legal [M7]."""
    with pytest.raises(
        BadInput, match=f"need {IMAGE} .* have {host}; nearest legal values: 0 .* and {IMAGE}$"
    ) as error:
        plan(host=host)
    assert error.value.param == NAME
    assert plan(host=0).host_bytes == 0
    assert plan(host=IMAGE).host_bytes == IMAGE


@pytest.mark.parametrize("shared", [False, True])
def test_a_host_tier_beyond_the_memory_is_refused_with_the_largest_that_fits(shared: bool) -> None:
    """[C2] what was asked for is kept or refused, never reduced."""
    room = least_bytes() + (3 << 20)
    budget = MemoryBudget(room, shared=True) if shared else MemoryBudget(1 << 30, 3 << 20)
    with pytest.raises(BadInput, match=f"need {9 << 20} bytes, have {3 << 20} .*: {3 << 20}$") as error:
        plan(budget, host=9 << 20)
    assert error.value.param == NAME
    assert plan(budget, host=3 << 20).host_bytes == 3 << 20


def test_shared_memory_is_spent_once() -> None:
    """[C2] [C3] on a CPU pools, workspace and host tier come out of one budget."""
    budget = least_bytes() + (1 << 20)
    small = plan(MemoryBudget(budget, shared=True))
    assert small.layout.arena_bytes + small.layout.workspace_bytes + small.host_bytes <= budget
    assert small.host_bytes >= 1 << 19
    asked = plan(MemoryBudget(budget, shared=True), host=1 << 19)
    assert asked.host_bytes == 1 << 19
    assert asked.layout.kv_capacity > small.layout.kv_capacity or asked.layout.kv_capacity == 4 * 512


def test_a_host_tier_nobody_asked_for_takes_nothing_the_pools_need() -> None:
    """[decision 12]"""
    tight = plan(MemoryBudget(least_bytes(), shared=True))
    assert tight.layout.kv_capacity == 512
    assert tight.host_bytes == 0
    assert len(tight.notes) == 1
    chosen = plan(MemoryBudget(least_bytes() + 100, shared=True), kv_capacity=512)
    assert chosen.host_bytes == 0


@settings(derandomize=True, max_examples=150)
@given(
    room=st.integers(0, 40_000_000),
    host=st.none() | st.integers(0, 30_000_000),
    capacity=st.just("auto") | st.integers(64, 2048),
    lanes=st.integers(1, 8),
)
def test_whatever_is_asked_the_plan_fits_or_is_refused_with_a_value_that_does_not_fail_again(
    room: int, host: int | None, capacity: Any, lanes: int
) -> None:
    """[C2] [C3]"""
    budget = MemoryBudget(room, shared=True)
    options: dict[str, Any] = {"kv_capacity": capacity, "max_concurrency": lanes}
    try:
        made = plan(budget, host, **options)
    except BadInput as error:
        refused = error
    else:
        assert made.layout.arena_bytes + made.layout.workspace_bytes + made.host_bytes <= room
        assert host is None or made.host_bytes == host
        return
    assert refused.param in {"kv_capacity", "max_context", "max_concurrency", NAME}
    if refused.param == NAME and "nearest legal value:" in str(refused):
        nearest = int(str(refused).rsplit(": ", 1)[1])
        assert plan(budget, nearest, **options).host_bytes == nearest


def test_the_report_accounts_for_every_byte() -> None:
    """[C1] [C2] each part is a number of its own, and they add up."""
    made = plan()
    report = made.report()
    main, states = made.layout.pools[Pool.MAIN_KV], made.layout.states
    assert report["main_kv_bytes"] == main.blocks * main.block_bytes
    assert report["states_bytes"] == (1 + 8 + 4) * IMAGE == states.region_bytes
    parts = [report[name] for name in ("weight_bytes", "main_kv_bytes", "backend_kv_bytes", "states_bytes")]
    assert sum(int(str(part)) for part in [*parts, report["workspace_bytes"]]) == report["device_bytes"]
    assert report["arena_bytes"] == int(str(report["main_kv_bytes"])) + int(str(report["states_bytes"]))
    (line,) = made.list_lines()
    for name in ("weight_bytes", "main_kv_bytes", "states_bytes", "workspace_bytes", "device_bytes", "host_bytes"):
        assert f"{report[name]:,}" in line
