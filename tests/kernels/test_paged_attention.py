"""Every route of `paged_attention` against its judge: chunks over paged pasts, batches of different lengths."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ninfer.kernels.paged_attention import attend_decode, attend_prefill, plan_decode, plan_prefill, reference

LAYERS, WIDTH = 3, 16


def poisoned_pool(pages: int, kv_heads: int, dtype: torch.dtype) -> Tensor:
    return torch.full((pages, LAYERS, 2, kv_heads, 64, WIDTH), float("nan"), dtype=dtype)


def random_rows(tokens: int, heads: int, kv_heads: int, dtype: torch.dtype, seed: int = 0) -> tuple[Tensor, ...]:
    """q, k, v as slices of one wider projection, the way the model passes them."""
    generator = torch.Generator().manual_seed(1000 * tokens + seed)
    wide = (torch.randn(tokens, heads + 2 * kv_heads, WIDTH, generator=generator) * 2).to(dtype)
    wide = wide.to(torch.promote_types(dtype, torch.float32))
    return wide[:, :heads], wide[:, heads : heads + kv_heads], wide[:, heads + kv_heads :]


def same_pool(got: Tensor, want: Tensor) -> bool:
    return torch.equal(got.nan_to_num(123.0), want.nan_to_num(123.0))


CASES = [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 4e-2)]


@pytest.mark.parametrize(("dtype", "bound"), CASES)
@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (4, 2), (6, 2)])
@pytest.mark.parametrize(("start", "tokens"), [(0, 1), (0, 65), (1, 1), (63, 2), (64, 5), (70, 70)])
def test_prefill_equals_the_judge(
    dtype: torch.dtype, bound: float, heads: int, kv_heads: int, start: int, tokens: int
) -> None:
    """A chunk over its paged past; what was never written is NaN and is never read [C1]."""
    pool, pages = poisoned_pool(6, kv_heads, dtype), [4, 2, 5]
    if start:
        q, k, v = random_rows(start, heads, kv_heads, dtype, seed=1)
        reference.attend(q, k, v, pool, 1, pages, 0)
    expected_pool = pool.clone()
    q, k, v = random_rows(tokens, heads, kv_heads, dtype)
    want = reference.attend(q, k, v, expected_pool, 1, pages, start)
    got = attend_prefill(q, k, v, pool, 1, plan_prefill(pool, torch.tensor(pages), start, tokens))
    assert got.shape == q.shape
    torch.testing.assert_close(got.double(), want, rtol=bound, atol=bound)
    assert same_pool(pool, expected_pool)


@settings(max_examples=20, deadline=None)
@given(tokens=st.integers(2, 150), data=st.data())
def test_two_chunks_are_one(tokens: int, data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, tokens - 1))
    pages = torch.tensor(data.draw(st.permutations(range(1, 6))))
    q, k, v = random_rows(tokens, 4, 2, torch.float64)
    whole_pool, pool = poisoned_pool(6, 2, torch.float64), poisoned_pool(6, 2, torch.float64)
    whole = attend_prefill(q, k, v, whole_pool, 2, plan_prefill(whole_pool, pages, 0, tokens))
    first = attend_prefill(q[:cut], k[:cut], v[:cut], pool, 2, plan_prefill(pool, pages, 0, cut))
    rest = plan_prefill(pool, pages, cut, tokens - cut)
    second = attend_prefill(q[cut:], k[cut:], v[cut:], pool, 2, rest)
    torch.testing.assert_close(torch.cat([first, second]), whole, rtol=1e-12, atol=1e-12)
    assert same_pool(pool, whole_pool)


@pytest.mark.parametrize(("dtype", "bound"), CASES)
@pytest.mark.parametrize(
    "lengths", [[1], [64], [65], [130], [1, 130], [64, 64], [65, 64, 1], [9, 100, 128, 129, 2, 64, 65, 7]]
)
def test_decode_equals_the_judge(dtype: torch.dtype, bound: float, lengths: list[int]) -> None:
    """1 to 8 rows of different lengths; garbage past a row's end reaches nobody; pages in any order."""
    heads, kv_heads = 4, 2
    pool = poisoned_pool(1 + 3 * len(lengths), kv_heads, dtype)
    tables = [[3 * row + 3, 3 * row + 1, 3 * row + 2] for row in range(len(lengths))]
    for row, length in enumerate(lengths):
        if length > 1:
            past = random_rows(length - 1, heads, kv_heads, dtype, seed=row)
            reference.attend(*past, pool, 1, tables[row], 0)
    expected_pool = pool.clone()
    q, k, v = random_rows(len(lengths), heads, kv_heads, dtype, seed=99)
    want = [
        reference.attend(q[r : r + 1], k[r : r + 1], v[r : r + 1], expected_pool, 1, tables[r], length - 1)[0]
        for r, length in enumerate(lengths)
    ]
    got = attend_decode(q, k, v, pool, 1, plan_decode(pool, tables, lengths))
    assert got.shape == q.shape
    torch.testing.assert_close(got.double(), torch.stack(want), rtol=bound, atol=bound)
    assert same_pool(pool, expected_pool)


def test_rows_may_share_full_pages() -> None:
    pool = poisoned_pool(5, 2, torch.float64)
    reference.attend(*random_rows(64, 4, 2, torch.float64), pool, 0, [2], 0)
    q, k, v = random_rows(2, 4, 2, torch.float64, seed=4)
    tables = [[2, 1], [2, 4]]
    got = attend_decode(q, k, v, pool, 0, plan_decode(pool, tables, [65, 65]))
    alone = [
        attend_decode(q[r : r + 1], k[r : r + 1], v[r : r + 1], pool, 0, plan_decode(pool, [tables[r]], [65]))[0]
        for r in range(2)
    ]
    torch.testing.assert_close(got, torch.stack(alone), rtol=1e-12, atol=1e-12)
