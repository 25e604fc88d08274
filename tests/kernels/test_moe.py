"""Every route of `moe` against its judge."""

from __future__ import annotations

import pytest
import torch

from ninfer.kernels.moe import add_experts_, reference, route


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 1e-4), (torch.bfloat16, 6e-2)])
@pytest.mark.parametrize(("rows", "experts", "top_k"), [(1, 1, 1), (1, 8, 2), (7, 5, 5), (40, 8, 3)])
def test_experts_equal_the_judge(dtype: torch.dtype, bound: float, rows: int, experts: int, top_k: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    hidden, inner = 17, 11
    fine = torch.promote_types(dtype, torch.float32)
    h = torch.randn(rows, hidden, generator=generator).to(fine)
    logits = torch.randn(rows, experts, generator=generator).to(fine)
    gate_up = (torch.randn(experts, hidden, 2 * inner, generator=generator) / 4).to(dtype)
    down = (torch.randn(experts, inner, hidden, generator=generator) / 4).to(dtype)
    target = torch.randn(rows, hidden, generator=generator).to(fine)
    want = target.double() + reference.experts(h, logits, top_k, gate_up, down)
    weights, ids = route(logits, top_k)
    got = add_experts_(target, h, weights, ids, gate_up, down)
    torch.testing.assert_close(got.double(), want, rtol=bound, atol=bound)


def test_weights_of_a_token_sum_to_one() -> None:
    logits = torch.randn(6, 9, generator=torch.Generator().manual_seed(0))
    weights, ids = route(logits, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(6))
    assert all(len(set(row)) == 4 for row in ids.tolist())
