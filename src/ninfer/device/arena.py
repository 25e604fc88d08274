"""One allocation for all pools of a device, and the typed views into it."""

from __future__ import annotations

import torch
from torch import Tensor

from ninfer.base.pools import PAGE_TOKENS, Pool
from ninfer.config.geometry import ModelGeometry
from ninfer.kernels.paged_attention import KvPool, split_blocks
from ninfer.models.passes import Memory, StateViews

from .formats import KV_DTYPES, TORCH_DTYPES
from .layout import DeviceLayout


class Arena:
    """Memory is taken but not touched: pages and slots that nobody writes cost nothing.

    `images`: uint8 [slots, state_bytes], whole StateImages. `kv`: per pool [pages, layers, 2, Hk, 64, D], and
    `kv_scales` where its numbers have scales: [pages, layers, 2, Hk, 64].
    """

    def __init__(self, geometry: ModelGeometry, layout: DeviceLayout, device: torch.device | None = None) -> None:
        self._bytes = torch.empty(layout.arena_bytes, dtype=torch.uint8, device=device)
        dtype = TORCH_DTYPES[layout.numeric_format]
        states = layout.states
        self.images = self._bytes[states.offset : states.stop].view(states.blocks, states.block_bytes)
        self.states = _state_views(self.images, geometry, layout, dtype)
        self.kv: dict[Pool, Tensor] = {}
        self.kv_scales: dict[Pool, Tensor] = {}
        self._pools: dict[Pool, KvPool] = {}
        for pool, region in layout.pools.items():
            self._view_pool(pool, self._bytes[region.offset : region.stop], region.blocks, geometry, layout)

    @property
    def raw(self) -> Tensor:
        """The whole arena, uint8."""
        return self._bytes

    def memory(self, pool: Pool) -> Memory:
        """What a forward pass over one KV pool may write."""
        return Memory(self._pools[pool], self.states)

    def clear_state(self, slot: int) -> None:
        """Make a slot the empty state."""
        self.images[slot].zero_()

    def _view_pool(
        self, pool: Pool, memory: Tensor, blocks: int, geometry: ModelGeometry, layout: DeviceLayout
    ) -> None:
        layers = geometry.full_layers if pool is Pool.MAIN_KV else geometry.mtp_layers
        compute, width = TORCH_DTYPES[layout.numeric_format], geometry.attention.head_dim
        shape = (blocks, layers, 2, geometry.attention.kv_heads)
        if pool is Pool.MAIN_KV and layout.kv_format in KV_DTYPES:
            scaled = split_blocks(memory.view(*shape, -1), width, KV_DTYPES[layout.kv_format], compute)
            self._pools[pool], self.kv[pool], self.kv_scales[pool] = scaled, scaled.values, scaled.scales
        else:
            self._pools[pool] = self.kv[pool] = memory.view(compute).view(*shape, PAGE_TOKENS, width)


def _state_views(images: Tensor, geometry: ModelGeometry, layout: DeviceLayout, dtype: torch.dtype) -> StateViews:
    gdn, layers, slots = geometry.gdn, geometry.linear_layers, images.shape[0]
    fine = torch.float64 if dtype == torch.float64 else torch.float32
    _, conv, tail, _ = geometry.state_sections(layout.numeric_format)
    matrices = images[:, : geometry.recurrent_bytes(layout.numeric_format)].view(fine)
    columns = images[:, conv : conv + geometry.conv_bytes(layout.numeric_format)].view(dtype)
    return StateViews.of(
        recurrent=matrices.view(slots, layers, gdn.value_heads, gdn.key_dim, gdn.value_dim),
        conv=columns.view(slots, layers, gdn.conv_taps - 1, gdn.conv_channels),
        tail=images[:, tail : tail + geometry.tail_hidden_bytes(layout.numeric_format)].view(dtype),
    )
