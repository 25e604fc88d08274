"""Every route of `swiglu` against its judge."""

from __future__ import annotations

import pytest
import torch

from ninfer.kernels.swiglu import reference, swiglu_


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize(("rows", "inner"), [(1, 1), (3, 33), (8, 96)])
def test_swiglu_equals_the_judge(dtype: torch.dtype, bound: float, rows: int, inner: int) -> None:
    x = (torch.randn(rows, 2 * inner, generator=torch.Generator().manual_seed(inner)) * 4).to(dtype)
    want = reference.swiglu(x)
    torch.testing.assert_close(swiglu_(x.clone()).double(), want, rtol=bound, atol=bound)
