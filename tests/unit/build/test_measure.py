"""The thread count is chosen on the device, quickly, and leaves the device as usable as before."""

from __future__ import annotations

import time

import pytest

from ninfer.base.pools import Pool
from ninfer.build import measure
from ninfer.sim.device import SimDevice


class Slow(SimDevice):
    """A device that likes one thread count."""

    fast_threads = 1
    threads = 0
    units = 0

    def set_threads(self, count: int) -> None:
        self.threads = count

    def submit_unit(self, *args: object, **more: object) -> object:  # type: ignore[override]
        self.units += 1
        if self.threads != self.fast_threads:
            time.sleep(0.002)
        return super().submit_unit(*args, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("fast_threads", [1, 3])
@pytest.mark.parametrize("pages", [1, 8])
def test_the_faster_count_is_taken(fast_threads: int, pages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "count_cores", lambda: 4)
    device = Slow(slots=2, pages={Pool.MAIN_KV: pages})
    device.fast_threads = fast_threads
    assert measure.choose_threads(device, 1) == fast_threads
    assert device.threads == fast_threads


def test_a_busy_machine_is_not_measured_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "count_cores", lambda: 8)
    monkeypatch.setattr(measure, "_PATIENCE_S", 0.0)
    device = Slow(slots=2, pages={Pool.MAIN_KV: 8})
    measure.choose_threads(device, 2)
    assert device.fed_tokens <= 2 * (2 + 128)


@pytest.mark.parametrize("cores", [1, 2])
def test_one_core_is_left_to_the_others(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two cores there is nothing to measure."""
    monkeypatch.setattr(measure, "count_cores", lambda: cores)
    device = Slow(slots=2, pages={Pool.MAIN_KV: 8})
    assert measure.choose_threads(device, 2) == 1
    assert device.units == 0
