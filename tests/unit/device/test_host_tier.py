"""The CPU device's host tier: real bytes there and back, late, by layer group, failing [C2] [C4] [L2] [decision 2]."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from cpu_driver import FIXTURES, Sequence_, collect, decode, open_fixture
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer.base.errors import BadInput
from ninfer.base.ids import PageId, SlotId
from ninfer.base.pools import Pool
from ninfer.config.geometry import LayerKind, read_geometry
from ninfer.device.cpu import CpuDevice
from ninfer.device.host import HostArena, Transfer, TransferLost
from ninfer.device.layout import LayoutRequest, plan_layout
from ninfer.device.parts import LayerGroups
from ninfer.ports.device import (
    CopyDone,
    CopyFailed,
    HostCopy,
    PageFromHost,
    PageToHost,
    StateFromHost,
    StateToHost,
    UnitBatch,
    UnitDone,
    UnitKind,
)

PROMPT = list(range(40, 140))
MAIN = Pool.MAIN_KV


def open_with_host(dtype: str = "float32", name: str = "dense_text") -> CpuDevice:
    return open_fixture(name, dtype, host_bytes=1 << 22)


def saves(device: CpuDevice, slot: int, pages: Sequence[int]) -> list[HostCopy]:
    """Image at 64, pages behind it."""
    first = 64 + device.facts.state_bytes
    step = device.facts.page_bytes[MAIN]
    pages_out = [PageToHost(MAIN, PageId(page), first + step * i, 64) for i, page in enumerate(pages)]
    return [StateToHost(SlotId(slot), 64), *pages_out]


def restores(device: CpuDevice, slot: int, pages: Sequence[int]) -> list[HostCopy]:
    first = 64 + device.facts.state_bytes
    step = device.facts.page_bytes[MAIN]
    pages_in = [PageFromHost(MAIN, first + step * i, PageId(page), 64) for i, page in enumerate(pages)]
    return [StateFromHost(64, SlotId(slot)), *pages_in]


def bits(device: CpuDevice, slot: int, pages: Sequence[int]) -> list[torch.Tensor]:
    """As bytes: NaN in what was never written is equal to itself."""
    blocks = [device.arena.images[slot], *(device.arena.kv[MAIN][page] for page in pages)]
    return [block.flatten().view(torch.uint8).clone() for block in blocks]


def are_equal(left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(left, right, strict=True))


def spoil(device: CpuDevice, slot: int, pages: Sequence[int]) -> None:
    device.arena.images[slot] = 255
    for page in pages:
        device.arena.kv[MAIN][page] = float("nan")


def move(device: CpuDevice, copies: Sequence[HostCopy]) -> None:
    transfer = device.submit_host_copy(copies)
    assert collect(device, 1) == [CopyDone(transfer)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["dense_text", "moe_text"])
def test_what_comes_back_from_the_host_is_bit_identical_and_goes_on_as_if_it_never_left(name: str, dtype: str) -> None:
    """[decision 8] into other blocks than it came from; the next step has the numbers of the run that never stopped."""
    device = open_with_host(dtype, name)
    run = Sequence_(device, 0, 1, [1, 2])
    run.prefill(PROMPT)
    want = bits(device, 1, [1, 2])
    move(device, saves(device, 1, [1, 2]))
    decode([run], [7])
    end = bits(device, 1, [1, 2])
    drawn = run.draw(logprobs=4)
    spoil(device, 1, [1, 2])
    move(device, restores(device, 3, [6, 4]))
    assert are_equal(bits(device, 3, [6, 4]), want)
    again = Sequence_(device, 1, 3, [6, 4])
    again.frontier, again.started = len(PROMPT), True
    decode([again], [7])
    assert are_equal(bits(device, 3, [6]), end[:2])
    assert again.draw(logprobs=4).logprobs == drawn.logprobs


def test_a_save_follows_the_units_submitted_before_it() -> None:
    """[L2] nobody waited for the unit; what is saved is its result."""
    device = open_with_host()
    sequence = Sequence_(device, 0, 1, [1, 2])
    unit = device.submit_unit(UnitBatch(UnitKind.PREFILL, (sequence.row(PROMPT),)))
    transfer = device.submit_host_copy(saves(device, 1, [1, 2]))
    assert collect(device, 2) == [UnitDone(unit), CopyDone(transfer)]
    want = bits(device, 1, [1, 2])
    move(device, restores(device, 2, [5, 6]))
    assert are_equal(bits(device, 2, [5, 6]), want)


class HeldLink:
    """Stands in for the device's link: the test lets each group of layers land."""

    def __init__(self, device: CpuDevice) -> None:
        self._link = device._link
        self.go = [threading.Semaphore(0) for _ in range(device._groups.count)]
        device._link = self  # type: ignore[assignment]

    def carry(self, copies: Sequence[HostCopy], transfer: Transfer) -> None:
        shadow = Transfer(len(self.go))
        self._link.carry(copies, shadow)
        for group, permit in enumerate(self.go):
            assert permit.acquire(timeout=60)
            if group + 1 < len(self.go):
                transfer.land(group)

    def release(self) -> None:
        for permit in self.go:
            permit.release()


def test_a_late_transfer_holds_up_only_who_needs_it() -> None:
    """[J8] poll never blocks; a unit that names the transfer waits for it, one submitted before does not."""
    device = open_with_host()
    sequence, other = Sequence_(device, 0, 1, [1, 2]), Sequence_(device, 1, 2, [3])
    sequence.prefill(PROMPT)
    move(device, saves(device, 1, [1, 2]))
    link = HeldLink(device)
    transfer = device.submit_host_copy(restores(device, 1, [1, 2]))
    free = device.submit_unit(UnitBatch(UnitKind.PREFILL, (other.row([5, 6]),)))
    bound = device.submit_unit(UnitBatch(UnitKind.DECODE, (sequence.row([7]),)), after=(transfer,))
    assert collect(device, 1) == [UnitDone(free)]
    device.wait(0.05)
    assert device.poll() == []
    link.release()
    assert set(collect(device, 2)) == {CopyDone(transfer), UnitDone(bound)}


def test_a_unit_starts_on_the_layers_that_are_there() -> None:
    """[decision 2] [decision 18] the pass asks for the second group while that is still on its way."""
    device = open_with_host()
    assert device._groups.count >= 2
    sequence = Sequence_(device, 0, 1, [1, 2])
    sequence.prefill(PROMPT)
    move(device, saves(device, 1, [1, 2]))
    decode([sequence], [7])
    want = bits(device, 1, [1, 2])
    spoil(device, 1, [1, 2])
    link = HeldLink(device)
    asked = threading.Semaphore(0)
    transfer = device.submit_host_copy(restores(device, 1, [1, 2]))
    watch(device._transfers[transfer], lambda group: asked.release() if group == 1 else None)
    sequence.frontier -= 1
    unit = device.submit_unit(UnitBatch(UnitKind.DECODE, (sequence.row([7]),)), after=(transfer,))
    assert not asked.acquire(timeout=0.05)
    link.go[0].release()
    assert asked.acquire(timeout=60), "the pass did not start before the last group had landed"
    assert device.poll() == []
    for permit in link.go[1:]:
        permit.release()
    assert set(collect(device, 2)) == {CopyDone(transfer), UnitDone(unit)}
    assert are_equal(bits(device, 1, [1, 2]), want)


def watch(transfer: Transfer, seen: Callable[[int], None]) -> None:
    """Hear of every group that is waited for, before the waiting."""
    wait = transfer.wait

    def heard(group: int) -> None:
        seen(group)
        wait(group)

    transfer.wait = heard  # type: ignore[method-assign]


def test_a_failed_transfer_is_told_before_the_unit_that_needs_it_and_the_device_goes_on() -> None:
    """[L3] the unit computes nothing; what it would have written is the empty state, never a state half restored."""
    device = open_with_host()
    sequence = Sequence_(device, 0, 1, [1, 2])
    sequence.prefill(PROMPT)
    move(device, saves(device, 1, [1, 2]))
    link = device._link

    class Broken:
        def carry(self, copies: Sequence[HostCopy], transfer: Transfer) -> None:
            raise RuntimeError("no such bytes")

    device._link = Broken()  # type: ignore[assignment]
    transfer = device.submit_host_copy(restores(device, 2, [5, 6]))
    lost = Sequence_(device, 1, 2, [5, 6])
    lost.frontier, lost.started = len(PROMPT), True
    unit = device.submit_unit(UnitBatch(UnitKind.DECODE, (lost.row([7]),)), after=(transfer,))
    assert collect(device, 2) == [CopyFailed(transfer), UnitDone(unit)]
    assert not device.arena.images[2].any()
    device._link = link
    move(device, restores(device, 2, [5, 6]))
    assert are_equal(bits(device, 2, [5, 6]), bits(device, 1, [1, 2]))


def test_a_block_outside_pool_or_arena_is_refused_where_it_is_submitted() -> None:
    """[V-01]"""
    device = open_with_host()
    wrong: list[HostCopy] = [
        StateToHost(SlotId(0), 0),
        StateToHost(SlotId(device.arena.images.shape[0]), 0),
        PageToHost(MAIN, PageId(device.facts.pages[MAIN] + 1), 0, 64),
        StateToHost(SlotId(1), device.host_bytes - device.facts.state_bytes + 1),
        PageFromHost(MAIN, -1, PageId(1), 64),
    ]
    for copy in wrong:
        with pytest.raises(AssertionError, match="V-01"):
            device.submit_host_copy([copy])
    assert device.poll() == []


def test_without_a_host_tier_there_is_no_copy_thread() -> None:
    """[M7]"""
    device = open_fixture("dense_text")
    assert device.host_bytes == 0
    with pytest.raises(AssertionError):
        device.submit_host_copy([StateToHost(SlotId(1), 0)])


def test_memory_that_the_system_refuses_is_bad_input() -> None:
    """[C2] more than was counted on: the option is named, as for a plan that does not fit."""
    with pytest.raises(BadInput, match=f"refuses {1 << 60} bytes") as error:
        HostArena(1 << 60)
    assert error.value.param == "context_cache.host_capacity_bytes"


def test_a_device_nobody_refers_to_ends_its_threads() -> None:
    device = open_with_host()
    threads = [device._compute._thread, device._copier._thread]  # type: ignore[union-attr]
    Sequence_(device, 0, 1, [1]).prefill([5, 6])
    move(device, [StateToHost(SlotId(1), 0)])
    del device
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_a_group_that_failed_is_lost_for_whoever_waits() -> None:
    transfer = Transfer(2)
    transfer.land(0)
    transfer.wait(0)
    transfer.fail()
    with pytest.raises(TransferLost):
        transfer.wait(1)


kinds = st.lists(st.sampled_from(list(LayerKind)), min_size=1, max_size=40)


@settings(derandomize=True, max_examples=60)
@given(
    layers=kinds.filter(lambda layers: LayerKind.FULL in layers),
    numeric_format=st.sampled_from(["bfloat16", "float64"]),
)
def test_the_parts_of_all_groups_are_each_block_once(layers: list[LayerKind], numeric_format: str) -> None:
    """[decision 19] whatever the stack looks like: no byte of a block is left out or moved twice, none is too early."""
    geometry = replace(read_geometry(FIXTURES / "dense_text"), layers=tuple(layers))
    request = LayoutRequest(
        lanes=2, max_context=256, kv_capacity="auto", extra_state_slots=0, chunk_tokens=64, budget_bytes=None
    )
    layout = plan_layout(geometry, numeric_format, request)  # type: ignore[arg-type]
    groups = LayerGroups(geometry, layout)
    assert len(groups.group_of_layer) == len(layers)
    assert sorted(set(groups.group_of_layer)) == list(range(groups.count))
    assert list(groups.group_of_layer) == sorted(groups.group_of_layer)
    restores: list[HostCopy] = [StateFromHost(0, SlotId(1)), PageFromHost(MAIN, 1 << 20, PageId(2), 64)]
    by_group = [list(groups.list_restores(restores, group)) for group in range(groups.count)]
    moves = sorted((move for group in by_group for move in group), key=lambda move: move.host_offset)
    for region, block, base in ((layout.states, 1, 0), (layout.pools[MAIN], 2, 1 << 20)):
        mine = [move for move in moves if base <= move.host_offset < base + region.block_bytes]
        at = base
        for move in mine:
            if move.length:
                assert move.host_offset == at
                assert move.arena_offset - region.block_offset(block) == at - base
                at += move.length
        assert at == base + region.block_bytes
    width = layout.pools[MAIN].block_bytes // geometry.full_layers
    for layer, group in enumerate(groups.group_of_layer):
        if layers[layer] is LayerKind.FULL:
            index = sum(kind is LayerKind.FULL for kind in layers[:layer])
            here = [m for g in by_group[: group + 1] for m in g if m.host_offset >= 1 << 20]
            assert max(m.host_offset + m.length for m in here) >= (1 << 20) + (index + 1) * width
