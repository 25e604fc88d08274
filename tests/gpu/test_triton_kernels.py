"""Every Triton route against its operator's judge: odd sizes, poisoned outputs, slots, cuts, lengths."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from ninfer.kernels.conv1d import reference as conv_judge
from ninfer.kernels.conv1d.triton_keep import keep_columns, keep_rows
from ninfer.kernels.conv1d.triton_shift import shift_columns
from ninfer.kernels.gated_delta import reference as delta_judge
from ninfer.kernels.gated_delta.triton_inputs import scan_inputs
from ninfer.kernels.gated_delta.triton_scan import scan_chunks
from ninfer.kernels.gated_delta.triton_step import StepTiles, mix_step
from ninfer.kernels.linear import reference as linear_judge
from ninfer.kernels.linear.triton_rows import choose_parts, multiply_parts, multiply_rows, multiply_rows_gated
from ninfer.kernels.moe.triton_group import group_pairs
from ninfer.kernels.moe.triton_step import choose_experts, gather_experts
from ninfer.kernels.paged_attention import reference as attention_judge
from ninfer.kernels.paged_attention.triton_decode import attend_pages
from ninfer.kernels.paged_attention.triton_heads import place_heads
from ninfer.kernels.paged_attention.triton_prefill import PrefillTiles, attend_chunk_pages
from ninfer.kernels.rmsnorm import RmsNorm
from ninfer.kernels.rmsnorm import reference as norm_judge
from ninfer.kernels.rmsnorm.triton_norm import add_norm, norm_gated
from ninfer.kernels.rope import build_rotary, rotary_tables
from ninfer.kernels.rope import reference as rope_judge
from ninfer.kernels.span import SpanNumbers, make_span, span_size, write_span
from ninfer.kernels.swiglu import reference as swiglu_judge
from ninfer.kernels.swiglu.triton_swiglu import swiglu

HALF = torch.bfloat16 if os.environ.get("NINFER_TEST_DEVICE") == "cuda" else torch.float16
"""The interpreter multiplies no BF16 matrices."""
FORMATS = [(torch.float32, 3e-5), (HALF, 2e-2)]
EPS = 1e-6
NAN = float("nan")


def normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32, device: torch.device) -> Tensor:
    """Fresh random numbers, the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(device, dtype)


def near(got: Tensor, want: Tensor, bound: float) -> None:
    """Relative to the size of the whole: ||got - want|| <= bound * ||want||; NaN never passes."""
    got, want = got.double().cpu(), want.double().cpu()
    assert got.shape == want.shape
    error = float((got - want).norm() / want.norm())
    assert error <= bound, error


def make_norm(weight: Tensor, offset: float) -> RmsNorm:
    with weight.device:
        norm = RmsNorm.empty(tuple(weight.shape), EPS, torch.float32)
    norm.fill(weight, offset=offset)
    return norm


@pytest.mark.parametrize(("dtype", "bound"), FORMATS)
@pytest.mark.parametrize(("rows", "width"), [(1, 48), (3, 130), (2, 257)])
def test_add_norm(dtype: torch.dtype, bound: float, rows: int, width: int, device: torch.device) -> None:
    """The residual keeps FP32 and gets exactly the sum."""
    x, delta = normal(1, rows, width, device=device), normal(2, rows, 2 * width, dtype=dtype, device=device)[:, :width]
    weight = normal(3, width, device=device)
    norm, want = make_norm(weight, 1.0), x + delta.float()
    alone = add_norm(x, None, norm, dtype)
    near(alone, norm_judge.rmsnorm(x.cpu(), 1 + weight.cpu(), EPS), bound)
    got = add_norm(x, delta, norm, dtype)
    assert torch.equal(x, want)
    near(got, norm_judge.rmsnorm(want.cpu(), 1 + weight.cpu(), EPS), bound)


@pytest.mark.parametrize(("dtype", "bound"), FORMATS)
def test_norm_gated(dtype: torch.dtype, bound: float, device: torch.device) -> None:
    x = normal(1, 5, 3, 32, dtype=dtype, device=device)
    z, weight = normal(2, 5, 300, dtype=dtype, device=device)[:, 7:103], normal(3, 32, device=device)
    got = norm_gated(x, z, make_norm(weight, 0.0), dtype)
    want = norm_judge.rmsnorm_gated(x.view(15, 32).cpu(), z.reshape(15, 32).cpu(), weight.cpu(), EPS)
    near(got.view(15, 32), want, bound)


@pytest.mark.parametrize(("dtype", "bound"), FORMATS)
@pytest.mark.parametrize(("rows", "inner"), [(1, 16), (3, 70), (2, 1100)])
def test_swiglu(dtype: torch.dtype, bound: float, rows: int, inner: int, device: torch.device) -> None:
    x = normal(5, rows, 2 * inner, dtype=dtype, device=device)
    near(swiglu(x), swiglu_judge.swiglu(x.cpu()), bound)


@pytest.mark.parametrize(("dtype", "bound"), FORMATS)
@pytest.mark.parametrize(("batch", "width", "features"), [(1, 64, 48), (3, 400, 70), (8, 96, 33), (9, 200, 16)])
@pytest.mark.parametrize("parts", [1, 3])
def test_rows(dtype: torch.dtype, bound: float, batch: int, width: int, features: int, parts: int, device) -> None:
    """Odd widths and counts, parts without inputs; the parts reach the residual through the norm that follows."""
    x, weight = (
        normal(51, batch, width, dtype=dtype, device=device),
        normal(52, features, width, device=device).to(dtype),
    )
    sums = multiply_parts(x, weight, parts)
    want = linear_judge.linear(x.cpu(), weight.cpu()).float()
    near(sums.sum(0), want, bound)
    near(multiply_rows(x, weight), want, bound)
    even = weight[: features // 2 * 2]
    near(multiply_rows_gated(x, even), swiglu_judge.swiglu(linear_judge.linear(x.cpu(), even.cpu()).float()), bound)
    residual, offset = normal(53, batch, features, device=device), normal(54, features, device=device)
    before = residual.clone()
    normed = add_norm(residual, sums, make_norm(offset, 1.0), dtype)
    near(residual, before.cpu() + want, bound)
    near(normed, norm_judge.rmsnorm(residual.cpu(), 1 + offset.cpu(), EPS), bound)


def test_parts_fill_the_chip_and_have_enough_to_read() -> None:
    assert [choose_parts(*shape) for shape in ((12352, 2560), (2560, 4096), (2560, 9216), (257, 2048))] == [1, 4, 4, 4]


# ---- attention ----------------------------------------------------------------------------------------------------

WIDTH, TURNING, SECTIONS, LAYERS = 64, 16, (4, 2, 2), 3


class Heads:
    """A fused projection of N rows with its norms, rotations and what the judge makes of them."""

    def __init__(self, rows: int, heads: int, kv_heads: int, positions: list[int], dtype: torch.dtype, device) -> None:
        self.heads, self.kv_heads = heads, kv_heads
        self.y = normal(7 + rows, rows, 2 * (heads + kv_heads) * WIDTH + 8, dtype=dtype, device=device)[:, :-8]
        weight = normal(8, heads + kv_heads, WIDTH, device=device)
        self.norm = make_norm(weight, 1.0)
        at = torch.tensor([positions, [p + 3 for p in positions], [2 * p for p in positions]])
        with device:
            rotary = build_rotary(1e4, TURNING, SECTIONS, torch.float32)
        self.tables = rotary_tables(at.to(device), rotary)
        flat = self.y.float().cpu().view(rows, -1, WIDTH)
        turned = torch.stack(
            [norm_judge.rmsnorm(flat[:, h], 1 + weight[h].cpu(), EPS) for h in range(heads + kv_heads)], 1
        )
        turned = rope_judge.rotate(turned, at, 1e4, TURNING, SECTIONS)
        self.q, self.k = turned[:, :heads], turned[:, heads:]
        self.v = flat[:, heads + kv_heads : heads + 2 * kv_heads]
        self.gates = self.y[:, (heads + 2 * kv_heads) * WIDTH :]


def poisoned_pool(pages: int, kv_heads: int, dtype: torch.dtype) -> Tensor:
    return torch.full((pages, LAYERS, 2, kv_heads, 64, WIDTH), NAN, dtype=dtype)


@pytest.mark.parametrize(("dtype", "bound"), FORMATS)
@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 1), (12, 2)])
@pytest.mark.parametrize("lengths", [[65], [130, 1, 64]])
@pytest.mark.parametrize("splits", [None, 2])
def test_attention_decode(
    dtype: torch.dtype, bound: float, heads: int, kv_heads: int, lengths: list[int], splits: int | None, device
) -> None:
    """New keys and values land in their pages; nothing past a row's end is read; more parts than pages are fine."""
    rows = len(lengths)
    tables = [[4 * row + 4, 4 * row + 1, 4 * row + 3, 4 * row + 2] for row in range(rows)]
    before = poisoned_pool(1 + 4 * rows, kv_heads, dtype)
    for row, length in enumerate(lengths):
        for t in range(length - 1):
            before[tables[row][t // 64], 1, :, :, t % 64] = normal(
                1000 * row + t, 2, kv_heads, WIDTH, device=torch.device("cpu")
            ).to(dtype)
    pool, expected = before.to(device), before.clone()
    case = Heads(rows, heads, kv_heads, [length + 4 for length in lengths], dtype, device)
    table = torch.tensor(tables, dtype=torch.int32, device=device)
    at = torch.tensor(lengths, dtype=torch.int32, device=device)
    q, k = place_heads(case.y, heads, case.norm, case.tables, pool, 1, table, at)
    near(q, case.q, bound)
    near(k, case.k, bound)
    got = attend_pages(q, case.gates, pool, 1, table, at, splits)
    want = torch.cat(
        [
            attention_judge.attend(
                case.q[r : r + 1], case.k[r : r + 1], case.v[r : r + 1], expected, 1, tables[r], length - 1
            )
            for r, length in enumerate(lengths)
        ]
    )
    gates = case.gates.float().cpu().sigmoid().view(want.shape)
    near(got.view(want.shape), want * gates, bound)
    assert torch.equal(pool.cpu().isnan(), expected.isnan())
    near(pool.cpu().nan_to_num(0.0), expected.nan_to_num(0.0), bound)


@pytest.mark.parametrize(("dtype", "bound"), FORMATS)
@pytest.mark.parametrize(("start", "tokens"), [(0, 1), (0, 70), (63, 2), (100, 35)])
def test_attention_prefill(dtype: torch.dtype, bound: float, start: int, tokens: int, device: torch.device) -> None:
    """A chunk over its past: the mask follows the history, not the corner of the chunk; what is past the end is NaN.
    In one part and in several, of which some have no page."""
    heads, kv_heads, pages = 4, 2, [3, 1, 4]
    before = poisoned_pool(5, kv_heads, dtype)
    for t in range(start):
        before[pages[t // 64], 1, :, :, t % 64] = normal(t, 2, kv_heads, WIDTH, device=torch.device("cpu")).to(dtype)
    case = Heads(tokens, heads, kv_heads, list(range(start, start + tokens)), dtype, device)
    pool, expected = before.to(device), before.clone()
    table = torch.tensor([pages], dtype=torch.int32, device=device)
    span = make_span(tokens, start, device=device)
    q, _ = place_heads(case.y, heads, case.norm, case.tables, pool, 1, table, span)
    got = attend_chunk_pages(q, case.gates, pool, 1, table, span, PrefillTiles(queries=32, parts=1))
    parted = attend_chunk_pages(q, case.gates, pool, 1, table, span, PrefillTiles(queries=32, parts=4))
    want = attention_judge.attend(case.q, case.k, case.v, expected, 1, pages, start)
    near(got.view(want.shape), want * case.gates.float().cpu().sigmoid().view(want.shape), bound)
    near(parted, got, bound)
    padded = padded_heads(case, start, 70, dtype, device)
    q, _ = place_heads(padded.y, heads, case.norm, padded.tables, pool, 1, table, span)
    for parts, alone in ((1, got), (4, parted)):
        again = attend_chunk_pages(q, padded.gates, pool, 1, table, span, PrefillTiles(queries=32, parts=parts))
        near(again[:tokens], alone, 1e-6)
        assert not again[tokens:].any(), "rows that are no tokens are zeros"
    near(pool.cpu().nan_to_num(0.0), expected.nan_to_num(0.0), bound)
    assert torch.equal(pool.cpu().isnan(), expected.isnan()), "rows that are no tokens write nothing"


def padded_heads(case: Heads, start: int, rows: int, dtype: torch.dtype, device: torch.device) -> Heads:
    """The same tokens first, and NaN behind them."""
    tokens = case.y.shape[0]
    padded = Heads(rows, case.q.shape[1], case.k.shape[1], list(range(start, start + rows)), dtype, device)
    for full, given in ((padded.y, case.y), (padded.gates, case.gates)):
        full.fill_(float("nan"))
        full[:tokens] = given
    padded.tables.cos[:tokens], padded.tables.sin[:tokens] = case.tables.cos, case.tables.sin
    return padded


@pytest.mark.parametrize(("dtype", "bound"), FORMATS)
def test_heads_of_one_sequence(dtype: torch.dtype, bound: float, device: torch.device) -> None:
    """Prefill: row n of one sequence lies at start + n."""
    start, tokens, pages = 60, 9, [3, 1]
    case = Heads(tokens, 4, 2, list(range(start, start + tokens)), dtype, device)
    pool = poisoned_pool(4, 2, dtype).to(device)
    table = torch.tensor([pages], dtype=torch.int32, device=device)
    q, k = place_heads(case.y, 4, case.norm, case.tables, pool, 2, table, make_span(tokens, start, device=device))
    near(q, case.q, bound)
    near(k, case.k, bound)
    for n in range(tokens):
        page, inside = pages[(start + n) // 64], (start + n) % 64
        near(pool[page, 2, 0, :, inside], case.k[n], bound)
        near(pool[page, 2, 1, :, inside], case.v[n], bound)
    assert int((~pool.isnan()).sum()) == tokens * 2 * 2 * WIDTH


# ---- gated delta --------------------------------------------------------------------------------------------------

DIM, TAPS = 16, 4


class Mixer:
    """A fused projection [N, q | k | v | z | b | a] with the small weights of one layer."""

    def __init__(self, rows: int, key_heads: int, value_heads: int, dtype: torch.dtype, device: torch.device) -> None:
        self.key_heads, self.value_heads = key_heads, value_heads
        self.channels = (2 * key_heads + value_heads) * DIM
        width = self.channels + value_heads * DIM + 2 * value_heads
        self.y = normal(rows, rows, width + 4, dtype=dtype, device=device)[:, :-4]
        self.conv = normal(11, TAPS, self.channels, device=device)
        a_log = normal(12, value_heads, device=device)
        self.rate, self.bias = -a_log.exp(), normal(13, value_heads, device=device)
        self.weight = normal(14, DIM, device=device)
        self.norm = make_norm(self.weight, 0.0)
        self.a_log = a_log.cpu()

    def judge(self, rows: slice, before: Tensor, state: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
        """One sequence of these rows: (o [T, Hv, D] before the norm, states after each token, columns after)."""
        y = self.y[rows].double().cpu()
        mixed, columns = conv_judge.conv(y[:, : self.channels], self.conv.cpu(), before.double().cpu())
        b, a = y[:, -2 * self.value_heads : -self.value_heads], y[:, -self.value_heads :]
        inputs = delta_judge.delta_inputs(mixed, b, a, self.a_log, self.bias.cpu(), self.key_heads, DIM)
        q, k, v, log_decay, beta = inputs
        out, states = delta_judge.delta_rule(q, k, v, log_decay, beta, state.cpu())
        return out, states, columns

    def gated(self, out: Tensor, rows: slice) -> Tensor:
        z = self.y[rows, self.channels : self.channels + self.value_heads * DIM].float().cpu()
        gated = norm_judge.rmsnorm_gated(out.reshape(-1, DIM), z.reshape(-1, DIM), self.weight.cpu(), EPS)
        return gated.view(len(out), -1)


def state_pool(slots: int, heads: int, device: torch.device) -> Tensor:
    """Three layers' matrices in wider images."""
    return normal(21, slots, 3, heads, DIM, DIM, device=device)


@pytest.mark.parametrize(("dtype", "bound"), FORMATS)
@pytest.mark.parametrize(("key_heads", "value_heads"), [(1, 1), (2, 6)])
@pytest.mark.parametrize("batch", [1, 3])
def test_mix_step(dtype: torch.dtype, bound: float, key_heads: int, value_heads: int, batch: int, device) -> None:
    """Rows in place and rows to another slot; the read slot keeps its bits; columns move once, at the end."""
    case = Mixer(batch, key_heads, value_heads, dtype, device)
    states = state_pool(2 * batch + 1, value_heads, device)
    columns = normal(22, 2 * batch + 1, 3, TAPS - 1, case.channels, dtype=dtype, device=device)
    reads = list(range(1, batch + 1))
    writes = [slot if slot % 2 else slot + batch for slot in reads]
    old_states, old_columns = states.clone(), columns.clone()
    read, write = (torch.tensor(x, dtype=torch.int32, device=device) for x in (reads, writes))
    got = mix_step(
        case.y,
        case.conv,
        columns[:, 1],
        states[:, 1],
        case.rate,
        case.bias,
        case.norm,
        key_heads,
        read,
        write,
        StepTiles(part=8),
    )
    newest = torch.stack([case.y[:, : case.channels]] * 3)
    shift_columns(newest, columns, read, write)
    for row in range(batch):
        rows = slice(row, row + 1)
        out, after, kept = case.judge(rows, old_columns[reads[row], 1], old_states[reads[row], 1])
        near(got[rows], case.gated(out, rows), bound)
        near(states[writes[row], 1], after[0], bound)
        assert torch.equal(columns[writes[row], 1].double().cpu(), kept)
    untouched = sorted(set(range(2 * batch + 1)) - set(writes))
    assert torch.equal(states[untouched], old_states[untouched])
    assert torch.equal(states[:, [0, 2]], old_states[:, [0, 2]])
    assert torch.equal(columns[untouched], old_columns[untouched])


@pytest.mark.parametrize(("dtype", "bound"), FORMATS)
@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize(("tokens", "cuts"), [(1, ()), (2, (1,)), (64, ()), (65, (64,)), (150, (37, 100))])
def test_scan(dtype: torch.dtype, bound: float, fresh: bool, tokens: int, cuts: tuple[int, ...], device) -> None:
    """Ragged chunks, cuts with and without a slot, an empty or a given start; states in full precision."""
    case = Mixer(tokens, 2, 4, dtype, device)
    states = state_pool(8, 4, device)
    old = states.clone()
    before = torch.zeros(TAPS - 1, case.channels, dtype=dtype, device=device)
    if not fresh:
        before = normal(23, TAPS - 1, case.channels, dtype=dtype, device=device)
    columns = normal(24, 8, TAPS - 1, case.channels, dtype=dtype, device=device)
    columns[1] = before
    given = tuple((cut, 4 + i if i % 2 == 0 else None) for i, cut in enumerate(cuts))
    span = make_span(tokens, 9, None if fresh else 1, 2, given, device)
    inputs = scan_inputs(case.y, case.conv, columns, span, case.rate, case.bias, 2, DIM)
    got = scan_chunks(inputs, states[:, 1], span, tokens)
    start = torch.zeros(4, DIM, DIM) if fresh else old[1, 1]
    want, after, _ = case.judge(slice(None), before, start)
    near(got, want, bound)
    near(states[2, 1], after[-1], bound)
    for offset, slot in given:
        if slot is not None:
            near(states[slot, 1], after[offset - 1], bound)
    written = {2, *(slot for _, slot in given if slot is not None)}
    untouched = sorted(set(range(8)) - written)
    assert torch.equal(states[untouched], old[untouched])
    assert torch.equal(states[:, [0, 2]], old[:, [0, 2]])


def test_a_scan_resumed_at_its_own_cut_is_bit_identical(device: torch.device) -> None:
    """[decision 8] [D5]"""
    case = Mixer(100, 2, 4, HALF, device)
    states = state_pool(6, 4, device)
    columns = normal(24, 6, TAPS - 1, case.channels, dtype=HALF, device=device)
    span = make_span(100, 0, None, 2, ((37, 3),), device)
    inputs = scan_inputs(case.y, case.conv, columns, span, case.rate, case.bias, 2, DIM)
    keep_columns(case.y, columns, span)
    whole = scan_chunks(inputs, states[:, 1], span, 100)
    span = make_span(63, 37, 3, 4, (), device)
    rest = scan_inputs(case.y[37:], case.conv, columns, span, case.rate, case.bias, 2, DIM)
    assert torch.equal(scan_chunks(rest, states[:, 1], span, 63), whole[37:])
    assert torch.equal(states[4, 1], states[2, 1])


def test_a_scan_with_room_for_more_is_the_same(device: torch.device) -> None:
    """[decision 8] Rows, chunks and cuts that are not in use, as in a captured launch, change no bit."""
    case = Mixer(200, 2, 4, HALF, device)
    columns = normal(24, 6, TAPS - 1, case.channels, dtype=HALF, device=device)
    columns = torch.stack([columns, columns])
    states = torch.stack([state_pool(6, 4, device)] * 2)
    numbers = np.empty(span_size(9, 6), dtype=np.int32)
    write_span(numbers, 9, 100, 3, 1, 2, ((2, 4), (37, None), (100, 5)))
    roomy = SpanNumbers.of(torch.from_numpy(numbers).to(device), 9, 6)
    exact = make_span(100, 3, 1, 2, ((2, 4), (37, None), (100, 5)), device)
    outs, tails = [], torch.zeros(2, 6, 24, device=device)
    hidden = normal(31, 200, 24, device=device)
    for index, (span, rows) in enumerate(((exact, 100), (roomy, 200))):
        inputs = scan_inputs(case.y[:rows], case.conv, columns[index], span, case.rate, case.bias, 2, DIM)
        keep_columns(case.y[:rows], columns[index], span)
        out = scan_chunks(inputs, states[index][:, 1], span, rows)
        out[100:] = float("nan")
        z = case.y[:rows, case.channels : case.channels + 4 * DIM]
        outs.append(norm_gated(out, z, case.norm, HALF, span))
        keep_rows(hidden[:rows], tails[index], span)
    assert torch.equal(outs[0], outs[1][:100])
    assert not outs[1][100:].any()
    assert torch.equal(states[0], states[1])
    assert torch.equal(columns[0], columns[1])
    assert torch.equal(tails[0], tails[1])
    assert torch.equal(tails[0, [4, 5, 2]], hidden[[1, 99, 99]])
    assert not tails[0, [0, 1, 3]].any()


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize(("tokens", "cuts"), [(1, ()), (2, (1,)), (90, (2, 40))])
def test_kept_columns(fresh: bool, in_place: bool, tokens: int, cuts: tuple[int, ...], device: torch.device) -> None:
    """The last raw columns before each cut, from the read slot where the chunk has too few, into other slots or it."""
    kept, channels, write = TAPS - 1, 20, 1 if in_place else 2
    m = normal(41, tokens, channels + 4, device=device)
    columns = normal(42, 8, kept, channels, device=device)
    old = columns.clone()
    given = tuple((cut, 4 + i if i % 2 == 0 else None) for i, cut in enumerate(cuts))
    keep_columns(m, columns, make_span(tokens, 5, None if fresh else 1, write, given, device))
    ahead = torch.zeros_like(old[1]) if fresh else old[1]
    history = torch.cat([ahead, m[:, :channels]])
    expected = old.clone()
    for offset, slot in (*given, (tokens, write)):
        if slot is not None:
            expected[slot] = history[offset : offset + kept]
    assert torch.equal(columns, expected)


@pytest.mark.parametrize("same_keys", [True, False])
def test_hard_scans_stay_exact(same_keys: bool, device: torch.device) -> None:
    """Equal keys without decay make the powers of the chunk's system huge; strong decay must not overflow."""
    case = Mixer(130, 1, 2, torch.float32, device)
    span = make_span(130, 0, None, 1, (), device)
    columns = normal(24, 2, TAPS - 1, case.channels, device=device)
    inputs = scan_inputs(case.y, case.conv, columns, span, case.rate, case.bias, 1, DIM)
    if same_keys:
        inputs.k.copy_(inputs.k[:1].clone().expand_as(inputs.k))
        inputs.log_decay.zero_()
        inputs.beta.fill_(1.0)
    else:
        inputs.log_decay.fill_(-40.0)
    states = state_pool(2, 2, device)
    q, k, v, decay, beta = (x[:130].cpu() for x in (inputs.q, inputs.k, inputs.v, inputs.log_decay, inputs.beta))
    want, after = delta_judge.delta_rule(q * DIM**0.5, k, v, decay, beta, torch.zeros(2, DIM, DIM))
    near(scan_chunks(inputs, states[:, 1], span, 130), want, 1e-4)
    near(states[1, 1], after[-1], 1e-4)


# ---- experts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
def test_experts_are_chosen_and_summed(dtype: torch.dtype, device: torch.device) -> None:
    """Weights with sum 1, best first; rows of experts in any order reach their tokens, the shared one beside them."""
    tokens, experts, top_k, hidden = 5, 6, 3, 130
    logits = normal(32, tokens, experts + 1, dtype=dtype, device=device)
    weights, ids = choose_experts(logits, experts, top_k)
    want, chosen = logits[:, :experts].float().cpu().softmax(-1).topk(top_k)
    assert torch.equal(ids.cpu().long(), chosen)
    near(weights, want / want.sum(-1, keepdim=True), 1e-5)
    order = torch.randperm(tokens * top_k, generator=torch.Generator().manual_seed(1))
    rows = normal(33, tokens * top_k, hidden, dtype=dtype, device=device)
    shared = normal(35, tokens, hidden, dtype=dtype, device=device)
    got = gather_experts(rows, order.view(tokens, top_k).to(device), weights, shared, logits[:, experts:])
    routed = (rows.float().cpu()[order].view(tokens, top_k, hidden) * weights.cpu().unsqueeze(-1)).sum(1)
    near(got, routed + logits[:, experts:].float().cpu().sigmoid() * shared.float().cpu(), 1e-5)


def test_pairs_are_grouped_by_expert_in_order(device: torch.device) -> None:
    ids = torch.randint(0, 7, (700, 3), generator=torch.Generator().manual_seed(4)).to(torch.int32)
    tokens, places, ends = (x.cpu() for x in group_pairs(ids.to(device), 9))
    order = ids.flatten().long().argsort(stable=True)
    assert torch.equal(tokens, order // 3)
    assert torch.equal(order[places.flatten()], torch.arange(2100))
    assert ends.tolist() == [int((ids <= expert).sum()) for expert in range(9)]
