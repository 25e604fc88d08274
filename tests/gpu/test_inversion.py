"""Every way to invert a chunk's system against FP64: random systems, nearly dependent keys, strong and no decay."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from ninfer.kernels.gated_delta.triton_invert import CHOSEN, choose_inversion, invert_systems

BOUNDS = {"rows": 1e-5, "halves": 2e-5, "half": 5e-3}
"""Largest absolute error of an entry; the entries are at most 1, and BF16 rounds them to 4e-3 afterwards."""
SIDE, WIDTH = 64, 128


def make_systems(kind: str, count: int) -> Tensor:
    """[count, 64, 64] as the scan makes them: beta_i (k_i . k_j) exp(G_i - G_j), zero on and above the diagonal."""
    generator = torch.Generator().manual_seed(sum(map(ord, kind)))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    keys, beta = normal(count, SIDE, WIDTH), torch.rand(count, SIDE, generator=generator, dtype=torch.float64)
    decay = -torch.rand(count, SIDE, generator=generator, dtype=torch.float64) * 0.3
    match kind:
        case "fresh":
            pass
        case "nearly equal keys":
            keys, beta, decay = keys[:, :1] + 0.01 * keys, beta * 0 + 1, decay * 0
        case "equal keys":
            keys, beta, decay = keys[:, :1].expand(-1, SIDE, -1), beta * 0 + 1, decay * 0
        case "keys of two signs":
            keys, beta, decay = keys[:, :1] * normal(count, SIDE, 1).sign(), beta * 0 + 1, decay * 0
        case "few directions":
            keys, beta, decay = normal(count, SIDE, 3) @ normal(count, 3, WIDTH), 0.9 + 0.1 * beta, decay * 0.01
        case "strong decay":
            decay = decay * 200
        case "short chunk":
            keys[:, 37:], beta[:, 37:], decay[:, 37:] = 0, 0, 0
    keys = keys / (keys.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    total = decay.cumsum(-1)
    ratio = (total.unsqueeze(-1) - total.unsqueeze(-2)).tril().exp()
    return (keys @ keys.transpose(-1, -2) * ratio * beta.unsqueeze(-1)).tril(-1)


KINDS = [
    "fresh", "nearly equal keys", "equal keys", "keys of two signs", "few directions", "strong decay", "short chunk",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", list(BOUNDS))
def test_the_inverse_is_that_of_fp64(way: str, kind: str, device: torch.device) -> None:
    """Entry by entry, zeros above the diagonal included."""
    systems = make_systems(kind, 64 if device.type == "cuda" else 3)
    one = torch.eye(SIDE, dtype=torch.float64)
    want = torch.linalg.solve_triangular(one + systems, one.expand_as(systems), upper=False, unitriangular=True)
    assert float(want.abs().max()) < 1 + 1e-6, "what the FP16 parts rely on"
    got = invert_systems(systems.float().to(device), way).cpu().double()
    assert float((got - want).abs().max()) <= BOUNDS[way]
    assert float(got.triu(1).abs().max()) == 0


@pytest.mark.parametrize("way", list(BOUNDS))
def test_a_system_alone_is_the_system_among_others(way: str, device: torch.device) -> None:
    """[decision 8] the same bits in any batch, twice."""
    systems = make_systems("fresh", 4).float().to(device)
    together = invert_systems(systems, way)
    assert torch.equal(invert_systems(systems[2:3].clone(), way)[0], together[2])
    assert torch.equal(invert_systems(systems, way), together)


@pytest.mark.parametrize("way", list(BOUNDS))
def test_what_is_no_number_stays_visible(way: str, device: torch.device) -> None:
    systems = make_systems("fresh", 1).float()
    systems[0, 40, 3] = float("nan")
    assert bool(invert_systems(systems.to(device), way).isnan().any())


def test_every_format_has_a_way() -> None:
    assert all(choose_inversion(dtype) in BOUNDS for dtype in (torch.float32, torch.float16, torch.bfloat16))
    assert CHOSEN[torch.float32] == "rows", "FP32 keeps all its bits"
