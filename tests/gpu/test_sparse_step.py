"""The sparse MLP of a step against the judge: choice, shared expert, odd widths, both layouts of the experts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from test_triton_kernels import FORMATS, HALF, make_norm, near, normal

from ninfer.kernels.linear import DenseWeight
from ninfer.kernels.moe import reference as judge
from ninfer.kernels.moe.triton_sparse import choose_shares, run_shares, run_sparse
from ninfer.kernels.rmsnorm.triton_norm import add_norm

HIDDEN, INNER, EXPERTS, TOP_K = 192, 32, 6, 3


class Case:
    """Weights of one layer, the experts laid output by output (as on a GPU) or input by input."""

    def __init__(self, shared_inner: int, dtype: torch.dtype, device: torch.device, *, flipped: bool) -> None:
        self.gate_up = normal(33, EXPERTS, HIDDEN, 2 * INNER, device=device).mul_(0.1).to(dtype)
        self.down = normal(34, EXPERTS, INNER, HIDDEN, device=device).mul_(0.1).to(dtype)
        if flipped:
            self.gate_up, self.down = (
                x.transpose(1, 2).contiguous().transpose(1, 2) for x in (self.gate_up, self.down)
            )
        self.shared_up = normal(35, 2 * shared_inner, HIDDEN, device=device).mul_(0.1).to(dtype)
        self.shared_down = normal(36, HIDDEN, shared_inner, device=device).mul_(0.1).to(dtype)

    def judge(self, h: Tensor, logits: Tensor) -> Tensor:
        """Routed experts and the shared one, FP64."""
        h = h.cpu().double()
        routed = judge.experts(h, logits[:, :EXPERTS].cpu(), TOP_K, self.gate_up.cpu(), self.down.cpu())
        gate, up = (h @ self.shared_up.cpu().double().t()).chunk(2, -1)
        shared = (gate * gate.sigmoid() * up) @ self.shared_down.cpu().double().t()
        return routed + logits[:, EXPERTS:].cpu().double().sigmoid() * shared


@pytest.mark.parametrize(("dtype", "bound"), FORMATS)
@pytest.mark.parametrize("batch", [1, 5, 8, 11])
@pytest.mark.parametrize(("shared_inner", "flipped"), [(INNER, True), (INNER, False), (48, True), (16, False)])
def test_experts_and_the_shared_one(
    dtype: torch.dtype, bound: float, batch: int, shared_inner: int, flipped: bool, device: torch.device
) -> None:
    """Slots apart; their sum with the residual is the judge's."""
    case = Case(shared_inner, dtype, device, flipped=flipped)
    h = normal(31 + batch, batch, HIDDEN, dtype=dtype, device=device)
    sums = normal(32, 2, batch, EXPERTS + 1, device=device)
    logits = sums.sum(0)
    weights, ids = choose_shares(sums, EXPERTS, TOP_K)
    parts = run_shares(h, weights, ids, case.gate_up, case.down, case.shared_up, case.shared_down)
    assert parts.shape == (TOP_K + 1, batch, HIDDEN)
    want = case.judge(h, logits)
    near(parts.sum(0), want, bound)
    residual = normal(37, batch, HIDDEN, device=device)
    before = residual.clone()
    add_norm(residual, parts, make_norm(normal(38, HIDDEN, device=device), 1.0), dtype)
    near(residual, before.cpu() + want, bound)


@pytest.mark.parametrize("parts", [1, 4])
def test_the_choice_is_softmax_and_top_k(parts: int, device: torch.device) -> None:
    """Weights with sum 1, best first, the lower id among equals; the gate's sigmoid last; padding columns unread."""
    sums = normal(41, parts, 7, 21, device=device)
    sums[..., 18:] = float("nan")
    sums[:, 2, :17] = 0.5
    weights, ids = (x.cpu() for x in choose_shares(sums, 17, 5))
    logits = sums.sum(0).cpu()
    want, chosen = logits[:, :17].softmax(-1).topk(5)
    want = want / want.sum(-1, keepdim=True)
    assert ids[2].tolist() == [0, 1, 2, 3, 4]
    others = [0, 1, 3, 4, 5, 6]
    assert torch.equal(ids[others].long(), chosen[others])
    near(weights[:, :5], want, 1e-6)
    near(weights[:, 5], logits[:, 17].sigmoid(), 1e-6)


def test_two_dimensional_logits_are_one_part(device: torch.device) -> None:
    logits = normal(42, 3, 9, dtype=HALF, device=device)
    one, other = choose_shares(logits, 8, 2), choose_shares(logits.float().unsqueeze(0), 8, 2)
    assert all(torch.equal(x, y) for x, y in zip(one, other, strict=True))


def test_a_row_is_the_same_whoever_is_beside_it(device: torch.device) -> None:
    """[V-15] the same bits in every batch of one width of instruction."""
    case = Case(INNER, HALF, device, flipped=True)
    h, sums = normal(43, 6, HIDDEN, dtype=HALF, device=device), normal(44, 2, 6, EXPERTS + 1, device=device)
    whole = run_shares(
        h, *choose_shares(sums, EXPERTS, TOP_K), case.gate_up, case.down, case.shared_up, case.shared_down
    )
    alone = run_shares(
        h[4:5],
        *choose_shares(sums[:, 4:5], EXPERTS, TOP_K),
        case.gate_up,
        case.down,
        case.shared_up,
        case.shared_down,
    )
    assert torch.equal(alone[:, 0], whole[:, 4])


def test_the_whole_step(device: torch.device) -> None:
    """The router's product included."""
    dtype, bound = FORMATS[-1] if device.type == "cuda" else FORMATS[0]
    with device:
        router = DenseWeight(EXPERTS + 1, HIDDEN, dtype)
    router.rows(0, EXPERTS + 1).copy_(normal(45, EXPERTS + 1, HIDDEN, device=device).mul_(0.1))
    case, h = Case(INNER, dtype, device, flipped=True), normal(46, 3, HIDDEN, dtype=dtype, device=device)
    got = run_sparse(h, router, TOP_K, case.gate_up, case.down, case.shared_up, case.shared_down)
    logits = h.cpu().double() @ router.rows(0, EXPERTS + 1).cpu().double().t()
    near(got.sum(0), case.judge(h, logits), bound)
