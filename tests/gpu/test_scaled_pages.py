"""The Triton routes of attention over one-byte pages against the judge: poisoned pools, odd lengths, chunks."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from test_triton_kernels import FORMATS, LAYERS, WIDTH, Heads, near, normal

from ninfer.config.options import ContextCacheOptions, EngineOptions
from ninfer.device.capacity import MemoryBudget
from ninfer.device.cpu import CpuDevice
from ninfer.device.cuda import CudaDevice
from ninfer.kernels.paged_attention import ScaledPool, split_blocks
from ninfer.kernels.paged_attention import reference as judge
from ninfer.kernels.paged_attention.pool import round_rows
from ninfer.kernels.paged_attention.triton_decode import attend_pages
from ninfer.kernels.paged_attention.triton_heads import place_heads
from ninfer.kernels.paged_attention.triton_prefill import PrefillTiles, attend_chunk_pages
from ninfer.kernels.span import make_span
from ninfer.ports.device import UnitBatch, UnitDone, UnitKind
from tests.unit.device.cpu_driver import FIXTURES, Sequence_, read_golden

VALUES = [torch.int8, torch.float8_e4m3fn]


def poisoned_pool(pages: int, kv_heads: int, values: torch.dtype, compute: torch.dtype) -> ScaledPool:
    """Every byte 255: NaN as a scale and as FP8."""
    raw = torch.full((pages, LAYERS, 2, kv_heads, 64 * (WIDTH + 4)), 255, dtype=torch.uint8)
    return split_blocks(raw, WIDTH, values, compute)


def send(pool: ScaledPool, device: torch.device) -> ScaledPool:
    """The same bytes elsewhere, in the same layout."""
    pages, layers, two, kv_heads = pool.shape[:4]
    raw = torch.empty(pages, layers, two, kv_heads, 64 * (WIDTH + 4), dtype=torch.uint8)
    raw[..., : 64 * WIDTH] = pool.values.view(torch.uint8).flatten(-2)
    raw[..., 64 * WIDTH :] = pool.scales.contiguous().view(torch.uint8)
    return split_blocks(raw.to(device), WIDTH, pool.values.dtype, pool.compute)


def fill(pool: ScaledPool, pages: list[int], tokens: int, seed: int) -> None:
    """Random keys and values at [0, tokens) of layer 1."""
    rows = normal(seed, tokens, 2, pool.shape[3], WIDTH, device=torch.device("cpu")) if tokens else []
    for t, row in enumerate(rows):
        numbers, scales = round_rows(row, pool.values.dtype)
        pool.values.view(torch.uint8)[pages[t // 64], 1, :, :, t % 64] = numbers.view(torch.uint8)
        pool.scales[pages[t // 64], 1, :, :, t % 64] = scales


def read(pool: ScaledPool) -> Tensor:
    """All rows in FP32 on the CPU; what was not written is NaN."""
    return pool.values.cpu().float() * pool.scales.cpu().unsqueeze(-1)


def pools_agree(got: ScaledPool, want: ScaledPool, bound: float) -> None:
    assert torch.equal(read(got).isnan(), read(want).isnan())
    near(read(got).nan_to_num(0.0), read(want).nan_to_num(0.0), bound)


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize(("dtype", "bound"), FORMATS)
@pytest.mark.parametrize("lengths", [[65], [130, 1, 64]])
def test_decode(values: torch.dtype, dtype: torch.dtype, bound: float, lengths: list[int], device) -> None:
    """The new token is rounded into its page, then every query sees the rounded pages; nothing past an end is read."""
    rows, heads, kv_heads = len(lengths), 6, 2
    tables = [[4 * row + 4, 4 * row + 1, 4 * row + 3, 4 * row + 2] for row in range(rows)]
    expected = poisoned_pool(1 + 4 * rows, kv_heads, values, dtype)
    for row, length in enumerate(lengths):
        fill(expected, tables[row], length - 1, row)
    pool = send(expected, device)
    case = Heads(rows, heads, kv_heads, [length + 4 for length in lengths], dtype, device)
    table = torch.tensor(tables, dtype=torch.int32, device=device)
    at = torch.tensor(lengths, dtype=torch.int32, device=device)
    q, _ = place_heads(case.y, heads, case.norm, case.tables, pool, 1, table, at)
    got = attend_pages(q, case.gates, pool, 1, table, at, 2)
    want = torch.cat(
        [
            judge.attend(case.q[r : r + 1], case.k[r : r + 1], case.v[r : r + 1], expected, 1, tables[r], length - 1)
            for r, length in enumerate(lengths)
        ]
    )
    near(got.view(want.shape), want * case.gates.float().cpu().sigmoid().view(want.shape), max(bound, 1e-3))
    pools_agree(pool, expected, 5e-3)  # a key that lies between two numbers may fall to either side


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize(("dtype", "bound"), FORMATS)
@pytest.mark.parametrize(("start", "tokens"), [(0, 70), (63, 2), (100, 35)])
def test_prefill(values: torch.dtype, dtype: torch.dtype, bound: float, start: int, tokens: int, device) -> None:
    """A chunk over its past and itself, all of it rounded."""
    heads, kv_heads, pages = 4, 2, [3, 1, 4]
    expected = poisoned_pool(5, kv_heads, values, dtype)
    fill(expected, pages, start, 9)
    pool = send(expected, device)
    case = Heads(tokens, heads, kv_heads, list(range(start, start + tokens)), dtype, device)
    table = torch.tensor([pages], dtype=torch.int32, device=device)
    span = make_span(tokens, start, device=device)
    q, _ = place_heads(case.y, heads, case.norm, case.tables, pool, 1, table, span)
    got = attend_chunk_pages(q, case.gates, pool, 1, table, span, PrefillTiles(queries=32))
    want = judge.attend(case.q, case.k, case.v, expected, 1, pages, start)
    near(got.view(want.shape), want * case.gates.float().cpu().sigmoid().view(want.shape), max(bound, 1e-3))
    pools_agree(pool, expected, 5e-3)


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("size", [1e-4, 1.0, 300.0])
def test_both_routes_round_alike(values: torch.dtype, size: float, device: torch.device) -> None:
    """Values go into the page as they are: the kernel's numbers are those of the plain route, zeros included."""
    rows, heads, kv_heads = 40, 2, 2
    case = Heads(rows, heads, kv_heads, list(range(rows)), torch.float32, device)
    y = case.y * size
    y[3] = 0.0
    pool = send(poisoned_pool(2, kv_heads, values, torch.float32), device)
    table = torch.tensor([[1]], dtype=torch.int32, device=device)
    place_heads(y, heads, case.norm, case.tables, pool, 0, table, make_span(rows, device=device))
    v = y.view(rows, -1, WIDTH)[:, heads + kv_heads : heads + 2 * kv_heads].cpu()
    numbers, scales = round_rows(v, values)
    got = pool.values[1, 0, 1, :, :rows].cpu().transpose(0, 1)
    torch.testing.assert_close(pool.scales[1, 0, 1, :, :rows].cpu().t(), scales, rtol=1e-6, atol=0)
    differ = got.float() != numbers.float()
    assert float(differ.float().mean()) < 2e-3  # a quotient on a boundary
    assert float((got.float() - numbers.float()).abs().max()) <= (1.0 if values == torch.int8 else 32.0)


@pytest.mark.parametrize("values", VALUES)
def test_what_is_no_number_reads_back_as_none(values: torch.dtype, device: torch.device) -> None:
    """Damaged weights show in the logits: rounding may not turn NaN or infinity into a number."""
    case = Heads(3, 2, 1, [0, 1, 2], torch.float32, device)
    y = case.y.clone()
    y[1, 3 * WIDTH] = float("nan")
    y[2, 3 * WIDTH + 5] = float("inf")
    pool = send(poisoned_pool(2, 1, values, torch.float32), device)
    place_heads(
        y,
        2,
        case.norm,
        case.tables,
        pool,
        0,
        torch.tensor([[1]], dtype=torch.int32, device=device),
        make_span(3, device=device),
    )
    scales = pool.scales[1, 0, 1, 0, :3].cpu()
    assert scales.isnan().tolist() == [False, True, True]


@pytest.mark.parametrize("kv_dtype", ["int8", "fp8"])
def test_a_device_with_such_pages_follows_the_plain_routes(kv_dtype: str, device: torch.device) -> None:
    """A prompt in two chunks and steps through fused kernels over one-byte pages: hidden rows near those of the CPU."""
    golden, dtype = read_golden("dense_text"), "bfloat16" if device.type == "cuda" else "float32"
    options = EngineOptions(
        model_dir=FIXTURES / "dense_text",
        dtype=dtype,  # type: ignore[arg-type]
        kv_dtype=kv_dtype,  # type: ignore[arg-type]
        max_concurrency=1,
        max_context=256,
        context_cache=ContextCacheOptions(device_state_slots=2, host_capacity_bytes=0),
    )
    rows = []
    for opened in (
        CudaDevice.open_on(device, MemoryBudget(), options, fused=True),
        CpuDevice.open(replace(options, dtype="float32")),
    ):
        sequence = Sequence_(opened, 0, 1, [3, 1, 2])  # type: ignore[arg-type]
        got = []
        for ids in (golden.prompt_ids[: golden.chunk_split], golden.prompt_ids[golden.chunk_split :], *[[7]] * 4):
            kind = UnitKind.PREFILL if len(ids) > 1 else UnitKind.DECODE
            unit = opened.submit_unit(UnitBatch(kind, (sequence.row(ids),)))
            done: list[object] = []
            while not done:
                opened.wait(10)
                done += opened.poll()
            assert done == [UnitDone(unit)]
            sequence.advance(len(ids))
            got.append(opened.arena.states.tail[1].float().cpu().clone())
        rows.append(torch.stack(got))
        opened.close()
    near(rows[0], rows[1], 5e-2 if device.type == "cuda" else 5e-3)
