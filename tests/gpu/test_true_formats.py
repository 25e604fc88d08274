"""One-byte pages, the sparse step and several tokens a row at the widths of published models; small ones on a CPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from test_true_widths import ON_GPU, Fresh, Widths, fresh, near, widths

from ninfer.kernels.moe import add_experts_, route
from ninfer.kernels.moe.triton_sparse import choose_shares, run_shares
from ninfer.kernels.paged_attention import ScaledPool, attend_decode, attend_prefill, plan_decode, plan_prefill
from ninfer.kernels.paged_attention.pool import put_rows, split_blocks
from ninfer.kernels.paged_attention.triton_decode import attend_pages

__all__ = ["fresh", "widths"]
VALUES = [torch.int8, torch.float8_e4m3fn]


def scaled_pool(widths: Widths, fresh: Fresh, rows: int, values: torch.dtype) -> tuple[ScaledPool, Tensor]:
    """One layer of rounded random numbers, pages in an order of their own; table int32 [rows, pages]."""
    each = -(-(widths.context + widths.tokens) // 64)
    blocks = (1 + rows * each, 1, 2, widths.kv_heads)
    raw = torch.empty(*blocks, 64 * (widths.head_dim + 4), dtype=torch.uint8, device=fresh.device)
    pool = split_blocks(raw, widths.head_dim, values, torch.bfloat16 if ON_GPU else torch.float16)
    count = blocks[0] * 2 * widths.kv_heads * 64
    put_rows(pool, torch.arange(count, device=fresh.device), fresh.half(count, widths.head_dim))
    order = torch.randperm(rows * each, generator=torch.Generator().manual_seed(1)) + 1
    return pool, order.view(rows, each).to(fresh.device, torch.int32)


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("tokens", [1, 4])
def test_steps_over_one_byte_pages(values: torch.dtype, tokens: int, widths: Widths, fresh: Fresh) -> None:
    """One token and several of each row."""
    rows, pasts = 2, [widths.context, widths.context // 2 + 3]
    pool, table = scaled_pool(widths, fresh, rows, values)
    lengths = [past + t + 1 for past in pasts for t in range(tokens)]
    q = fresh.half(rows * tokens, widths.heads, widths.head_dim)
    k, v = (fresh.half(rows * tokens, widths.kv_heads, widths.head_dim) for _ in range(2))
    gates = fresh.half(rows * tokens, widths.heads * widths.head_dim)
    plan = plan_decode(pool, table.repeat_interleave(tokens, 0).cpu().tolist(), lengths)
    want = attend_decode(q, k, v, pool, 0, plan).float().view(rows * tokens, -1) * gates.float().sigmoid()
    at = torch.tensor(lengths, dtype=torch.int32, device=fresh.device)
    near(attend_pages(q, gates, pool, 0, table, at), want)


@pytest.mark.parametrize("values", VALUES)
def test_a_chunk_over_one_byte_pages(values: torch.dtype, widths: Widths, fresh: Fresh) -> None:
    """The plain route and the steps of its last rows agree."""
    start, tokens = widths.context // 3 + 1, 8
    pool, table = scaled_pool(widths, fresh, 1, values)
    q = fresh.half(tokens, widths.heads, widths.head_dim)
    k, v = (fresh.half(tokens, widths.kv_heads, widths.head_dim) for _ in range(2))
    gates = fresh.half(tokens, widths.heads * widths.head_dim)
    want = attend_prefill(q, k, v, pool, 0, plan_prefill(pool, table[0].long(), start, tokens))
    at = torch.arange(start + 1, start + tokens + 1, dtype=torch.int32, device=fresh.device)
    got = attend_pages(q, gates, pool, 0, table, at)
    near(got, want.float().view(tokens, -1) * gates.float().sigmoid())


def test_the_sparse_step(widths: Widths, fresh: Fresh) -> None:
    """Eight experts a row and the shared one."""
    rows = 8
    experts, top_k, inner = (64, 8, 512) if ON_GPU else (6, 3, 32)
    hidden = min(widths.hidden, 2048)
    h, sums = fresh.half(rows, hidden), fresh.wide(4, rows, experts + 1)
    gate_up = fresh.half(experts, 2 * inner, hidden, scale=0.05).transpose(1, 2)
    down = fresh.half(experts, hidden, inner, scale=0.05).transpose(1, 2)
    shared_up, shared_down = fresh.half(2 * inner, hidden, scale=0.05), fresh.half(hidden, inner, scale=0.05)
    logits = sums.sum(0)
    gate, up = (h.float() @ shared_up.float().t()).chunk(2, -1)
    want = logits[:, experts:].sigmoid() * ((gate * gate.sigmoid() * up) @ shared_down.float().t())
    add_experts_(want, h.float(), *route(logits[:, :experts], top_k), gate_up.float(), down.float())
    parts = run_shares(h, *choose_shares(sums, experts, top_k), gate_up, down, shared_up, shared_down)
    near(parts.sum(0), want)
