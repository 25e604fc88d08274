"""What a prompt token and a copied byte cost on this machine, measured at start-up on the idle device (G3).

The figures order choices between restoring and computing again, and size prefill chunks until real ones have been
seen; they never decide what can be restored (settled decision 11).
"""

from __future__ import annotations

from ninfer.base.ids import SlotId, TransferId
from ninfer.base.pools import PAGE_TOKENS, Pool
from ninfer.ports.device import CopyDone, CopyFailed, Device, HostTier, StateFromHost, StateToHost, UnitKind
from ninfer.resource.sources import CostModel

from .measure import best_of, run_on_idle

_CHUNK_TOKENS = 256
_SAMPLES = 3


def calibrate_costs(device: Device, host: HostTier | None, chunk_tokens: int) -> CostModel:
    """Seconds a prompt token and a byte from the host cost; a few samples, a fraction of a second.

    `chunk_tokens`: the longest chunk the device is planned for. Runs units and copies on an idle device: pages, slots
    and host bytes are left with contents that nobody names.
    """
    tokens = min(_CHUNK_TOKENS, chunk_tokens, PAGE_TOKENS * device.facts.pages[Pool.MAIN_KV])
    chunk_s = best_of(_SAMPLES, lambda: run_on_idle(device, UnitKind.PREFILL, tokens, 1))
    prefill_s_per_token = max(chunk_s / tokens, 1e-9)
    if host is None:
        return CostModel(prefill_s_per_token=prefill_s_per_token)
    state_bytes = device.facts.state_bytes
    trip_s = best_of(_SAMPLES, lambda: _round_trip(device, host))
    return CostModel(prefill_s_per_token, max(trip_s / (2 * state_bytes), 1e-15))


def _round_trip(device: Device, host: HostTier) -> None:
    """One StateImage to the host and back."""
    for copy in (StateToHost(SlotId(1), 0), StateFromHost(0, SlotId(1))):
        _wait_for(device, host.submit_host_copy([copy]))


def _wait_for(device: Device, transfer: TransferId) -> None:
    while True:
        for done in device.poll():
            if isinstance(done, CopyDone | CopyFailed) and done.transfer == transfer:
                return
        device.wait(1.0)
