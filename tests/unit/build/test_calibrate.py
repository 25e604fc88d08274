"""Costs are measured on the device, in its own calls, and leave it as usable as before ([G3])."""

from __future__ import annotations

import time

import pytest

from ninfer.base.pools import Pool
from ninfer.build.calibrate import calibrate_costs
from ninfer.sim.device import SIM_STATE_BYTES, SimDevice

CHUNK_S, COPY_S = 0.02, 0.01


class Slow(SimDevice):
    """A device whose chunks and host copies take a known time."""

    chunk_tokens = 0

    def submit_unit(self, batch, *rest, **more):  # type: ignore[no-untyped-def]
        self.chunk_tokens = max(len(row.token_ids) for row in batch.rows)
        time.sleep(CHUNK_S)
        return super().submit_unit(batch, *rest, **more)

    def submit_host_copy(self, copies):  # type: ignore[no-untyped-def]
        time.sleep(COPY_S)
        return super().submit_host_copy(copies)


@pytest.mark.parametrize(("pages", "chunk", "tokens"), [(8, 512, 256), (8, 64, 64), (1, 512, 64)])
def test_chunks_and_copies_are_timed(pages: int, chunk: int, tokens: int) -> None:
    """[G3]: seconds a token and a byte; never a longer chunk than the device is planned for."""
    device = Slow(slots=2, pages={Pool.MAIN_KV: pages}, host_bytes=2 * SIM_STATE_BYTES)
    costs = calibrate_costs(device, device, chunk)
    assert device.chunk_tokens == tokens
    assert costs.prefill_s_per_token >= CHUNK_S / tokens
    assert costs.transfer_s_per_byte >= 2 * COPY_S / (2 * SIM_STATE_BYTES)
    assert not device.poll()


def test_without_a_host_nothing_is_copied() -> None:
    """[G3], [M7]"""
    device = Slow(slots=2, pages={Pool.MAIN_KV: 8})
    assert calibrate_costs(device, None, 512).prefill_s_per_token >= CHUNK_S / 256
