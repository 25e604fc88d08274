"""The byte plan: regions, the capacity curve, refusals with numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer.base.errors import BadInput
from ninfer.base.pools import Pool
from ninfer.config.geometry import read_geometry
from ninfer.device.layout import DeviceLayout, LayoutRequest, plan_layout

GEOMETRY = read_geometry(Path(__file__).resolve().parents[2] / "data" / "fixtures" / "dense_text")
REQUEST = LayoutRequest(
    lanes=4, max_context=1000, kv_capacity="auto", extra_state_slots=4, chunk_tokens=512, budget_bytes=None
)
PAGE = GEOMETRY.kv_page_bytes(Pool.MAIN_KV, "float32")


def plan(**changes: object) -> DeviceLayout:
    return plan_layout(GEOMETRY, "float32", replace(REQUEST, **changes))  # type: ignore[arg-type]


def fixed_bytes(layout: DeviceLayout) -> int:
    """What is needed besides pages that may be given out."""
    return layout.states.stop + layout.workspace_bytes + PAGE


def test_regions_follow_each_other_and_hold_scratch_blocks() -> None:
    """[C1] [C2] C basic slots and the extra ones; page 0 and slot 0 come on top [decision 18]."""
    layout = plan()
    assert layout.states.capacity == 8
    assert layout.states.run_ahead == 4, "one a lane, beside C2's [decision 5]"
    assert layout.states.blocks == 13
    main = layout.pools[Pool.MAIN_KV]
    assert main.offset == layout.states.stop
    assert main.block_bytes == PAGE
    assert layout.arena_bytes == main.stop
    assert main.offset % 64 == 0


def test_auto_is_the_upper_end_without_a_bound() -> None:
    """[C3] C * ceil(max_context / 64)."""
    assert plan().pools[Pool.MAIN_KV].capacity == 4 * 16
    assert plan(max_context=64).kv_capacity == 4 * 64
    assert plan(max_context=None).max_context == GEOMETRY.max_positions


def test_auto_takes_what_the_budget_holds() -> None:
    """[C2] from the start-up memory budget, within the curve."""
    whole = plan()
    budget = fixed_bytes(whole) + 20 * PAGE
    assert plan(budget_bytes=budget).pools[Pool.MAIN_KV].capacity == 20
    assert plan(budget_bytes=budget + PAGE - 1).pools[Pool.MAIN_KV].capacity == 20
    assert plan(budget_bytes=budget + 1000 * PAGE).pools[Pool.MAIN_KV].capacity == 64


def refusal(**changes: object) -> tuple[BadInput, int]:
    """The refusal of a plan, and the value that it calls the nearest legal one."""
    with pytest.raises(BadInput) as caught:
        plan(**changes)
    return caught.value, int(str(caught.value).rsplit(": ", 1)[1])


def test_a_budget_below_the_curve_is_refused_with_need_have_and_a_context_that_fits() -> None:
    """[C3] the largest one: a page more is refused."""
    budget = fixed_bytes(plan()) + 15 * PAGE
    error, nearest = refusal(budget_bytes=budget)
    need = fixed_bytes(plan()) + 16 * PAGE
    assert error.param == "max_context"
    assert f"need {need} bytes" in str(error)
    assert f"have {budget};" in str(error)
    assert plan(budget_bytes=budget, max_context=nearest).max_context == nearest < 1000
    with pytest.raises(BadInput):
        plan(budget_bytes=budget, max_context=nearest + 64)


def test_where_no_context_helps_slots_or_lanes_are_named() -> None:
    """[C2] [C3] the value named fits, the next one does not."""
    without = plan(extra_state_slots=0)
    error, slots = refusal(extra_state_slots=500, budget_bytes=fixed_bytes(without) + 17 * PAGE)
    assert error.param == "context_cache.device_state_slots"
    plan(extra_state_slots=slots, budget_bytes=fixed_bytes(without) + 17 * PAGE)
    with pytest.raises(BadInput):
        plan(extra_state_slots=slots + 1, budget_bytes=fixed_bytes(without) + 17 * PAGE)
    short = {"max_context": 64, "extra_state_slots": 0, "lanes": 8}
    budget = fixed_bytes(plan(**{**short, "lanes": 3})) + 3 * PAGE
    error, lanes = refusal(**short, budget_bytes=budget)
    assert (error.param, lanes) == ("max_concurrency", 3)
    plan(**{**short, "lanes": lanes}, budget_bytes=budget)


def test_a_memory_that_holds_nothing_says_what_the_least_would_be() -> None:
    least = plan(lanes=1, extra_state_slots=0, max_context=64)
    text = f"64 tokens of context need {least.arena_bytes + least.workspace_bytes};"
    with pytest.raises(BadInput, match=text):
        plan(budget_bytes=1000)


@pytest.mark.parametrize(("tokens", "nearest"), [(64, 1024), (15 * 64, 1024), (64 * 64 + 1, 4096), (10**9, 4096)])
def test_an_explicit_value_off_the_curve_is_refused(tokens: int, nearest: int) -> None:
    """[C3] with the nearest legal value."""
    with pytest.raises(BadInput, match=f"nearest legal value: {nearest}$") as caught:
        plan(kv_capacity=tokens)
    assert caught.value.param == "kv_capacity"
    assert plan(kv_capacity=nearest).kv_capacity == nearest


def test_an_explicit_value_is_rounded_up_to_pages() -> None:
    """[C2]"""
    assert plan(kv_capacity=1025).pools[Pool.MAIN_KV].capacity == 17


def test_an_explicit_value_that_does_not_fit_names_the_largest_that_does() -> None:
    budget = fixed_bytes(plan()) + 20 * PAGE
    with pytest.raises(BadInput, match=r"nearest legal kv_capacity: 1280$"):
        plan(kv_capacity=30 * 64, budget_bytes=budget)
    assert plan(kv_capacity=1280, budget_bytes=budget).kv_capacity == 1280


def test_more_lanes_than_pages_of_context() -> None:
    """[C3] one page a lane is the lower end for short contexts."""
    layout = plan(max_context=64, lanes=8, kv_capacity=8 * 64)
    assert layout.pools[Pool.MAIN_KV].capacity == 8
    with pytest.raises(BadInput, match=r"nearest legal value: 512$"):
        plan(max_context=64, lanes=8, kv_capacity=64)


def test_a_context_beyond_the_model_is_refused() -> None:
    with pytest.raises(BadInput, match=str(GEOMETRY.max_positions)) as caught:
        plan(max_context=GEOMETRY.max_positions + 1)
    assert caught.value.param == "max_context"


FIELDS = {
    "kv_capacity": "kv_capacity",
    "max_context": "max_context",
    "context_cache.device_state_slots": "extra_state_slots",
    "max_concurrency": "lanes",
}


def refused_field(asked: dict[str, object], budget: int | None) -> str | None:
    try:
        plan(**asked, budget_bytes=budget)
    except BadInput as error:
        return error.param
    return None


@settings(derandomize=True)
@given(
    lanes=st.integers(1, 8),
    context=st.integers(16, 4096),
    capacity=st.just("auto") | st.integers(64, 40_000),
    slots=st.integers(0, 20),
    budget=st.none() | st.integers(0, 30_000_000),
)
def test_every_plan_is_on_the_curve_and_in_the_budget(
    lanes: int, context: int, capacity: int | str, slots: int, budget: int | None
) -> None:
    """[C3] whatever is asked: a legal plan, or a refusal whose nearest legal value is not refused again."""
    asked = {"lanes": lanes, "max_context": context, "kv_capacity": capacity, "extra_state_slots": slots}
    try:
        layout = plan(**asked, budget_bytes=budget)
    except BadInput as error:
        refused, text = error, str(error)
    else:
        refused, text = None, ""
    if refused is not None:
        assert refused.param in FIELDS
        if "nearest" in text:
            asked[FIELDS[refused.param]] = int(text.rsplit(": ", 1)[1])
            assert refused_field(asked, budget) != refused.param
        else:
            assert "together" in text
        return
    pages = layout.pools[Pool.MAIN_KV].capacity
    per_request = -(-context // 64)
    assert max(per_request, lanes) <= pages <= max(lanes, lanes * per_request)
    if capacity != "auto":
        assert pages == -(-int(capacity) // 64)
    if budget is not None:
        assert layout.arena_bytes + layout.workspace_bytes <= budget
    regions = [layout.states, *layout.pools.values()]
    assert all(one.stop <= other.offset for one, other in pairwise(regions))
