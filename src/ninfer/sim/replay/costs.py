"""Seconds that a unit and a copy take on a nominal accelerator: the larger of its arithmetic and its traffic.

One H200: 989 TFLOP/s of dense bfloat16 of which a prefill reaches half, 4.8 TB/s of which a decode step reaches 0.7,
50 GB/s to the host. A model of the geometry, not a measurement.
"""

from __future__ import annotations

from ninfer.config.geometry import ModelGeometry
from ninfer.ports.device import UnitBatch, UnitKind

from .geometries import image_bytes, kv_token_bytes, prefill_flops

FLOPS_PER_S = 0.5 * 989e12
DEVICE_BYTES_PER_S = 0.7 * 4.8e12
HOST_BYTES_PER_S = 50e9
LAUNCH_S = 0.0005
"""Of each unit, whatever is in it."""


class GeometryCosts:
    """Implements `device.UnitCosts`."""

    def __init__(self, geometry: ModelGeometry) -> None:
        self._geometry = geometry
        self._weight_bytes = 2.0 * geometry.active_parameters
        self._token_bytes = kv_token_bytes(geometry)
        self._image_bytes = image_bytes(geometry)

    def unit_s(self, batch: UnitBatch) -> float:
        """A prefill chunk by its arithmetic; a decode set by its bytes, once for each token of its longest row."""
        if batch.kind in (UnitKind.PREFILL, UnitKind.REPLAY):
            rows = ((row.start, row.start + len(row.token_ids)) for row in batch.rows)
            work = sum(prefill_flops(self._geometry, start, stop) for start, stop in rows)
            return LAUNCH_S + max(work / FLOPS_PER_S, self._weight_bytes / DEVICE_BYTES_PER_S)
        own = sum(row.start * self._token_bytes + 2 * self._image_bytes for row in batch.rows)
        steps = max(len(row.token_ids) for row in batch.rows)
        return steps * (LAUNCH_S + (self._weight_bytes + own) / DEVICE_BYTES_PER_S)

    def copy_s(self, copied_bytes: int) -> float:
        """Over the link to the host."""
        return copied_bytes / HOST_BYTES_PER_S

    def prefill_s_per_token(self) -> float:
        """What an early prompt token takes: the constant that orders sources (G3)."""
        return prefill_flops(self._geometry, 0, 4096) / 4096 / FLOPS_PER_S
