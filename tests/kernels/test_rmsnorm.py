"""Every route of `rmsnorm` against its judge."""

from __future__ import annotations

import pytest
import torch

from ninfer.kernels.rmsnorm import RmsNorm, reference, rmsnorm, rmsnorm_gated

CASES = [(torch.float64, 1e-12), (torch.float32, 1e-5)]


@pytest.mark.parametrize(("dtype", "bound"), CASES)
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 33), (8, 64)])
def test_norms_equal_the_judge(dtype: torch.dtype, bound: float, rows: int, width: int) -> None:
    generator = torch.Generator().manual_seed(width)
    x = (torch.randn(rows, width, generator=generator) * 3).to(dtype)
    weight = torch.randn(width, generator=generator).to(torch.bfloat16)
    z = torch.randn(rows, width, generator=generator).to(dtype)
    norm = RmsNorm.empty((width,), 1e-6, dtype)
    for offset in (0, 1):
        norm.fill(weight, offset=offset)
        multiplier = weight.to(dtype) + offset
        want = reference.rmsnorm(x, multiplier, 1e-6)
        torch.testing.assert_close(rmsnorm(x, norm).double(), want, rtol=bound, atol=bound)
        want = reference.rmsnorm_gated(x, z, multiplier, 1e-6)
        torch.testing.assert_close(rmsnorm_gated(x, z, norm).double(), want, rtol=bound, atol=bound)


@pytest.mark.parametrize(("dtype", "bound"), CASES)
def test_each_head_has_its_own_multiplier(dtype: torch.dtype, bound: float) -> None:
    generator = torch.Generator().manual_seed(5)
    wide = torch.randn(3, 7, 10, generator=generator).to(dtype)
    x, multipliers = wide[:, 1:4], torch.randn(3, 10, generator=generator).to(dtype)
    before = wide.clone()
    norm = RmsNorm.empty((3, 10), 1e-6, dtype)
    norm.fill(multipliers[0], offset=0, heads=slice(0, 1))
    norm.fill(multipliers[1:] - 1, offset=1, heads=slice(1, None))
    got = rmsnorm(x, norm)
    for head in range(3):
        want = reference.rmsnorm(x[:, head], multipliers[head], 1e-6)
        torch.testing.assert_close(got[:, head].double(), want, rtol=bound, atol=bound)
    assert torch.equal(wide, before)


def test_eps_is_inside_the_root() -> None:
    tiny = torch.full((1, 4), 1e-3, dtype=torch.float64)
    norm = RmsNorm.empty((4,), 1e-6, torch.float64)
    norm.fill(torch.ones(4), offset=0)
    got = rmsnorm(tiny, norm)
    torch.testing.assert_close(got, torch.full((1, 4), 1e-3 / (2e-6) ** 0.5, dtype=torch.float64))
