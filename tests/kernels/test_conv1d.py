"""Every route of `conv1d` against its judge: parts, cuts, slots."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ninfer.kernels.conv1d import conv_scan, conv_step, reference
from ninfer.kernels.slots import step_slots

CHANNELS = 13


def poisoned_columns(slots: int, taps: int, dtype: torch.dtype) -> Tensor:
    """Columns of slots inside wider images, as in an arena; nothing is written yet."""
    return torch.full((slots, 3, taps - 1, CHANNELS + 3), float("nan"), dtype=dtype)[:, 1, :, :CHANNELS]


def random_input(tokens: int, taps: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(tokens * 10 + taps)
    fine = torch.promote_types(dtype, torch.float32)
    m = torch.randn(tokens, CHANNELS + 5, generator=generator).to(dtype).to(fine)[:, 2 : 2 + CHANNELS]
    return m, torch.randn(taps, CHANNELS, generator=generator, dtype=fine)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("taps", [2, 4])
@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 70])
def test_scan_from_the_empty_state(dtype: torch.dtype, taps: int, tokens: int) -> None:
    m, weight = random_input(tokens, taps, dtype)
    columns = poisoned_columns(3, taps, dtype)
    want, after = reference.conv(m, weight, torch.zeros(taps - 1, CHANNELS, dtype=m.dtype))
    got = conv_scan(m, weight, columns, None, 2)
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)
    assert torch.equal(columns[2].to(after.dtype), after)
    assert columns[:2].isnan().all()


@settings(max_examples=30, deadline=None)
@given(tokens=st.integers(1, 40), data=st.data())
def test_parts_and_cuts_change_nothing(tokens: int, data: st.DataObject) -> None:
    """Two chunks = one, and a cut leaves what a chunk end leaves [decision 6]."""
    m, weight = random_input(tokens, 4, torch.float32)
    cuts = sorted(data.draw(st.sets(st.integers(1, tokens), max_size=3)))
    columns = poisoned_columns(8, 4, torch.float32)
    whole = conv_scan(m, weight, columns, None, 1, tuple((cut, 2 + i) for i, cut in enumerate(cuts)))
    plain = poisoned_columns(8, 4, torch.float32)
    parts, start, slot = [], 0, None
    for i, stop in enumerate([*cuts, tokens]):
        if stop > start:
            parts.append(conv_scan(m[start:stop], weight, plain, slot, 7))
            start, slot = stop, 7
        if i < len(cuts):
            assert torch.equal(plain[7], columns[2 + i])
    torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-6, atol=1e-6)
    assert torch.equal(plain[7], columns[1])


def test_step_equals_scan_and_leaves_other_slots() -> None:
    """Read slot and write slot are named apart; in place only when equal [decision 5]."""
    m, weight = random_input(9, 4, torch.float32)
    columns = poisoned_columns(7, 4, torch.float32)
    for slot, length in ((1, 5), (2, 3), (3, 6)):
        conv_scan(m[:length], weight, columns, None, slot)
    before = columns.clone()
    reads, writes = [1, 2, 3], [1, 5, 4]
    got = conv_step(m[[5, 3, 6]], weight, columns, step_slots(reads, writes))
    for row, length in enumerate((5, 3, 6)):
        plain = poisoned_columns(2, 4, torch.float32)
        want = conv_scan(m[: length + 1], weight, plain, None, 1)[-1]
        torch.testing.assert_close(got[row], want, rtol=1e-6, atol=1e-6)
        assert torch.equal(columns[writes[row]], plain[1])
    assert torch.equal(columns[[2, 3]], before[[2, 3]])
    assert columns[[0, 6]].isnan().all()


@pytest.mark.parametrize("write", [1, 3])
def test_a_single_row_steps_in_place_or_away(write: int) -> None:
    m, weight = random_input(6, 4, torch.float32)
    columns = poisoned_columns(5, 4, torch.float32)
    conv_scan(m[:5], weight, columns, None, 1)
    before = columns[1].clone()
    want = conv_scan(m, weight, columns, None, 2)[-1]
    got = conv_step(m[5:], weight, columns, step_slots([1], [write]))
    torch.testing.assert_close(got[0], want, rtol=1e-6, atol=1e-6)
    assert torch.equal(columns[write], columns[2])
    assert torch.equal(columns[1], before) == (write != 1)
