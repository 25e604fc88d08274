"""What the server tells the interpreter that all its threads share."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from ninfer.server.interpreter import SWITCH_INTERVAL_S, settle_heap, share_interpreter


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    interval = sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)
    gc.unfreeze()


def test_threads_that_compute_give_way_within_a_fraction_of_a_decode_step() -> None:
    share_interpreter()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
    assert SWITCH_INTERVAL_S <= 0.001


def test_what_is_loaded_leaves_the_collector_alone() -> None:
    ring: list[object] = []
    ring.append(ring)
    before = gc.get_freeze_count()
    settle_heap()
    assert gc.get_freeze_count() > before
    assert len(gc.get_objects()) < gc.get_freeze_count()
