"""Every route of `linear` against its judge."""

from __future__ import annotations

import pytest
import torch

from ninfer.kernels.linear import DenseWeight, add_linear_, can_pack, dense, linear, reference

SIZES = [(1, 7, 5), (1, 64, 33), (3, 33, 17), (8, 5, 64), (21, 19, 1), (1, 300, 260), (3, 300, 260)]
CASES = [(torch.float64, 1e-12), (torch.float32, 5e-5), (torch.bfloat16, 3e-2)]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("dtype", "bound"), CASES)
@pytest.mark.parametrize(("rows", "inside", "outside"), SIZES)
def test_linear_equals_the_dot_products(
    dtype: torch.dtype, bound: float, rows: int, inside: int, outside: int, packed: bool
) -> None:
    generator = torch.Generator().manual_seed(rows * 100 + inside)
    weight = DenseWeight(outside, inside, dtype)
    stored = torch.randn(outside, inside, generator=generator).to(dtype)
    weight.rows(0, outside // 2).copy_(stored[: outside // 2])
    weight.rows(outside // 2, outside).copy_(stored[outside // 2 :])
    if packed:
        weight.pack()
    fine = torch.promote_types(dtype, torch.float32)
    x = torch.randn(rows, inside + 3, generator=generator).to(dtype).to(fine)[:, 2 : 2 + inside]
    want = reference.linear(x, stored)
    got = linear(x, weight)
    assert got.dtype == fine
    torch.testing.assert_close(got, want, rtol=bound, atol=bound)
    target = torch.randn(rows, outside, generator=generator).to(fine)
    expected = target.double() + want.double()
    add_linear_(target, x, weight)
    torch.testing.assert_close(target.double(), expected, rtol=bound, atol=bound)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_of_a_batch_do_not_meet(dtype: torch.dtype) -> None:
    weight = DenseWeight(300, 260, dtype)
    weight.rows(0, 300).copy_(torch.randn(300, 260, generator=torch.Generator().manual_seed(0)))
    weight.pack()
    x = torch.randn(4, 260, generator=torch.Generator().manual_seed(1))
    poisoned = x.clone()
    poisoned[2] = float("nan")
    clean = [0, 1, 3]
    assert torch.equal(linear(poisoned, weight)[clean], linear(x, weight)[clean])


@pytest.mark.skipif(not can_pack(), reason="torch has no FBGEMM here")
def test_a_packed_row_has_the_same_bits_in_every_batch() -> None:
    """[decision 8] joining a batch, or another split of a prompt, changes no product."""
    weight = DenseWeight(123, 77, torch.bfloat16)
    weight.rows(0, 123).copy_(torch.randn(123, 77, generator=torch.Generator().manual_seed(0)))
    weight.pack()
    x = torch.randn(100, 77, generator=torch.Generator().manual_seed(1))
    whole = linear(x, weight)
    for start, stop in ((0, 1), (3, 5), (7, 15), (20, 36), (50, 99)):
        assert torch.equal(linear(x[start:stop], weight), whole[start:stop])


def test_a_large_weight_is_packed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = torch.randn(123, 77, generator=torch.Generator().manual_seed(0))
    x = torch.randn(5, 77, generator=torch.Generator().manual_seed(1))
    results = []
    for block in (1 << 24, 40 * 77, 5):
        monkeypatch.setattr(dense, "_BLOCK_ELEMENTS", block)
        weight = DenseWeight(123, 77, torch.bfloat16)
        weight.rows(0, 123).copy_(stored)
        weight.pack()
        results.append(linear(x, weight))
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_a_weight_that_fp16_cannot_hold_is_left_unpacked() -> None:
    weight = DenseWeight(3, 2, torch.bfloat16)
    weight.rows(0, 3).copy_(torch.tensor([[1.0, 2.0], [1e30, 0.0], [0.0, 1.0]]))
    weight.pack()
    assert float(linear(torch.tensor([[1.0, 0.0]]), weight)[0, 1]) == pytest.approx(1e30, rel=0.01)


def test_packing_may_keep_the_rows() -> None:
    """A tied embedding goes on reading them."""
    weight = DenseWeight(300, 260, torch.bfloat16)
    rows = weight.rows(0, 300)
    assert rows.dtype == torch.bfloat16
    stored = torch.randn(300, 260, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    rows.copy_(stored)
    weight.pack(keep_rows=True)
    assert torch.equal(rows, stored)
    identity = torch.eye(260)
    torch.testing.assert_close(linear(identity, weight).t(), stored.float(), rtol=0, atol=0)
