"""VERIFY units on a real model: several tokens of several rows, a state kept after any of them."""

from __future__ import annotations

import pytest
import torch
from cpu_driver import Sequence_, decode, draw_rows, open_fixture, run_unit

from ninfer.device.cpu import CpuDevice
from ninfer.ports.device import UnitKind

PROMPTS = [list(range(30, 100)), [7, 8, 9]]
RUNS = [[5, 6, 7, 8], [11, 12]]
"""The accepted tokens of each row's run: one crosses a page, and they differ in length."""


def start(device: CpuDevice, index: int, slot: int, first_page: int) -> Sequence_:
    sequence = Sequence_(device, index, slot, [first_page, first_page + 1])
    sequence.prefill(PROMPTS[index][:-2] if index == 0 else PROMPTS[index])
    return sequence


def test_a_verify_gives_each_row_what_it_has_alone() -> None:
    """[decision 15] [V-15] bit for bit as the row's tokens in a unit of their own; draws follow."""
    device = open_fixture("dense_text")
    together = [start(device, 0, 1, 1), start(device, 1, 2, 3)]
    run_unit(device, UnitKind.VERIFY, [one.row(run) for one, run in zip(together, RUNS, strict=True)])
    for one, run in zip(together, RUNS, strict=True):
        one.advance(len(run))
    alone = [start(device, 0, 3, 5), start(device, 1, 4, 7)]
    for one, run in zip(alone, RUNS, strict=True):
        one.prefill(run)
    assert torch.equal(device.arena.images[[1, 2]], device.arena.images[[3, 4]])
    said = [draw_rows(device, [one.sample_row() for one in rows]) for rows in (together, alone)]
    assert [run.token_ids for run in said[0]] == [run.token_ids for run in said[1]]


@pytest.mark.parametrize("name", ["dense_text", "moe_text"])
def test_every_accepted_prefix_has_its_state(name: str) -> None:
    """[decision 15] The state kept after n tokens is that of n decode steps within FP32's rounding: a run that is cut
    anywhere goes on from its slot."""
    device = open_fixture(name)
    whole = start(device, 0, 1, 1)
    cuts = [(offset, 3 + offset) for offset in (1, 2, 3)]
    run_unit(device, UnitKind.VERIFY, [whole.row(RUNS[0], cuts=cuts)])
    single = start(device, 0, 2, 3)
    states = device.arena.states
    for count, token in enumerate(RUNS[0], 1):
        decode([single], [token])
        kept = 1 if count == len(RUNS[0]) else 3 + count
        for part in (states.recurrent, states.conv, states.tail):
            torch.testing.assert_close(part[kept], part[2], rtol=1e-3, atol=1e-4)


def test_a_verify_reads_one_slot_and_writes_another() -> None:
    """[decision 5] The read slot keeps its bits: nothing has to be folded back when the run is dropped."""
    device = open_fixture("dense_text")
    sequence = start(device, 1, 1, 1)
    before = device.arena.images[1].clone()
    sequence.slot = type(sequence.slot)(2)
    run_unit(device, UnitKind.VERIFY, [sequence.row([5, 6, 7], read_slot=1)])
    assert torch.equal(device.arena.images[1], before)
    assert not torch.equal(device.arena.images[2], before)
