"""Several tokens of each of several rows in one step, the state after each kept: every route against the judge."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from test_cuda_device import image, open_device, prefill, run, sequence
from test_scaled_pages import fill, pools_agree, send
from test_scaled_pages import poisoned_pool as scaled_pool
from test_triton_kernels import (
    DIM,
    FORMATS,
    HALF,
    TAPS,
    WIDTH,
    Heads,
    Mixer,
    near,
    normal,
    poisoned_pool,
    state_pool,
)

from ninfer.kernels.conv1d.triton_shift import shift_columns
from ninfer.kernels.gated_delta.triton_step import StepTiles, mix_step
from ninfer.kernels.paged_attention import attend_decode, plan_decode
from ninfer.kernels.paged_attention import reference as attention_judge
from ninfer.kernels.paged_attention.triton_decode import attend_pages
from ninfer.kernels.paged_attention.triton_heads import place_heads
from ninfer.ports.device import UnitKind

PAST = [62, 127, 5]
"""Tokens before the step: a row's new ones cross a page, begin one, or stay inside."""


def row_lengths(tokens: int) -> list[int]:
    return [past + t + 1 for past in PAST for t in range(tokens)]


def judge_attention(case: Heads, expected, tables: list[list[int]], tokens: int) -> Tensor:
    """Each row's tokens as a chunk of its own."""
    parts = []
    for lane, past in enumerate(PAST):
        rows = slice(lane * tokens, (lane + 1) * tokens)
        parts.append(attention_judge.attend(case.q[rows], case.k[rows], case.v[rows], expected, 1, tables[lane], past))
    return torch.cat(parts)


@pytest.mark.parametrize(("dtype", "bound"), FORMATS)
@pytest.mark.parametrize(("heads", "kv_heads", "tokens"), [(2, 1, 2), (12, 2, 4), (4, 2, 3)])
@pytest.mark.parametrize("splits", [None, 2])
def test_attention(
    dtype: torch.dtype, bound: float, heads: int, kv_heads: int, tokens: int, splits: int | None, device: torch.device
) -> None:
    """A token sees what its own length says, later ones of its row excepted; a part of the pages may hold none."""
    tables = [[4 * lane + 4, 4 * lane + 1, 4 * lane + 3] for lane in range(len(PAST))]
    before = poisoned_pool(1 + 4 * len(PAST), kv_heads, dtype)
    for lane, past in enumerate(PAST):
        for t in range(past):
            row = normal(1000 * lane + t, 2, kv_heads, WIDTH, device=torch.device("cpu")).to(dtype)
            before[tables[lane][t // 64], 1, :, :, t % 64] = row
    pool, expected = before.to(device), before.clone()
    lengths = row_lengths(tokens)
    case = Heads(len(lengths), heads, kv_heads, [length - 1 for length in lengths], dtype, device)
    table = torch.tensor(tables, dtype=torch.int32, device=device)
    at = torch.tensor(lengths, dtype=torch.int32, device=device)
    q, _ = place_heads(case.y, heads, case.norm, case.tables, pool, 1, table, at)
    got = attend_pages(q, case.gates, pool, 1, table, at, splits)
    want = judge_attention(case, expected, tables, tokens)
    near(got.view(want.shape), want * case.gates.float().cpu().sigmoid().view(want.shape), bound)
    assert torch.equal(pool.cpu().isnan(), expected.isnan())
    near(pool.cpu().nan_to_num(0.0), expected.nan_to_num(0.0), bound)


@pytest.mark.parametrize("values", [torch.int8, torch.float8_e4m3fn])
def test_attention_over_one_byte_pages(values: torch.dtype, device: torch.device) -> None:
    heads, kv_heads, tokens = 4, 2, 3
    tables = [[4 * lane + 4, 4 * lane + 1, 4 * lane + 3] for lane in range(len(PAST))]
    expected = scaled_pool(1 + 4 * len(PAST), kv_heads, values, torch.float32)
    for lane, past in enumerate(PAST):
        fill(expected, tables[lane], past, lane)
    pool, lengths = send(expected, device), row_lengths(tokens)
    case = Heads(len(lengths), heads, kv_heads, [length - 1 for length in lengths], torch.float32, device)
    table = torch.tensor(tables, dtype=torch.int32, device=device)
    at = torch.tensor(lengths, dtype=torch.int32, device=device)
    q, _ = place_heads(case.y, heads, case.norm, case.tables, pool, 1, table, at)
    got = attend_pages(q, case.gates, pool, 1, table, at)
    want = judge_attention(case, expected, tables, tokens)
    near(got.view(want.shape), want * case.gates.float().cpu().sigmoid().view(want.shape), 1e-3)
    pools_agree(pool, expected, 5e-3)


def test_the_plain_route_takes_rows_of_one_sequence() -> None:
    """The same pages for several rows whose lengths differ by one; the mask keeps later tokens out."""
    tokens, heads, kv_heads = 3, 4, 2
    tables = [[4 * lane + 4, 4 * lane + 1, 4 * lane + 3] for lane in range(len(PAST))]
    pool = poisoned_pool(1 + 4 * len(PAST), kv_heads, torch.float32)
    for lane, past in enumerate(PAST):
        for t in range(past):
            row = normal(1000 * lane + t, 2, kv_heads, WIDTH, device=torch.device("cpu"))
            pool[tables[lane][t // 64], 1, :, :, t % 64] = row
    expected, lengths = pool.clone(), row_lengths(tokens)
    case = Heads(len(lengths), heads, kv_heads, lengths, torch.float32, torch.device("cpu"))
    want = judge_attention(case, expected, tables, tokens)
    plan = plan_decode(pool, [tables[row // tokens] for row in range(len(lengths))], lengths)
    near(attend_decode(case.q.float(), case.k.float(), case.v, pool, 1, plan), want, 1e-5)
    near(pool.nan_to_num(0.0), expected.nan_to_num(0.0), 1e-6)


@pytest.mark.parametrize(("dtype", "bound"), FORMATS)
@pytest.mark.parametrize(("key_heads", "value_heads"), [(1, 1), (2, 6)])
@pytest.mark.parametrize("tokens", [2, 5])
def test_mixer(dtype: torch.dtype, bound: float, key_heads: int, value_heads: int, tokens: int, device) -> None:
    """A state for every column, one of them wanted by nobody; columns before and inside the step; read slots keep
    their bits."""
    lanes = 3
    case = Mixer(lanes * tokens, key_heads, value_heads, dtype, device)
    slots = lanes * (tokens + 1) + 1
    states = state_pool(slots, value_heads, device)
    columns = normal(22, slots, 3, TAPS - 1, case.channels, dtype=dtype, device=device)
    old_states, old_columns = states.clone(), columns.clone()
    reads = [1 + lane for lane in range(lanes)]
    writes = [lanes + 1 + n for n in range(lanes * tokens)]
    writes[tokens] = -1
    read, write = (torch.tensor(x, dtype=torch.int32, device=device) for x in (reads, writes))
    got = mix_step(
        case.y, case.conv, columns[:, 1], states[:, 1], case.rate, case.bias, case.norm, key_heads, read, write,
        StepTiles(part=8),
    )  # fmt: skip
    shift_columns(torch.stack([case.y[:, : case.channels]] * 3), columns, read, write)
    for lane in range(lanes):
        rows = slice(lane * tokens, (lane + 1) * tokens)
        out, after, _ = case.judge(rows, old_columns[reads[lane], 1], old_states[reads[lane], 1])
        near(got[rows], case.gated(out, rows), bound)
        raw = torch.cat([old_columns[reads[lane], 1], case.y[rows, : case.channels]])
        for t, slot in enumerate(writes[rows]):
            if slot >= 0:
                near(states[slot, 1], after[t], bound)
                assert torch.equal(columns[slot, 1], raw[t + 1 : t + TAPS])
    untouched = sorted(set(range(slots)) - set(writes))
    assert torch.equal(states[untouched], old_states[untouched])
    assert torch.equal(columns[untouched], old_columns[untouched])
    assert torch.equal(states[:, [0, 2]], old_states[:, [0, 2]])


def test_any_accepted_column_goes_on_as_if_the_rest_had_not_been(device: torch.device) -> None:
    """[decision 15] Columns one by one from the kept state: the numbers of steps that were never speculated."""
    tokens = 4
    case = Mixer(tokens, 2, 4, HALF, device)
    states, columns = state_pool(2 * tokens + 2, 4, device), None
    columns = normal(22, 2 * tokens + 2, 3, TAPS - 1, case.channels, dtype=HALF, device=device)

    def step(rows: slice, read: int, writes: list[int]) -> Tensor:
        slots = [torch.tensor(x, dtype=torch.int32, device=device) for x in ([read], writes)]
        y = case.y[rows]
        out = mix_step(y, case.conv, columns[:, 1], states[:, 1], case.rate, case.bias, case.norm, 2, *slots)
        shift_columns(torch.stack([y[:, : case.channels]] * 3), columns, *slots)
        return out

    together = step(slice(0, tokens), 1, [2, 3, 4, 5])
    read, single = 1, []
    for t in range(tokens):
        single.append(step(slice(t, t + 1), read, [6 + t % 2]))
        read = 6 + t % 2
        near(states[read, 1], states[2 + t, 1], 1e-6)
        assert torch.equal(columns[read, 1], columns[2 + t, 1])
    near(torch.cat(single), together, 1e-3)
    again = step(slice(2, 3), 3, [8])  # two columns accepted, the third fed again
    near(again, together[2:3], 1e-3)
    near(states[8, 1], states[4, 1], 1e-6)
    assert states.shape[-1] == DIM


def test_a_device_takes_verify_units(device: torch.device) -> None:
    """[decision 15] Two rows of different lengths, each the same bits as in a unit of its own."""
    fused, dtype = device.type == "cuda", "bfloat16" if device.type == "cuda" else "float32"
    opened = open_device("dense_text", device, dtype, fused=fused)
    runs = [[5, 6, 7, 8], [11, 12]]
    rows = [sequence(opened, 0, 1, [1, 2]), sequence(opened, 1, 2, [3, 4])]
    alone = [sequence(opened, 0, 3, [5, 6]), sequence(opened, 1, 4, [1, 2])]
    for one, ids in zip(rows, (list(range(30, 90)), [7, 8]), strict=True):
        prefill(one, ids)
    run(opened, UnitKind.VERIFY, [one.row(ids) for one, ids in zip(rows, runs, strict=True)])
    for one, ids, accepted in zip(alone, (list(range(30, 90)), [7, 8]), runs, strict=True):
        prefill(one, ids)
        prefill(one, accepted)
    for one, other in zip(rows, alone, strict=True):
        assert torch.equal(image(opened, int(one.slot)), image(opened, int(other.slot)))
