"""The byte plan of a device: where every pool lies, how many blocks it has. Plans only, allocates nothing.

Knows geometry, options and a memory budget. Page 0 and slot 0 of every pool are scratch, outside capacity; so are the
slots of launches that run ahead.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from ninfer.base.errors import BadInput
from ninfer.base.frontier import pages_for
from ninfer.base.pools import PAGE_TOKENS, Pool
from ninfer.config.geometry import ELEMENT_BYTES, KvFormat, ModelGeometry, NumericFormat


@dataclass(frozen=True, slots=True)
class Region:
    """`blocks` equal blocks from `offset` in the arena: the scratch block first, `run_ahead` ones last."""

    offset: int
    blocks: int
    block_bytes: int
    run_ahead: int = 0
    """State slots of launches that run ahead of their commit: one a lane, workspace, beside C2's (decision 5)."""

    @property
    def stop(self) -> int:
        return self.offset + self.blocks * self.block_bytes

    @property
    def region_bytes(self) -> int:
        return self.blocks * self.block_bytes

    @property
    def capacity(self) -> int:
        """Blocks that may be given out."""
        return self.blocks - 1 - self.run_ahead

    def block_offset(self, block: int) -> int:
        """Where a block begins in the arena."""
        return self.offset + block * self.block_bytes


@dataclass(frozen=True, slots=True)
class LayoutRequest:
    """What the plan must serve. `budget_bytes` bounds arena and workspace together; None: no bound is known."""

    lanes: int
    max_context: int | None
    kv_capacity: int | Literal["auto"]
    extra_state_slots: int
    chunk_tokens: int
    budget_bytes: int | None
    kv_dtype: Literal["auto", "fp8", "int8"] = "auto"

    def kv_format(self, numeric_format: NumericFormat) -> KvFormat:
        """Of Main pages, in a model of this format."""
        return numeric_format if self.kv_dtype == "auto" else self.kv_dtype


@dataclass(frozen=True, slots=True)
class DeviceLayout:
    """The plan. KV pages are one contiguous block [layers, K/V, kv_heads, 64 tokens] each; a StateImage is one
    contiguous block of recurrent matrices, conv columns and tail hidden row, in the order of `state_sections`."""

    numeric_format: NumericFormat
    kv_format: KvFormat
    """Of Main pages; pages of other pools are in the model's format."""
    lanes: int
    max_context: int
    states: Region
    pools: dict[Pool, Region]
    arena_bytes: int
    workspace_bytes: int
    """Estimate of the largest activations alive at once; allocated while computing, not in the arena."""

    @property
    def kv_capacity(self) -> int:
        """Tokens of the main pool."""
        return self.pools[Pool.MAIN_KV].capacity * PAGE_TOKENS


def plan_layout(geometry: ModelGeometry, numeric_format: NumericFormat, request: LayoutRequest) -> DeviceLayout:
    """Raises BadInput with need, have and the nearest legal value (C1-C3)."""
    max_context = _choose_context(geometry, request.max_context)
    least, most = capacity_curve(request.lanes, max_context)
    kv_format = request.kv_format(numeric_format)
    page_bytes = geometry.kv_page_bytes(Pool.MAIN_KV, kv_format)
    states = _plan_states(geometry, numeric_format, request)
    workspace = _workspace_bytes(geometry, numeric_format, kv_format, request.chunk_tokens, max_context)
    fitting = None
    if request.budget_bytes is not None:
        fitting = (request.budget_bytes - workspace - states.stop) // page_bytes - 1
    pages = _choose_pages(request.kv_capacity, least, most, fitting)
    if fitting is not None and pages > fitting:
        need = states.stop + workspace + (1 + pages) * page_bytes
        raise _does_not_fit(geometry, numeric_format, replace(request, max_context=max_context), need, fitting)
    main = Region(states.stop, 1 + pages, page_bytes)
    pools = {Pool.MAIN_KV: main}
    return DeviceLayout(numeric_format, kv_format, request.lanes, max_context, states, pools, main.stop, workspace)


def capacity_curve(lanes: int, max_context: int) -> tuple[int, int]:
    """Least and most Main pages (C3): one request at full context and one page a lane; all lanes at full context."""
    return max(pages_for(max_context), lanes), lanes * pages_for(max_context)


def least_bytes(geometry: ModelGeometry, numeric_format: NumericFormat, request: LayoutRequest) -> int:
    """Arena and workspace at the lower end of the curve."""
    least = replace(request, budget_bytes=None)
    max_context = _choose_context(geometry, request.max_context)
    pages, _ = capacity_curve(request.lanes, max_context)
    layout = plan_layout(geometry, numeric_format, replace(least, kv_capacity=pages * PAGE_TOKENS))
    return layout.arena_bytes + layout.workspace_bytes


def _plan_states(geometry: ModelGeometry, numeric_format: NumericFormat, request: LayoutRequest) -> Region:
    blocks = 1 + request.lanes + request.extra_state_slots + request.lanes
    return Region(0, blocks, geometry.state_bytes(numeric_format), run_ahead=request.lanes)


def _choose_context(geometry: ModelGeometry, max_context: int | None) -> int:
    limit = geometry.max_positions
    if max_context is not None and max_context > limit:
        raise BadInput(
            f"max_context {max_context} exceeds the model's limit of {limit} tokens; nearest legal value: {limit}",
            param="max_context",
        )
    return limit if max_context is None else max_context


def _choose_pages(kv_capacity: int | Literal["auto"], least: int, most: int, fitting: int | None) -> int:
    """A point of the capacity curve [least, most] (C3); whether it fits the memory is the caller's question."""
    if kv_capacity == "auto":
        return most if fitting is None else max(least, min(most, fitting))
    pages = pages_for(kv_capacity)
    if least <= pages <= most:
        return pages
    nearest = (least if pages < least else most) * PAGE_TOKENS
    raise BadInput(
        f"kv_capacity {kv_capacity} ({pages} pages) is off the capacity curve: {least * PAGE_TOKENS} to "
        f"{most * PAGE_TOKENS} tokens ({least} to {most} pages) with these max_context and max_concurrency; "
        f"nearest legal value: {nearest}",
        param="kv_capacity",
    )


def _does_not_fit(
    geometry: ModelGeometry, numeric_format: NumericFormat, request: LayoutRequest, need_bytes: int, fitting: int
) -> BadInput:
    """Names the one option that, lowered alone, makes the plan fit, and its largest value that does."""
    assert request.max_context is not None
    least, _ = capacity_curve(request.lanes, request.max_context)
    text = f"device memory: need {need_bytes} bytes for KV pages, states and workspace, have {request.budget_bytes}"
    if fitting >= least:
        return BadInput(f"{text}; nearest legal kv_capacity: {fitting * PAGE_TOKENS}", param="kv_capacity")
    lowest = replace(request, kv_capacity="auto")

    def fits(**lowered: int) -> bool:
        needed = least_bytes(geometry, numeric_format, replace(lowest, **lowered))  # type: ignore[arg-type]
        return needed <= (request.budget_bytes or 0)

    pages = _find_most(request.max_context // PAGE_TOKENS, lambda count: fits(max_context=count * PAGE_TOKENS))
    if pages:
        return BadInput(f"{text}; nearest legal max_context: {pages * PAGE_TOKENS}", param="max_context")
    if fits(extra_state_slots=0):
        name = "context_cache.device_state_slots"
        slots = _find_most(request.extra_state_slots, lambda count: fits(extra_state_slots=count))
        return BadInput(f"{text}; nearest legal {name}: {slots}", param=name)
    lanes = _find_most(request.lanes, lambda count: fits(lanes=count))
    if lanes:
        return BadInput(f"{text}; nearest legal max_concurrency: {lanes}", param="max_concurrency")
    smallest = replace(lowest, lanes=1, extra_state_slots=0, max_context=min(PAGE_TOKENS, request.max_context))
    needed = least_bytes(geometry, numeric_format, smallest)
    return BadInput(
        f"{text}; one lane without extra state slots and {smallest.max_context} tokens of context need {needed}; "
        "lower max_context, max_concurrency and context_cache.device_state_slots together",
        param="max_context",
    )


def _find_most(most: int, holds: Callable[[int], bool]) -> int:
    """The largest count in [1, most] that holds, 0 if none does; what holds for a count holds for every smaller one."""
    return bisect_left(range(1, most + 1), True, key=lambda count: not holds(count))


def _workspace_bytes(
    geometry: ModelGeometry, numeric_format: NumericFormat, kv_format: KvFormat, chunk_tokens: int, max_context: int
) -> int:
    """Activations of one prefill chunk: widest projections, gathered keys and values, attention mask, logits."""
    gdn, attention = geometry.gdn, geometry.attention
    tokens, element = min(chunk_tokens, max_context), ELEMENT_BYTES[numeric_format]
    mlp = 2 * geometry.mlp_inner if geometry.moe is None else 2 * geometry.moe.inner * geometry.moe.top_k
    gdn_width = 3 * gdn.conv_channels + 4 * gdn.value_width
    widths = 4 * geometry.hidden + max(mlp, gdn_width, 6 * attention.heads * attention.head_dim)
    gathered = 2 * attention.kv_heads * attention.head_dim * max_context
    rounded = 0 if kv_format in ELEMENT_BYTES else gathered * (1 + 4)  # as they lie, and in FP32 times their scales
    return element * (tokens * widths + gathered + tokens * max_context) + rounded + 8 * 4 * geometry.vocab_rows
