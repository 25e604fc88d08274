"""The CPU device's side of the port: completions, slots, cuts, copies, exact hits, batches, failures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cpu_driver import FIXTURES, GREEDY, Sequence_, collect, decode, draw_rows, open_fixture, run_unit

from ninfer.base.errors import BadInput, DeviceFailure, ModelFileError
from ninfer.base.ids import PageId, SlotId
from ninfer.base.pools import Pool
from ninfer.config.options import EngineOptions
from ninfer.device.cpu import CpuDevice
from ninfer.ports.device import CopyDone, PageCopy, SamplesDone, StateCopy, UnitBatch, UnitDone, UnitKind
from ninfer.ports.sampling import SamplingParams

PROMPT = list(range(40, 140))


def image(device: CpuDevice, slot: int) -> torch.Tensor:
    return device.arena.images[slot].clone()


def test_facts_leave_out_scratch_and_are_the_layout() -> None:
    """[C1] [C2] [decision 18]"""
    device = open_fixture("dense_text", lanes=2, device_state_slots=3, kv_capacity=700)
    facts = device.facts
    assert facts.slots == 5
    assert facts.pages == {Pool.MAIN_KV: 11}
    assert facts.page_bytes == {Pool.MAIN_KV: 2 * 2 * 2 * 64 * 64 * 4}
    assert facts.state_bytes == device.geometry.state_bytes("float32") == device.arena.images.shape[1]
    assert facts.vocab_tokens == 320
    assert device.arena.kv[Pool.MAIN_KV].shape[0] == 12
    assert device.arena.images.shape[0] == 1 + 5 + 2, "scratch, C2's slots, a run-ahead slot a lane [decision 5]"


def test_pages_and_images_are_contiguous_blocks_of_one_arena() -> None:
    """[decision 19] one byte layout; no two blocks overlap."""
    device = open_fixture("dense_text", lanes=2)
    kv, images = device.arena.kv[Pool.MAIN_KV], device.arena.images
    assert all(kv[page].is_contiguous() for page in range(kv.shape[0]))
    images.zero_()
    kv.fill_(1)
    assert not images.any()
    device.arena.states.recurrent[2] = 1
    device.arena.states.conv[2] = 2
    device.arena.states.tail[2] = 3
    assert not images[[0, 1, 3]].any()
    assert torch.equal(kv, torch.ones_like(kv))
    assert images[2].view(torch.float32).unique().tolist() in ([1, 2, 3], [0, 1, 2, 3])


def test_completions_come_once_and_in_order() -> None:
    device = open_fixture("dense_text")
    sequence = Sequence_(device, 0, 1, [1, 2])
    first = device.submit_copy([StateCopy(SlotId(2), SlotId(3))])
    unit = device.submit_unit(UnitBatch(UnitKind.PREFILL, (sequence.row(PROMPT),)), after=(first,))
    assert collect(device, 2) == [CopyDone(first), UnitDone(unit)]
    assert device.poll() == []
    device.wait(0)


def test_cuts_write_complete_states_and_change_no_number() -> None:
    """[decision 6] [D5] whether a slot is given at a cut, the rest of the run keeps its bits."""
    device = open_fixture("dense_text")
    with_slots, without = Sequence_(device, 0, 1, [1, 2]), Sequence_(device, 1, 2, [3, 4])
    with_slots.prefill(PROMPT, cuts=((30, 4), (70, 5)))
    without.prefill(PROMPT, cuts=((30, None), (70, None)))
    assert torch.equal(image(device, 1), image(device, 2))
    pool = device.arena.kv[Pool.MAIN_KV]
    assert torch.equal(pool[1], pool[3])
    short = Sequence_(device, 2, 6, [5, 6])
    short.prefill(PROMPT[:30])
    states = device.arena.states
    for view in (states.recurrent, states.conv, states.tail):
        torch.testing.assert_close(view[4], view[6], rtol=0, atol=1e-5)
    resumed = Sequence_(device, 3, 7, [1, 2])
    resumed.frontier = 30
    resumed.prefill(PROMPT[30:], read_slot=4)
    for view in (states.recurrent, states.conv, states.tail):
        torch.testing.assert_close(view[7], view[1], rtol=0, atol=1e-4)


def test_a_resume_in_the_same_shapes_is_bit_identical() -> None:
    """[decision 8] chunk by chunk from a saved state: the same bits as the run that never stopped."""
    device = open_fixture("dense_text")
    run = Sequence_(device, 0, 1, [1, 2])
    run.prefill(PROMPT[:64], cuts=((64, 4),))
    saved = image(device, 4)
    assert torch.equal(saved, image(device, 1))
    run.prefill(PROMPT[64:])
    decode([run], [7])
    end = image(device, 1)
    again = Sequence_(device, 1, 2, [1, 3])
    again.frontier = 64
    again.prefill(PROMPT[64:], read_slot=4)
    decode([again], [7])
    assert torch.equal(image(device, 2), end)
    assert torch.equal(image(device, 4), saved)


def test_a_launch_that_runs_ahead_is_adopted_or_leaves_nothing() -> None:
    """[decision 5] submitted behind a step that nobody has looked at, into the lane's run-ahead slot: dropped, the step
    after it has the numbers of a run without it; adopted, those of a run step by step."""
    device = open_fixture("dense_text", lanes=2)
    ahead = device.facts.slots + 1
    assert device.facts.run_ahead_slots == 2
    plain = Sequence_(device, 1, 2, [3, 4])
    plain.prefill(PROMPT)
    decode([plain], [7])
    decode([plain], [8])
    want = image(device, 2)
    run = Sequence_(device, 0, 1, [1, 2])
    run.prefill(PROMPT)
    first = device.submit_unit(UnitBatch(UnitKind.DECODE, (run.row([7]),)))
    run.advance(1)
    row = replace(run.row([9]), write_slot=SlotId(ahead))
    second = device.submit_unit(UnitBatch(UnitKind.DECODE, (row,)))
    assert collect(device, 2) == [UnitDone(first), UnitDone(second)]
    right = replace(run.row([8]), write_slot=SlotId(ahead))
    run_unit(device, UnitKind.DECODE, [right])
    assert torch.equal(image(device, ahead), want)
    decode([run], [8])
    assert torch.equal(image(device, 1), want)


def test_a_step_behind_its_draw_is_the_step_itself_or_leaves_nothing() -> None:
    """[decision 5] fed on the device before anybody has read the draw; dropped, the active slot has lost nothing."""
    device = open_fixture("dense_text", lanes=2)
    assert device.facts.feeds_draws
    run = Sequence_(device, 0, 1, [1, 2])
    run.prefill(PROMPT)
    before = image(device, 1)
    draws = device.submit_sampling([run.sample_row()])
    row = replace(run.row([0]), write_slot=SlotId(device.facts.slots + 1))
    unit = device.submit_unit(UnitBatch(UnitKind.DECODE, (row,), draws))
    told, done = collect(device, 2)
    assert isinstance(told, SamplesDone)
    assert done == UnitDone(unit)
    assert torch.equal(image(device, 1), before)
    ahead = image(device, device.facts.slots + 1)
    decode([run], list(told.runs[0].token_ids))
    assert torch.equal(image(device, 1), ahead)


def test_an_exact_hit_samples_without_a_forward_pass() -> None:
    """[D9] the tail hidden row of a copied StateImage gives the same logits."""
    device = open_fixture("dense_text")
    sequence = Sequence_(device, 0, 1, [1, 2])
    sequence.prefill(PROMPT, cuts=((100, 3),))
    want = sequence.draw(SamplingParams(temperature=0.7), 0.4, logprobs=5)
    device.submit_copy([StateCopy(SlotId(3), SlotId(5))])
    collect(device, 1)
    for slot in (3, 5):
        hit = Sequence_(device, 0, slot, [1, 2])
        hit.frontier = 100
        assert hit.draw(SamplingParams(temperature=0.7), 0.4, logprobs=5) == want


def test_a_tail_copy_and_a_fork_continue_apart() -> None:
    """[F2] [F3] a branch copies its partial tail page, reads the old slot, and the parent keeps every bit."""
    device = open_fixture("dense_text", "float64")
    parent = Sequence_(device, 0, 1, [1, 2])
    parent.prefill(PROMPT)
    pool = device.arena.kv[Pool.MAIN_KV]
    kept_state, kept_page = image(device, 1), pool[2].clone()
    device.submit_copy([PageCopy(Pool.MAIN_KV, PageId(2), PageId(7), 36)])
    collect(device, 1)
    child = Sequence_(device, 1, 2, [1, 7])
    child.frontier = 100
    run_unit(device, UnitKind.DECODE, [child.row([9], read_slot=1)])
    child.advance(1)
    assert torch.equal(image(device, 1), kept_state)
    assert torch.equal(pool[2, ..., :36, :], kept_page[..., :36, :])
    whole = Sequence_(device, 2, 3, [4, 5])
    whole.prefill([*PROMPT, 9])
    torch.testing.assert_close(device.arena.states.tail[2], device.arena.states.tail[3], rtol=0, atol=1e-10)


def test_a_decode_row_may_start_from_the_empty_state() -> None:
    device = open_fixture("dense_text", "float64")
    device.arena.images[1] = 255
    one, other = Sequence_(device, 0, 1, [1]), Sequence_(device, 1, 2, [2])
    decode([one], [50])
    other.prefill([50])
    torch.testing.assert_close(device.arena.states.tail[1], device.arena.states.tail[2], rtol=0, atol=1e-12)
    torch.testing.assert_close(device.arena.states.recurrent[1], device.arena.states.recurrent[2], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["dense_text", "moe_text"])
def test_eight_lanes_draw_what_each_draws_alone(name: str) -> None:
    """[V-15] float64: joining and leaving a batch changes no token."""
    device = open_fixture(name, "float64", lanes=8, device_state_slots=1)
    prompts = [PROMPT[: 5 + 11 * lane] for lane in range(8)]
    pages = [[1 + 3 * lane + i for i in range(3)] for lane in range(8)]
    params = SamplingParams(temperature=0.9, top_p=0.95)
    uniforms = [[((37 * lane + 11 * step) % 100) / 100 for step in range(6)] for lane in range(8)]

    def alone(lane: int) -> list[int]:
        sequence, tokens = Sequence_(device, lane, lane + 1, pages[lane]), []
        sequence.prefill(prompts[lane])
        for uniform in uniforms[lane]:
            tokens.append(sequence.draw(params, uniform).token_ids[0])
            decode([sequence], tokens[-1:])
        return tokens

    want = [alone(lane) for lane in range(8)]
    sequences = [Sequence_(device, lane, lane + 1, pages[lane]) for lane in range(8)]
    for sequence, prompt in zip(sequences, prompts, strict=True):
        sequence.prefill(prompt)
    got: list[list[int]] = [[] for _ in range(8)]
    for step in range(6):
        here = sequences[: 8 - step]
        runs = draw_rows(device, [s.sample_row(params, uniforms[s.lane][step]) for s in here])
        for run in runs:
            got[run.lane].extend(run.token_ids)
        decode(here, [got[s.lane][-1] for s in here])
    for lane in range(8):
        assert got[lane] == want[lane][: len(got[lane])]


def test_only_the_tokenizers_ids_are_drawn() -> None:
    """Reserved rows of the head are real weights: they are masked."""
    options = EngineOptions(model_dir=FIXTURES / "dense_text", dtype="float32", max_context=128)
    device = CpuDevice.open(options, vocab_tokens=3)
    sequence = Sequence_(device, 0, 1, [1])
    sequence.prefill([5, 6])
    assert sequence.draw(GREEDY, logprobs=3).token_ids[0] < 3
    assert device.facts.vocab_tokens == 3


def test_a_fault_is_a_device_failure_and_the_device_goes_on() -> None:
    """[L3]"""
    device = open_fixture("dense_text")
    sequence = Sequence_(device, 0, 1, [1])
    device.submit_unit(UnitBatch(UnitKind.PREFILL, (sequence.row([100_000]),)))
    with pytest.raises(DeviceFailure):
        collect(device, 1)
    assert device.poll() == []
    sequence.prefill([5])
    assert sequence.draw().token_ids


def test_a_state_without_numbers_is_a_device_failure_not_a_token() -> None:
    device = open_fixture("dense_text")
    sequence = Sequence_(device, 0, 1, [1])
    sequence.prefill([5])
    device.arena.states.tail[1, 7] = float("nan")
    for params in (GREEDY, SamplingParams()):
        with pytest.raises(DeviceFailure, match="not finite"):
            sequence.draw(params)


def test_bad_options_and_directories_are_told_before_weights_are_read(tmp_path: Path) -> None:
    """[C3] [issue A bad input]"""
    calls: list[int] = []
    with pytest.raises(BadInput):
        CpuDevice.open(
            EngineOptions(model_dir=FIXTURES / "dense_text", kv_capacity=64),
            progress=lambda done, _total: calls.append(done),
        )
    assert calls == []
    with pytest.raises(ModelFileError, match=r"config\.json"):
        CpuDevice.open(EngineOptions(model_dir=tmp_path))


def test_the_identity_parts_are_the_same_for_two_devices() -> None:
    """[decision 19]"""
    one, other = open_fixture("dense_text"), open_fixture("dense_text", "float64")
    assert one.weight_digest == other.weight_digest
    assert one.numeric_format != other.numeric_format
    assert one.weight_digest != open_fixture("moe_text").weight_digest


def test_closing_forgets_what_was_not_delivered() -> None:
    device = open_fixture("dense_text")
    device.submit_copy([StateCopy(SlotId(1), SlotId(2))])
    device.close()
    assert device.poll() == []


def test_the_thread_count_is_that_of_the_thread_that_computes() -> None:
    """torch keeps it per thread: the count of the options, then the one that was set."""
    device = CpuDevice.open(EngineOptions(model_dir=FIXTURES / "dense_text", threads=1, max_context=128))
    seen: list[int] = []
    device._compute.submit(lambda: seen.append(torch.get_num_threads()))
    device.set_threads(2)
    device._compute.submit(lambda: seen.append(torch.get_num_threads()))
    device.set_threads(1)
    device.close()
    assert seen == [1, 2]
    assert not device._compute._thread.is_alive()
