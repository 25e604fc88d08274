"""The Triton routes at the widths of the published models against the plain routes in FP32.

On a CPU the same comparisons run at small widths, since the interpreter takes minutes for one true tile.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from ninfer.kernels.conv1d import conv_scan, conv_step
from ninfer.kernels.gated_delta import delta_inputs, delta_scan, delta_step
from ninfer.kernels.gated_delta.triton_inputs import scan_inputs
from ninfer.kernels.gated_delta.triton_scan import scan_chunks
from ninfer.kernels.gated_delta.triton_step import mix_step
from ninfer.kernels.linear.triton_rows import multiply_parts, multiply_rows, multiply_rows_gated
from ninfer.kernels.paged_attention import attend_decode, attend_prefill, plan_decode, plan_prefill
from ninfer.kernels.paged_attention.triton_decode import attend_pages
from ninfer.kernels.paged_attention.triton_prefill import attend_chunk_pages
from ninfer.kernels.rmsnorm import RmsNorm, rmsnorm_gated
from ninfer.kernels.slots import step_slots
from ninfer.kernels.span import make_span
from ninfer.kernels.swiglu import swiglu_

ON_GPU = os.environ.get("NINFER_TEST_DEVICE") == "cuda"
HALF = torch.bfloat16 if ON_GPU else torch.float16
BOUND = 2e-2


@dataclass(frozen=True)
class Widths:
    """As of a published geometry: attention heads and width, recurrent heads and width, hidden, inner, context."""

    heads: int
    kv_heads: int
    head_dim: int
    value_heads: int
    key_heads: int
    dim: int
    hidden: int
    inner: int
    context: int
    tokens: int


TRUE = {
    "4b": Widths(16, 4, 256, 32, 16, 128, 2560, 9216, 8192, 1000),
    "27b": Widths(24, 4, 256, 48, 16, 128, 5120, 17408, 8192, 1000),
    "35b-a3b": Widths(16, 2, 256, 32, 16, 128, 2048, 512, 8192, 1000),
}
SMALL = {"small": Widths(6, 2, 32, 4, 2, 16, 96, 48, 200, 70)}
CASES = TRUE if ON_GPU else SMALL


@pytest.fixture(params=list(CASES))
def widths(request: pytest.FixtureRequest) -> Widths:
    return CASES[request.param]


class Fresh:
    """Random numbers on the device under test, in FP32 and rounded."""

    def __init__(self, device: torch.device) -> None:
        self.device, self._generator = device, torch.Generator().manual_seed(5)

    def wide(self, *shape: int, scale: float = 1.0) -> Tensor:
        return (torch.randn(*shape, generator=self._generator) * scale).to(self.device)

    def half(self, *shape: int, scale: float = 1.0) -> Tensor:
        return self.wide(*shape, scale=scale).to(HALF)


@pytest.fixture
def fresh(device: torch.device) -> Fresh:
    return Fresh(device)


def near(got: Tensor, want: Tensor, bound: float = BOUND) -> None:
    error = float((got.double() - want.double()).norm() / want.double().norm())
    assert error <= bound, error


def fill_pool(widths: Widths, fresh: Fresh, rows: int) -> tuple[Tensor, Tensor]:
    """Two layers of pages with random contents, in an order of their own; table int32 [rows, pages]."""
    each = -(-(widths.context + widths.tokens) // 64)
    pool = fresh.half(1 + rows * each, 2, 2, widths.kv_heads, 64, widths.head_dim)
    order = torch.randperm(rows * each, generator=torch.Generator().manual_seed(1)) + 1
    return pool, order.view(rows, each).to(fresh.device, torch.int32)


def test_attention_decode(widths: Widths, fresh: Fresh) -> None:
    rows, lengths = 2, [widths.context, widths.context // 2 + 3]
    pool, table = fill_pool(widths, fresh, rows)
    q = fresh.half(rows, widths.heads, widths.head_dim)
    k, v = (fresh.half(rows, widths.kv_heads, widths.head_dim) for _ in range(2))
    gates = fresh.half(rows, widths.heads * widths.head_dim)
    plan = plan_decode(pool, table.cpu().tolist(), lengths)
    want = attend_decode(q, k, v, pool, 1, plan).float().view(rows, -1) * gates.float().sigmoid()
    got = attend_pages(q, gates, pool, 1, table, torch.tensor(lengths, dtype=torch.int32, device=fresh.device))
    near(got, want)


def test_attention_prefill(widths: Widths, fresh: Fresh) -> None:
    start, tokens = widths.context // 3 + 1, widths.tokens
    pool, table = fill_pool(widths, fresh, 1)
    q = fresh.half(tokens, widths.heads, widths.head_dim)
    k, v = (fresh.half(tokens, widths.kv_heads, widths.head_dim) for _ in range(2))
    gates = fresh.half(tokens, widths.heads * widths.head_dim)
    want = attend_prefill(q, k, v, pool, 1, plan_prefill(pool, table[0].long(), start, tokens))
    got = attend_chunk_pages(q, gates, pool, 1, table, make_span(tokens, start, device=fresh.device))
    near(got, want.float().view(tokens, -1) * gates.float().sigmoid())


class Mixer:
    """A fused projection and the small weights of one recurrent layer."""

    def __init__(self, widths: Widths, fresh: Fresh, rows: int) -> None:
        self.widths = widths
        self.channels = (2 * widths.key_heads + widths.value_heads) * widths.dim
        values = widths.value_heads * widths.dim
        self.y = fresh.half(rows, self.channels + values + 2 * widths.value_heads)
        self.conv = fresh.wide(4, self.channels)
        self.rate, self.bias = -fresh.wide(widths.value_heads).exp(), fresh.wide(widths.value_heads)
        with fresh.device:
            self.norm = RmsNorm.empty((widths.dim,), 1e-6, torch.float32)
        self.norm.fill(fresh.wide(widths.dim), offset=0)
        sizes = [self.channels, values, widths.value_heads, widths.value_heads]
        self.m, self.z, self.b, self.a = self.y.float().split(sizes, -1)
        self.states = fresh.wide(5, widths.value_heads, widths.dim, widths.dim, scale=0.1)
        self.columns = fresh.half(5, 3, self.channels)

    def inputs(self, mixed: Tensor):  # type: ignore[no-untyped-def]
        return delta_inputs(mixed, self.b, self.a, self.rate, self.bias, self.widths.key_heads, self.widths.dim)


def test_recurrent_step(widths: Widths, fresh: Fresh) -> None:
    case, slots = Mixer(widths, fresh, 2), [1, 3]
    states, columns = case.states.clone(), case.columns.clone()
    plain = step_slots(slots, slots, fresh.device)
    out = delta_step(case.inputs(conv_step(case.m, case.conv, columns, plain)), states, plain)
    want = rmsnorm_gated(out, case.z.view(out.shape), case.norm).flatten(1)
    at = torch.tensor(slots, dtype=torch.int32, device=fresh.device)
    got = mix_step(
        case.y, case.conv, case.columns, case.states, case.rate, case.bias, case.norm, widths.key_heads, at, at
    )
    near(got, want)
    near(case.states, states)


def test_scan(widths: Widths, fresh: Fresh) -> None:
    case, cuts = Mixer(widths, fresh, widths.tokens), ((widths.tokens // 3, 4),)
    states, columns = case.states.clone(), case.columns.clone()
    mixed = conv_scan(case.m, case.conv, columns, 1, 2, cuts)
    want = delta_scan(case.inputs(mixed), states, 1, 2, cuts)
    span = make_span(widths.tokens, 0, 1, 2, cuts, fresh.device)
    inputs = scan_inputs(case.y, case.conv, case.columns, span, case.rate, case.bias, widths.key_heads, widths.dim)
    got = scan_chunks(inputs, case.states, span, widths.tokens)
    near(got, want)
    near(case.states[[2, 4]], states[[2, 4]])


def test_products_of_few_rows(widths: Widths, fresh: Fresh) -> None:
    for rows in (1, 8):
        x, weight = fresh.half(rows, widths.hidden), fresh.half(2 * widths.inner, widths.hidden, scale=0.02)
        want = x.float() @ weight.float().t()
        near(multiply_rows(x, weight), want)
        near(multiply_parts(x, weight).sum(0), want)
        near(multiply_rows_gated(x, weight), swiglu_(want))
