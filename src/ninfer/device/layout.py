"""The byte plan of a device: where every pool lies, how many blocks it has. Plans only, allocates nothing.

Knows geometry, options and a memory budget. Page 0 and slot 0 of every pool are scratch, outside capacity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ninfer.base.errors import BadInput
from ninfer.base.frontier import pages_for
from ninfer.base.pools import PAGE_TOKENS, Pool
from ninfer.config.geometry import ELEMENT_BYTES, ModelGeometry, NumericFormat


@dataclass(frozen=True, slots=True)
class Region:
    """`blocks` equal blocks from `offset` in the arena, scratch block included."""

    offset: int
    blocks: int
    block_bytes: int

    @property
    def stop(self) -> int:
        return self.offset + self.blocks * self.block_bytes

    @property
    def capacity(self) -> int:
        """Blocks that may be given out."""
        return self.blocks - 1

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


@dataclass(frozen=True, slots=True)
class DeviceLayout:
    """The plan. KV pages are one contiguous block [layers, K/V, kv_heads, 64, head_dim] each; a StateImage is one
    contiguous block of recurrent matrices, conv columns and tail hidden row, in the order of `state_sections`."""

    numeric_format: NumericFormat
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
    state_bytes = geometry.state_bytes(numeric_format)
    page_bytes = geometry.kv_page_bytes(Pool.MAIN_KV, numeric_format)
    states = Region(0, 1 + request.lanes + request.extra_state_slots, state_bytes)
    workspace = _workspace_bytes(geometry, numeric_format, request.chunk_tokens, max_context)
    room = None if request.budget_bytes is None else request.budget_bytes - workspace - states.stop
    fitting = None if room is None else room // page_bytes - 1
    least = max(pages_for(max_context), request.lanes)
    pages = _choose_pages(request.kv_capacity, least, request.lanes * pages_for(max_context), fitting)
    if fitting is not None and pages > fitting:
        assert request.budget_bytes is not None
        raise _does_not_fit(pages, least, fitting, page_bytes, states.stop + workspace, request)
    main = Region(states.stop, 1 + pages, page_bytes)
    return DeviceLayout(numeric_format, request.lanes, max_context, states, {Pool.MAIN_KV: main}, main.stop, workspace)


def _choose_context(geometry: ModelGeometry, max_context: int | None) -> int:
    limit = geometry.max_positions
    if max_context is not None and max_context > limit:
        raise BadInput(f"max_context {max_context} exceeds the model's limit of {limit} tokens", param="max_context")
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
    pages: int, least: int, fitting: int, page_bytes: int, fixed_bytes: int, request: LayoutRequest
) -> BadInput:
    need = fixed_bytes + (1 + pages) * page_bytes
    text = f"device memory: need {need} bytes for {pages} KV pages, states and workspace, have {request.budget_bytes}"
    if fitting >= least:
        return BadInput(f"{text}; nearest legal kv_capacity: {fitting * PAGE_TOKENS}", param="kv_capacity")
    context = max(fitting, 0) * PAGE_TOKENS
    if fitting >= request.lanes and context >= PAGE_TOKENS:
        return BadInput(f"{text}; nearest legal max_context: {context}", param="max_context")
    return BadInput(f"{text}; lower max_context, max_concurrency or device_state_slots", param="max_context")


def _workspace_bytes(
    geometry: ModelGeometry, numeric_format: NumericFormat, chunk_tokens: int, max_context: int
) -> int:
    """Activations of one prefill chunk: widest projections, gathered keys and values, attention mask, logits."""
    gdn, attention = geometry.gdn, geometry.attention
    tokens, element = min(chunk_tokens, max_context), ELEMENT_BYTES[numeric_format]
    mlp = 2 * geometry.mlp_inner if geometry.moe is None else 2 * geometry.moe.inner * geometry.moe.top_k
    gdn_width = 3 * gdn.conv_channels + 4 * gdn.value_width
    widths = 4 * geometry.hidden + max(mlp, gdn_width, 6 * attention.heads * attention.head_dim)
    gathered = 2 * attention.kv_heads * attention.head_dim * max_context
    return element * (tokens * widths + gathered + tokens * max_context) + 8 * 4 * geometry.vocab_rows
