"""Every route of `linear` against its judge."""

from __future__ import annotations

import pytest
import torch

from ninfer.kernels.linear import DenseWeight, add_linear_, linear, reference

DTYPES = [torch.float64, torch.float32, torch.bfloat16]


def bound(dtype: torch.dtype) -> float:
    return {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 4e-2}[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "inside", "outside"), [(1, 7, 5), (1, 64, 33), (3, 33, 17), (8, 5, 64), (21, 19, 1)])
def test_linear_equals_the_dot_products(dtype: torch.dtype, rows: int, inside: int, outside: int) -> None:
    generator = torch.Generator().manual_seed(rows * 100 + inside)
    weight = DenseWeight.empty(outside, inside, dtype)
    stored = torch.randn(outside, inside, generator=generator).to(dtype)
    weight.rows(0, outside // 2).copy_(stored[: outside // 2])
    weight.rows(outside // 2, outside).copy_(stored[outside // 2 :])
    x = torch.randn(rows, inside + 3, generator=generator).to(dtype)[:, 2 : 2 + inside]
    want = reference.linear(x, stored)
    torch.testing.assert_close(linear(x, weight), want, rtol=bound(dtype), atol=bound(dtype))
    target = torch.randn(rows, outside, generator=generator).to(dtype)
    expected = target.double() + want.double()
    add_linear_(target, x, weight)
    torch.testing.assert_close(target.double(), expected, rtol=bound(dtype), atol=bound(dtype))


def test_rows_of_a_batch_do_not_meet() -> None:
    weight = DenseWeight(torch.randn(16, 8, generator=torch.Generator().manual_seed(0)))
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    poisoned = x.clone()
    poisoned[2] = float("nan")
    clean = [0, 1, 3]
    assert torch.equal(linear(poisoned, weight)[clean], linear(x, weight)[clean])
