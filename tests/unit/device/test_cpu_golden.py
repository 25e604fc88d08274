"""The CPU device gives the golden fixtures' numbers, driven through nothing but its port."""

from __future__ import annotations

import pytest
import torch
from cpu_driver import Golden, Sequence_, decode, open_fixture, prefill_golden, read_golden

from ninfer.device.cpu import CpuDevice

MODELS = ["dense_text", "moe_text", "dense_vision", "moe_vision"]
BOUND = 5e-4


def assert_state(device: CpuDevice, slot: int, golden: Golden, prefix: str, pages: list[int]) -> None:
    """Recurrent, conv and (where given) KV of one slot against `prefix` of the golden."""
    linear = full = 0
    states, kv = device.arena.states, next(iter(device.arena.kv.values()))
    for index in range(len(device.geometry.layers)):
        recurrent = golden.tensors.get(f"{prefix}.recurrent.{index}")
        if recurrent is not None:
            torch.testing.assert_close(states.recurrent[slot, linear], recurrent, rtol=0, atol=BOUND)
            conv = golden.tensors[f"{prefix}.conv.{index}"][:, 1:]
            torch.testing.assert_close(states.conv[slot, linear].t(), conv, rtol=0, atol=BOUND)
            linear += 1
        elif f"{prefix}.k.{index}" in golden.tensors:
            for side, name in enumerate("kv"):
                want = golden.tensors[f"{prefix}.{name}.{index}"]
                got = kv[pages, full, side].transpose(0, 1).flatten(1, 2)[:, : want.shape[1]]
                torch.testing.assert_close(got, want, rtol=0, atol=BOUND)
            full += 1
    assert linear == device.geometry.linear_layers


@pytest.mark.parametrize("name", MODELS)
def test_prompt_in_two_chunks_and_greedy_decode_equal_the_golden(name: str) -> None:
    """States at the frontiers, greedy tokens and the states after each of four steps [A2] [D7]."""
    golden, device = read_golden(name), open_fixture(name)
    pages = [3, 5, 2]
    sequence = Sequence_(device, 0, 1, pages, golden.rope_delta)
    prefill_golden(sequence, golden, [golden.chunk_split])
    assert_state(device, 1, golden, "mid", pages)
    sequence = Sequence_(device, 0, 1, pages, golden.rope_delta)
    prefill_golden(sequence, golden, [golden.chunk_split, len(golden.prompt_ids)])
    assert_state(device, 1, golden, "state", pages)
    drawn = []
    for step in range(len(golden.greedy_ids)):
        drawn.append(sequence.draw().token_ids[0])
        if step + 1 < len(golden.greedy_ids):
            decode([sequence], drawn[-1:])
            if f"step{step + 1}.recurrent.0" in golden.tensors:
                assert_state(device, 1, golden, f"step{step + 1}", pages)
    assert drawn == golden.greedy_ids
    assert_state(device, 1, golden, "end", pages)
