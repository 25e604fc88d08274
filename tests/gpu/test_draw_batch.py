"""The GPU's draw against the judge: filters, ties, blocks, batches; its sums are exact whatever the order."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton")

from test_triton_kernels import normal

from ninfer.kernels.sampling import DrawInput, batched, draw, reference, triton_find
from ninfer.kernels.sampling.batched import draw_batch
from ninfer.kernels.sampling.triton_find import find_equal, find_head, find_mass
from ninfer.ports.sampling import SamplingParams

VOCAB = 40
params = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 3, 17, VOCAB, 1000]),
    top_p=st.sampled_from([1.0, 0.9, 0.5, 0.01]),
    min_p=st.sampled_from([0.0, 0.05, 0.6, 1.0]),
)
rows_of = st.lists(st.builds(DrawInput, params, st.floats(0, 1, exclude_max=True)), min_size=1, max_size=8)


def random_logits(rows: int, seed: int) -> torch.Tensor:
    """Half of the values are drawn from a coarse grid, so that ties are common."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, VOCAB, generator=generator, dtype=torch.float64) * 3
    logits[:, ::2] = logits[:, ::2].round()
    return logits


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rows=rows_of, seed=st.integers(0, 50), most=st.sampled_from([0, 5, 1024]))
@pytest.mark.parametrize("block", [16, 64])
def test_draws_equal_the_judge_in_any_batch(block: int, rows: list[DrawInput], seed: int, most: int, device) -> None:
    """[decision 7] whether the largest are selected or sorted; the whole vocabulary in one block or in several."""
    logits = random_logits(len(rows), seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_find, "_BLOCK", block)
        patch.setattr(batched, "_MOST_CHOSEN", most)
        got = draw_batch(logits.to(device), rows).tolist()
        alone = [int(draw_batch(logits[i : i + 1].to(device), rows[i : i + 1])) for i in range(len(rows))]
    want = [reference.choose(logits[i].tolist(), row.params, row.uniform) for i, row in enumerate(rows)]
    assert got == want
    assert alone == want


@pytest.mark.parametrize("width", [50, 5000, 40_000])
def test_large_vocabularies_give_the_words_of_the_cpu(width: int, device: torch.device) -> None:
    """FP32, blocks of the true size."""
    logits = normal(3, 6, width, device=device) * 2
    rows = [
        DrawInput(SamplingParams(temperature=0.7, top_k=20, top_p=0.8), 0.31),
        DrawInput(SamplingParams(temperature=1.0), 0.77),
        DrawInput(SamplingParams(temperature=0.6, top_p=0.95), 0.999),
        DrawInput(SamplingParams(temperature=0.0), 0.5),
        DrawInput(SamplingParams(temperature=1.3, min_p=0.02), 0.04),
        DrawInput(SamplingParams(temperature=1.0, top_k=1500), 0.5),
    ]
    want = [one.token_id for one in draw(logits.cpu().clone(), rows, width)]
    assert draw_batch(logits.clone(), rows).tolist() == want
    assert draw_batch(logits[:1].clone(), rows[:1]).tolist() == want[:1]


def test_the_largest_uniform_draws_a_possible_token(device: torch.device) -> None:
    logits = torch.full((1, 5000), float("-inf"), device=device)
    logits[0, 3], logits[0, 4100] = 0.0, -1.0
    assert draw_batch(logits.clone(), [DrawInput(SamplingParams(), 1 - 2**-53)]).tolist() == [4100]
    assert draw_batch(logits.clone(), [DrawInput(SamplingParams(), 0.0)]).tolist() == [3]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(count=st.integers(1, 70), data=st.data())
def test_a_place_is_that_of_the_whole_sum(count: int, data: Any, device: torch.device) -> None:
    """Marks on, just below and just above a running sum: whole units know no rounding."""
    values = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count).filter(any))
    total, mark = sum(values), data.draw(st.integers(0, 8))
    row = torch.tensor([values], dtype=torch.float32, device=device) / 1024
    share = torch.tensor([min(mark / (4 * total), 0.999)], dtype=torch.float64, device=device)
    nothing, last = torch.tensor([-1.0], device=device), torch.tensor([count], device=device)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_find, "_BLOCK", 16)
        place = int(find_mass(row, nothing, last, share))
        head = int(find_head(row, last, share))
        numbers = [torch.tensor([n + 1], device=device) for n in range(values.count(values[0]))]
        equal = [int(find_equal(row, row[:, 0], number)) for number in numbers]
    sums = [sum(values[: i + 1]) for i in range(count)]
    goal = float(share) * total
    assert place == next(i for i, summed in enumerate(sums) if summed > goal)
    assert head == min(next(i for i, summed in enumerate(sums) if summed >= goal and summed > 0) + 1, count)
    assert equal == [i for i, value in enumerate(values) if value == values[0]]
