"""What an engine takes of a machine's memory: device plan, host tier, weights, and the words for it (C2, C3).

Knows options, geometry and how many bytes there are. Allocates nothing, imports no torch: `ninfer inspect` plans too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ninfer.base.errors import BadInput
from ninfer.base.pools import PAGE_TOKENS, Pool
from ninfer.config.geometry import ELEMENT_BYTES, ModelGeometry, NumericFormat
from ninfer.config.options import EngineOptions

from .layout import DeviceLayout, LayoutRequest, least_bytes, plan_layout

HOST_DEFAULT_BYTES = 8 << 30
HOST_DEFAULT_IMAGES = 8
"""The default host tier: 8 GiB and 8 StateImages (C2)."""
_HOST_SHARE = 0.25
"""Of memory that both sides share, what `kv_capacity` auto leaves to a host tier nobody asked for."""
_HOST = "context_cache.host_capacity_bytes"


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Bytes an engine may take beside its weights; None: not known. `shared`: both sides come out of `device_bytes`,
    as on a CPU."""

    device_bytes: int | None = None
    host_bytes: int | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    """Every byte of an engine that is planned. `notes`: what differs from what was asked or from the defaults, and
    why."""

    layout: DeviceLayout
    weight_bytes: int
    host_bytes: int
    notes: tuple[str, ...] = ()

    @property
    def backend_bytes(self) -> int:
        """KV pools beside the Main one."""
        return sum(region.region_bytes for pool, region in self.layout.pools.items() if pool is not Pool.MAIN_KV)

    @property
    def device_bytes(self) -> int:
        """Weights, arena and workspace."""
        return self.weight_bytes + self.layout.arena_bytes + self.layout.workspace_bytes

    def report(self) -> dict[str, object]:
        """The plan for programs: `ninfer inspect --json` and the engine's description."""
        layout = self.layout
        return {
            "lanes": layout.lanes,
            "max_context": layout.max_context,
            "kv_capacity": layout.kv_capacity,
            "kv_dtype": layout.kv_format,
            "page_tokens": PAGE_TOKENS,
            "pages": {pool.value: region.capacity for pool, region in layout.pools.items()},
            "state_slots": layout.states.capacity,
            "run_ahead_slots": layout.states.run_ahead,
            "weight_bytes": self.weight_bytes,
            "main_kv_bytes": layout.pools[Pool.MAIN_KV].region_bytes,
            "backend_kv_bytes": self.backend_bytes,
            "states_bytes": layout.states.region_bytes,
            "arena_bytes": layout.arena_bytes,
            "workspace_bytes": layout.workspace_bytes,
            "device_bytes": self.device_bytes,
            "host_bytes": self.host_bytes,
        }

    def list_lines(self) -> list[str]:
        """The plan for people, every byte of it; what differs from what was asked gets a line of its own."""
        layout, states = self.layout, self.layout.states
        main = layout.pools[Pool.MAIN_KV]
        parts = (
            f"weights {self.weight_bytes:,}",
            f"main KV {main.region_bytes:,} ({main.capacity} pages)",
            f"backend KV {self.backend_bytes:,}",
            f"states {states.region_bytes:,} ({states.capacity} slots, {states.run_ahead} run-ahead)",
            f"workspace {layout.workspace_bytes:,}",
        )
        total = f"bytes on the device: {' + '.join(parts)} = {self.device_bytes:,}; on the host: {self.host_bytes:,}"
        return [total, *self.notes]


def plan_capacity(
    geometry: ModelGeometry, numeric_format: NumericFormat, options: EngineOptions, budget: MemoryBudget
) -> CapacityPlan:
    """Raises BadInput with need, have and the nearest legal value."""
    request = LayoutRequest(
        lanes=options.max_concurrency,
        max_context=options.max_context,
        kv_capacity=options.kv_capacity,
        extra_state_slots=options.extra_state_slots,
        chunk_tokens=options.prefill_chunk_tokens,
        budget_bytes=budget.device_bytes,
        kv_dtype=options.kv_dtype,
    )
    asked = options.context_cache.host_capacity_bytes
    image_bytes = geometry.state_bytes(numeric_format)
    if asked is not None and 0 < asked < image_bytes:
        raise BadInput(
            f"{_HOST}: need {image_bytes} bytes for one StateImage, have {asked}; nearest legal values: 0 (no host "
            f"tier) and {image_bytes}",
            param=_HOST,
        )
    least = least_bytes(geometry, numeric_format, request) if budget.shared else 0
    layout = plan_layout(geometry, numeric_format, _leave_room(request, budget, asked, least))
    host_room = budget.host_bytes
    if budget.shared and budget.device_bytes is not None:
        host_room = budget.device_bytes - layout.arena_bytes - layout.workspace_bytes
    if asked is None:
        host_bytes, notes = _default_host(image_bytes, host_room)
    else:
        host_bytes, notes = asked, ()
        if host_room is not None and asked > host_room:
            raise _host_does_not_fit(asked, host_room, image_bytes)
    notes = (*_note_rounding(options.kv_capacity, layout.kv_capacity), *notes)
    return CapacityPlan(layout, weight_bytes(geometry, numeric_format), host_bytes, notes)


def weight_bytes(geometry: ModelGeometry, numeric_format: NumericFormat) -> int:
    """Weights of text model and MTP layers in the model's format."""
    return (geometry.text_parameters + geometry.mtp_parameters) * ELEMENT_BYTES[numeric_format]


def _note_rounding(asked: int | str, kv_capacity: int) -> tuple[str, ...]:
    """A number of tokens that is no whole number of pages is rounded up (C2), and said."""
    if asked in ("auto", kv_capacity):
        return ()
    return (f"kv_capacity {asked} is rounded up to {kv_capacity}: pages hold {PAGE_TOKENS} tokens",)


def _leave_room(request: LayoutRequest, budget: MemoryBudget, asked: int | None, least: int) -> LayoutRequest:
    """With shared memory the pools leave to the host tier what was asked for, or a share; never less than they need."""
    if not budget.shared or request.budget_bytes is None:
        return request
    wanted = int(_HOST_SHARE * request.budget_bytes) if asked is None else asked
    if request.kv_capacity != "auto":
        return request  # a number is kept; whether the host tier fits beside it is asked afterwards
    room = request.budget_bytes - wanted
    return replace(request, budget_bytes=max(room, min(least, request.budget_bytes)))


def _default_host(image_bytes: int, room: int | None) -> tuple[int, tuple[str, ...]]:
    """C2's default, or what there is; less than one StateImage is no host tier."""
    wanted = HOST_DEFAULT_BYTES + HOST_DEFAULT_IMAGES * image_bytes
    if room is None or room >= wanted:
        return wanted, ()
    host_bytes = room if room >= image_bytes else 0
    return host_bytes, (
        f"{_HOST} is {host_bytes:,} instead of the default {wanted:,}: the machine leaves {max(room, 0):,} bytes "
        "beside the model",
    )


def _host_does_not_fit(asked: int, room: int, image_bytes: int) -> BadInput:
    nearest = room if room >= image_bytes else 0
    return BadInput(
        f"{_HOST}: need {asked} bytes, have {max(room, 0)} beside the model; nearest legal value: {nearest}",
        param=_HOST,
    )
