"""`paged_attention` over one-byte pools: rounding within its bound, every route as the judge, two chunks as one."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ninfer.kernels.paged_attention import (
    ScaledPool,
    attend_decode,
    attend_prefill,
    plan_decode,
    plan_prefill,
    reference,
    split_blocks,
)
from ninfer.kernels.paged_attention.pool import LARGEST, round_rows

LAYERS, WIDTH, HEADS, KV_HEADS = 2, 16, 4, 2
FORMATS = [torch.int8, torch.float8_e4m3fn]


def poisoned_pool(pages: int, values: torch.dtype, compute: torch.dtype) -> ScaledPool:
    """Every byte 255: NaN as a scale and as FP8."""
    raw = torch.full((pages, LAYERS, 2, KV_HEADS, 64 * (WIDTH + 4)), 255, dtype=torch.uint8)
    return split_blocks(raw, WIDTH, values, compute)


def copy_pool(pool: ScaledPool) -> ScaledPool:
    return ScaledPool(pool.values.clone(), pool.scales.clone(), pool.compute)


def random_rows(tokens: int, seed: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    wide = torch.randn(tokens, HEADS + 2 * KV_HEADS, WIDTH, generator=torch.Generator().manual_seed(seed)) * 2
    wide = wide.to(dtype)
    return wide[:, :HEADS], wide[:, HEADS : HEADS + KV_HEADS], wide[:, HEADS + KV_HEADS :]


def same_bytes(one: ScaledPool, other: ScaledPool) -> bool:
    return torch.equal(one.values.view(torch.uint8), other.values.view(torch.uint8)) and torch.equal(
        one.scales.contiguous().view(torch.int32), other.scales.contiguous().view(torch.int32)
    )


@settings(max_examples=60, deadline=None)
@given(exponent=st.integers(-30, 30), width=st.integers(1, 40), seed=st.integers(0, 999))
@pytest.mark.parametrize("values", FORMATS)
def test_a_rounded_row_is_within_half_a_step(values: torch.dtype, exponent: int, width: int, seed: int) -> None:
    """Whatever the size of the row: int8 to half of 1/127 of its largest number, FP8 to 1/16 of the number itself or,
    where that is less, to half of the smallest step."""
    x = torch.randn(5, width, generator=torch.Generator().manual_seed(seed)) * 2.0**exponent
    numbers, scales = round_rows(x, values)
    error = (numbers.float() * scales.unsqueeze(-1) - x).abs()
    step = scales.unsqueeze(-1) * (0.5 if values == torch.int8 else 2.0**-10)
    bound = step if values == torch.int8 else torch.maximum(step, x.abs() / 16)
    assert bool((error <= bound * 1.0001).all())
    assert (
        torch.equal(x.abs().amax(-1), (scales * LARGEST[values]))
        or float((x.abs().amax(-1) / (scales * LARGEST[values]) - 1).abs().max()) < 1e-6
    )


@pytest.mark.parametrize("values", FORMATS)
def test_zeros_stay_zeros_and_what_is_no_number_stays_none(values: torch.dtype) -> None:
    rows = torch.tensor([[0.0, -0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
    numbers, scales = round_rows(rows, values)
    back = numbers.float() * scales.unsqueeze(-1)
    assert back[0].tolist() == [0.0, 0.0]
    assert bool(back[1:].isnan().any(-1).all())


@pytest.mark.parametrize("values", FORMATS)
@pytest.mark.parametrize(("start", "tokens"), [(0, 1), (0, 65), (1, 1), (63, 2), (64, 5), (70, 70)])
def test_prefill_equals_the_judge(values: torch.dtype, start: int, tokens: int) -> None:
    """A chunk over its paged past, its own keys and values rounded too; nothing unwritten is read [C1]."""
    pool, pages = poisoned_pool(6, values, torch.float64), [4, 2, 5]
    if start:
        reference.attend(*random_rows(start, 1), pool, 1, pages, 0)
    expected = copy_pool(pool)
    q, k, v = random_rows(tokens, 2)
    want = reference.attend(q, k, v, expected, 1, pages, start)
    got = attend_prefill(q, k, v, pool, 1, plan_prefill(pool, torch.tensor(pages), start, tokens))
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    assert same_bytes(pool, expected)


@pytest.mark.parametrize("values", FORMATS)
@pytest.mark.parametrize("lengths", [[1], [64], [65], [1, 130], [65, 64, 1]])
def test_decode_equals_the_judge(values: torch.dtype, lengths: list[int]) -> None:
    """Rows of different lengths; garbage past a row's end reaches nobody."""
    pool = poisoned_pool(1 + 3 * len(lengths), values, torch.float64)
    tables = [[3 * row + 3, 3 * row + 1, 3 * row + 2] for row in range(len(lengths))]
    for row, length in enumerate(lengths):
        if length > 1:
            reference.attend(*random_rows(length - 1, row), pool, 1, tables[row], 0)
    expected = copy_pool(pool)
    q, k, v = random_rows(len(lengths), 99)
    want = [
        reference.attend(q[r : r + 1], k[r : r + 1], v[r : r + 1], expected, 1, tables[r], length - 1)[0]
        for r, length in enumerate(lengths)
    ]
    got = attend_decode(q, k, v, pool, 1, plan_decode(pool, tables, lengths))
    torch.testing.assert_close(got, torch.stack(want), rtol=1e-5, atol=1e-5)
    assert same_bytes(pool, expected)


@pytest.mark.parametrize("values", FORMATS)
@settings(max_examples=10, deadline=None)
@given(tokens=st.integers(2, 150), data=st.data())
def test_two_chunks_are_one(values: torch.dtype, tokens: int, data: st.DataObject) -> None:
    """A chunk sees its own tokens as every later one will [decision 6]."""
    cut = data.draw(st.integers(1, tokens - 1))
    pages = torch.tensor(data.draw(st.permutations(range(1, 6))))
    q, k, v = random_rows(tokens, 3)
    whole_pool, pool = (poisoned_pool(6, values, torch.float64) for _ in range(2))
    whole = attend_prefill(q, k, v, whole_pool, 0, plan_prefill(whole_pool, pages, 0, tokens))
    first = attend_prefill(q[:cut], k[:cut], v[:cut], pool, 0, plan_prefill(pool, pages, 0, cut))
    rest = plan_prefill(pool, pages, cut, tokens - cut)
    second = attend_prefill(q[cut:], k[cut:], v[cut:], pool, 0, rest)
    torch.testing.assert_close(torch.cat([first, second]), whole, rtol=1e-12, atol=1e-12)
    assert same_bytes(pool, whole_pool)


@pytest.mark.parametrize(("values", "bound"), [(torch.int8, 0.02), (torch.float8_e4m3fn, 0.06)])
@pytest.mark.parametrize("compute", [torch.float32, torch.bfloat16])
def test_attention_stays_near_the_unrounded_one(values: torch.dtype, bound: float, compute: torch.dtype) -> None:
    """||o - o of the plain pool|| <= bound * ||o||, with keys and values of unit size."""
    tokens = 150
    q, k, v = (x / 2 for x in random_rows(tokens, 5, torch.float32))
    plain = torch.full((4, LAYERS, 2, KV_HEADS, 64, WIDTH), float("nan"))
    scaled = poisoned_pool(4, values, compute)
    pages = torch.tensor([3, 1, 2])
    want = attend_prefill(q, k, v, plain, 0, plan_prefill(plain, pages, 0, tokens))
    got = attend_prefill(q, k, v, scaled, 0, plan_prefill(scaled, pages, 0, tokens))
    assert float((got - want).norm() / want.norm()) <= bound
