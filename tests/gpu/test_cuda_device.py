"""The CUDA device through its port: goldens, slots, copies, host tier, draws. On a CPU the same code runs eagerly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from ninfer.base.errors import BadInput
from ninfer.base.ids import PageId, SlotId, UnitId
from ninfer.base.pools import Pool
from ninfer.config.options import ContextCacheOptions, EngineOptions
from ninfer.device.capacity import MemoryBudget
from ninfer.device.cuda import CudaDevice, _Pending
from ninfer.device.cuda_prefill import Prefills
from ninfer.device.cuda_support import device_errors, find_gpu
from ninfer.ports.device import (
    Completion,
    CopyDone,
    PageCopy,
    PageFromHost,
    PageToHost,
    RunResult,
    SamplesDone,
    StateCopy,
    StateFromHost,
    StateToHost,
    UnitBatch,
    UnitDone,
    UnitKind,
)
from ninfer.ports.sampling import SamplingParams
from tests.unit.device.cpu_driver import FIXTURES, Sequence_, read_golden

PROMPT = list(range(40, 140))
GREEDY = SamplingParams(temperature=0.0)
BOUND = 5e-4


def open_device(name: str, where: torch.device, dtype: str, *, fused: bool, host_bytes: int = 0) -> CudaDevice:
    options = EngineOptions(
        model_dir=FIXTURES / name,
        dtype=dtype,  # type: ignore[arg-type]
        max_concurrency=2,
        max_context=256,
        context_cache=ContextCacheOptions(device_state_slots=5, host_capacity_bytes=host_bytes),
    )
    return CudaDevice.open_on(where, MemoryBudget(), options, fused=fused)


def settle(device: CudaDevice) -> list[Completion]:
    """Wait for everything."""
    done: list[Completion] = []
    while device._pending:
        device.wait(1.0)
        done += device.poll()
    return done


def run(device: CudaDevice, kind: UnitKind, rows: list[Any], after: tuple[Any, ...] = ()) -> None:
    unit = device.submit_unit(UnitBatch(kind, tuple(rows)), after)
    assert UnitDone(unit) in settle(device)


def prefill(sequence: Sequence_, ids: list[int], **row: Any) -> None:
    run(sequence.device, UnitKind.PREFILL, [sequence.row(ids, **row)])  # type: ignore[arg-type]
    sequence.advance(len(ids))


def step(sequences: list[Sequence_], ids: list[int], reads: list[int | None] | None = None) -> None:
    sources = reads or [None] * len(ids)
    rows = [s.row([token], read_slot=read) for s, token, read in zip(sequences, ids, sources, strict=True)]
    run(sequences[0].device, UnitKind.DECODE, rows)  # type: ignore[arg-type]
    for sequence in sequences:
        sequence.advance(1)


def draw(sequences: list[Sequence_], params: SamplingParams = GREEDY, uniform: float = 0.0, **row: Any):
    device = sequences[0].device
    unit = device.submit_sampling([s.sample_row(params, uniform, **row) for s in sequences])
    (done,) = settle(device)  # type: ignore[arg-type]
    assert isinstance(done, SamplesDone) and done.unit == unit
    return done.runs


def sequence(device: CudaDevice, lane: int, slot: int, pages: list[int]) -> Sequence_:
    return Sequence_(device, lane, slot, pages)  # type: ignore[arg-type]


def image(device: CudaDevice, slot: int) -> torch.Tensor:
    return device.arena.images[slot].cpu().clone()


@pytest.fixture(scope="module")
def formats(device: torch.device) -> tuple[str, bool]:
    """The serving format: BF16 with fused kernels on a GPU; on a CPU FP32, where the interpreter is exact."""
    return ("bfloat16", True) if device.type == "cuda" else ("float32", False)


@pytest.mark.parametrize("name", ["dense_text", "moe_text"])
def test_greedy_answers_equal_the_golden(name: str, device: torch.device) -> None:
    """FP32, plain routes: prompt in two chunks, then steps."""
    golden, opened = read_golden(name), open_device(name, device, "float32", fused=False)
    one = sequence(opened, 0, 1, [3, 5, 2])
    prefill(one, golden.prompt_ids[: golden.chunk_split])
    prefill(one, golden.prompt_ids[golden.chunk_split :])
    drawn = []
    for _ in golden.greedy_ids:
        drawn.append(draw([one])[0].token_ids[0])
        step([one], drawn[-1:])
    assert drawn == golden.greedy_ids


def test_captured_steps_draw_what_the_plain_ones_draw(device: torch.device) -> None:
    """FP32, two lanes of different lengths, joined after one step alone: graphs of one row and of two."""
    prompts = (PROMPT[:4], PROMPT[50:53]) if device.type == "cpu" else (PROMPT, PROMPT[:70])
    answers = []
    for fused in (False, True):
        opened = open_device("dense_text", device, "float32", fused=fused)
        pair = [sequence(opened, 0, 1, [3, 5, 2]), sequence(opened, 1, 2, [4, 6, 1])]
        for one, prompt in zip(pair, prompts, strict=True):
            prefill(one, prompt)
        drawn = [run.token_ids[0] for run in draw(pair)]
        step(pair[:1], drawn[:1])
        step(pair, [draw(pair[:1])[0].token_ids[0], drawn[1]])
        answers.append([*drawn, *(run.token_ids[0] for run in draw(pair))])
    assert answers[0] == answers[1]


def test_a_step_behind_its_draw_is_the_step_itself_or_leaves_nothing(device: torch.device) -> None:
    """[decision 5] Fed on the device before anybody has read the draw, in the lane's run-ahead slot: the same bits as
    fed by hand; thrown away, the active slot has lost nothing."""
    opened = open_device("dense_text", device, "float32", fused=True)
    assert opened.facts.feeds_draws
    prompts = (PROMPT[:4], PROMPT[50:53]) if device.type == "cpu" else (PROMPT, PROMPT[:70])
    pair = [sequence(opened, 0, 1, [3, 5, 2]), sequence(opened, 1, 2, [4, 6, 1])]
    spare = [opened.facts.slots + 1, opened.facts.slots + 2]
    for one, prompt in zip(pair, prompts, strict=True):
        prefill(one, prompt)
    before = [image(opened, slot) for slot in (1, 2)]
    draws = opened.submit_sampling([one.sample_row() for one in pair])
    unknown = [replace(one.row([0]), write_slot=SlotId(slot)) for one, slot in zip(pair, spare, strict=True)]
    unit = opened.submit_unit(UnitBatch(UnitKind.DECODE, (unknown[1], unknown[0]), draws))
    done = settle(opened)
    assert UnitDone(unit) in done
    (told,) = (end for end in done if isinstance(end, SamplesDone))
    assert all(torch.equal(image(opened, slot), kept) for slot, kept in zip((1, 2), before, strict=True))
    ahead = [image(opened, slot) for slot in spare]
    step(pair[::-1], [run.token_ids[0] for run in told.runs][::-1])
    assert all(torch.equal(image(opened, slot), fed) for slot, fed in zip((1, 2), ahead, strict=True))


def test_a_wait_ends_with_its_time(device: torch.device) -> None:
    """[J8] Whatever never ends: the control thread comes back for its mail."""
    opened = open_device("dense_text", device, "float32", fused=False)
    opened.wait(0.0)
    opened._pending.append(_Pending(lambda: False, lambda: UnitDone(UnitId(0))))
    opened.wait(0.001)
    assert opened.poll() == []


def test_a_prefill_with_room_for_more_is_the_prefill(device: torch.device, formats: tuple[str, bool]) -> None:
    """A captured launch, its rows not all in use, and launches one by one: the same states and pages; again: the same
    bits. In a chunk over its past, with cuts."""
    if device.type == "cpu":
        pytest.skip("the interpreter takes two minutes; rooms of kernels are compared one by one elsewhere")
    opened = open_device("dense_text", device, formats[0], fused=True)
    runner, bound = opened._runner, 1e-4 if formats[0] == "float32" else 0.05
    assert runner._fused is not None and runner._prefills is not None
    roomy = Prefills(runner._model, runner._fused, 4, 128, opened._line, (64, 128))
    past, fresh = PROMPT[:70], PROMPT[70:]
    images, pages = [], []
    for slot, launcher, gate in ((1, runner._prefills, lambda _: None), (2, roomy, None), (3, roomy, None)):
        one = sequence(opened, 0, slot, [2 * slot, 2 * slot + 1])
        for ids, cuts in ((past, ()), (fresh, ((2, 4), (3, None)))):
            with device_errors(), opened._line.use():
                launcher.launch(one.row(ids, cuts=cuts), {}, gate)
            one.advance(len(ids))
        if opened._line.stream is not None:
            opened._line.stream.synchronize()
        images.append([image(opened, slot), image(opened, 4)])
        states, kv = opened.arena.states, opened.arena.kv[Pool.MAIN_KV]
        parts = [
            view[at].float().cpu().flatten()
            for at in (slot, 4)
            for view in (states.recurrent, states.conv, states.tail)
        ]
        first = kv[2 * slot, ..., : min(64, len(past) + len(fresh)), :].float().cpu().flatten()
        pages.append([*parts, first])
    assert all(torch.equal(one, other) for one, other in zip(images[1], images[2], strict=True))
    for got, want in zip(pages[1], pages[0], strict=True):
        assert float((got - want).norm() / want.norm()) < bound


def test_completions_tell_everything_once(device: torch.device, formats: tuple[str, bool]) -> None:
    opened = open_device("dense_text", device, formats[0], fused=formats[1])
    one = sequence(opened, 0, 1, [1, 2])
    copy = opened.submit_copy([StateCopy(SlotId(2), SlotId(3))])
    unit = opened.submit_unit(UnitBatch(UnitKind.PREFILL, (one.row(PROMPT),)), after=(copy,))
    draws = opened.submit_sampling([one.sample_row()])
    first, second, third = settle(opened)
    assert (first, second) == (CopyDone(copy), UnitDone(unit))
    assert isinstance(third, SamplesDone) and third.unit == draws
    assert opened.poll() == []
    opened.close()


def test_move_fork_and_snapshot_continue_bit_for_bit(device: torch.device, formats: tuple[str, bool]) -> None:
    """[decision 8] A saved state, on the device or through the host, goes on with the same bits."""
    opened = open_device("dense_text", device, formats[0], fused=formats[1], host_bytes=1 << 22)
    state_bytes, page_bytes = opened.facts.state_bytes, opened.facts.page_bytes[Pool.MAIN_KV]
    one = sequence(opened, 0, 1, [1, 2])
    prefill(one, PROMPT, cuts=((70, 4),))
    opened.submit_copy([StateCopy(SlotId(1), SlotId(5))])
    save = opened.submit_host_copy(
        [
            StateToHost(SlotId(1), 0),
            *(PageToHost(Pool.MAIN_KV, PageId(p), state_bytes + i * page_bytes, 64) for i, p in enumerate((1, 2))),
        ]
    )
    assert CopyDone(save) in settle(opened)
    kept = image(opened, 1)
    assert torch.equal(kept, image(opened, 5))
    assert torch.equal(kept, opened.host.bytes[:state_bytes])
    step([one], [7])
    end, answer = image(opened, 1), draw([one], logprobs=3)
    fork = sequence(opened, 0, 6, [1, 2])
    fork.frontier = len(PROMPT)
    step([fork], [7], reads=[5])
    assert torch.equal(image(opened, 6), end)
    assert torch.equal(image(opened, 5), kept)
    restore = opened.submit_host_copy(
        [
            StateFromHost(0, SlotId(7)),
            *(PageFromHost(Pool.MAIN_KV, state_bytes + i * page_bytes, PageId(p), 64) for i, p in enumerate((5, 6))),
        ]
    )
    back = sequence(opened, 0, 7, [5, 6])
    back.frontier, back.started = len(PROMPT), True
    run(opened, UnitKind.DECODE, [back.row([7])], after=(restore,))
    back.advance(1)
    assert torch.equal(image(opened, 7), end)
    assert [r.logprobs for r in draw([back], logprobs=3)] == [r.logprobs for r in answer]
    resumed = sequence(opened, 0, 3, [1, 2])
    resumed.frontier = 70
    before = image(opened, 4)
    prefill(resumed, PROMPT[70:], read_slot=4)
    assert torch.equal(image(opened, 4), before)


def test_a_tail_copy_keeps_the_parent(device: torch.device, formats: tuple[str, bool]) -> None:
    """[F2] [F3]"""
    opened = open_device("dense_text", device, formats[0], fused=formats[1])
    parent = sequence(opened, 0, 1, [1, 2])
    prefill(parent, PROMPT)
    pool = opened.arena.kv[Pool.MAIN_KV]
    kept_state, kept_page = image(opened, 1), pool[2].cpu().clone()
    opened.submit_copy([PageCopy(Pool.MAIN_KV, PageId(2), PageId(7), 36)])
    child = sequence(opened, 1, 2, [1, 7])
    child.frontier = 100
    step([child], [9], reads=[1])
    assert torch.equal(image(opened, 1), kept_state)
    assert torch.equal(pool[2, ..., :36, :].cpu(), kept_page[..., :36, :])


CASES = [
    SamplingParams(temperature=0.8),
    SamplingParams(temperature=0.7, top_k=20),
    SamplingParams(temperature=1.3, top_p=0.8),
    SamplingParams(temperature=1.0, top_k=7, top_p=0.9, min_p=0.05),
    SamplingParams(temperature=0.0, logit_bias={5: 50.0}),
    SamplingParams(temperature=0.9, presence_penalty=1.0, frequency_penalty=0.5, repetition_penalty=1.2),
]


@pytest.mark.parametrize("params", CASES)
def test_a_draw_is_the_same_as_on_the_cpu(params: SamplingParams, device: torch.device) -> None:
    """[decision 7] The batched route chooses what the CPU's does, wherever it computes."""
    from array import array

    from ninfer.kernels.sampling import DrawInput
    from ninfer.kernels.sampling import draw as draw_on_cpu
    from ninfer.kernels.sampling.batched import adjust_, draw_batch

    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(6, 700, generator=generator) * 3
    seen = memoryview(array("i", [3, 5, 5, 9]))
    rows = [DrawInput(params, (0.13 + 0.17 * row) % 1, seen) for row in range(5)] + [DrawInput(GREEDY, 0.5)]
    want = [drawn.token_id for drawn in draw_on_cpu(logits.clone(), rows, 700)]
    wide = logits.to(device)
    for row, wanted in enumerate(rows):
        adjust_(wide[row], wanted)
    assert draw_batch(wide, rows).tolist() == want


def test_rows_of_a_batch_draw_what_each_draws_alone(device: torch.device) -> None:
    """[V-15] FP32: the best logits are far enough apart in the fixture."""
    golden = read_golden("dense_text")
    opened = open_device("dense_text", device, "float32", fused=False)
    pair = [sequence(opened, 0, 1, [1, 2, 3]), sequence(opened, 1, 2, [4, 5, 6])]
    for one in pair:
        prefill(one, golden.prompt_ids)
    drawn: list[tuple[RunResult, ...]] = []
    for _ in range(4):
        drawn.append(draw(pair))
        step(pair, [r.token_ids[0] for r in drawn[-1]])
    for lane in range(2):
        assert [runs[lane].token_ids[0] for runs in drawn] == golden.greedy_ids[:4]


def test_no_gpu_is_one_clear_line() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(BadInput, match=r"device cuda: .*; use device cpu") as refused:
        find_gpu()
    assert refused.value.param == "device"
    assert "\n" not in str(refused.value)
