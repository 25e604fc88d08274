"""Every route of `rope` against its judge."""

from __future__ import annotations

import pytest
import torch

from ninfer.kernels.rope import build_rotary, known_tables, reference, rotary_tables, rotate_

CASES = [(torch.float64, 1e-9), (torch.float32, 2e-4)]


@pytest.mark.parametrize(("dtype", "bound"), CASES)
@pytest.mark.parametrize("sections", [(3, 3, 2), (4, 2, 2), (8, 0, 0)])
def test_three_axes_turn_their_own_pairs(dtype: torch.dtype, bound: float, sections: tuple[int, int, int]) -> None:
    """[decision 17] positions are explicit triples; nothing is derived from a row number."""
    generator = torch.Generator().manual_seed(3)
    positions = torch.randint(0, 900, (3, 5), generator=generator, dtype=torch.int32)
    wide = torch.randn(5, 6, 24, generator=generator).to(dtype)
    before = wide.clone()
    want = reference.rotate(wide[:, 2:5], positions, 1e7, 16, sections)
    tables = rotary_tables(positions, build_rotary(1e7, 16, sections, dtype))
    rotate_(wide[:, 2:5], tables)
    torch.testing.assert_close(wide[:, 2:5].double(), want, rtol=bound, atol=bound)
    untouched = torch.ones_like(wide, dtype=torch.bool)
    untouched[:, 2:5, :16] = False
    assert torch.equal(wide[untouched], before[untouched])


def test_equal_axes_are_plain_rotary() -> None:
    x = torch.randn(4, 2, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    positions = torch.arange(4).expand(3, -1)
    mixed = rotate_(x.clone(), rotary_tables(positions, build_rotary(1e4, 16, (3, 3, 2), torch.float64)))
    plain = rotate_(x.clone(), rotary_tables(positions, build_rotary(1e4, 16, (8, 0, 0), torch.float64)))
    assert torch.equal(mixed, plain)


@pytest.mark.parametrize("positions", [[0], [6], [3, 0, 6, 3]])
def test_known_tables_are_the_computed_ones(positions: list[int]) -> None:
    rotary = build_rotary(1e7, 16, (3, 3, 2), torch.float32, known_positions=7)
    known = known_tables(positions, rotary)
    assert known is not None
    computed = rotary_tables(torch.tensor([positions] * 3), rotary)
    torch.testing.assert_close(known.cos, computed.cos, rtol=0, atol=1e-7)
    torch.testing.assert_close(known.sin, computed.sin, rtol=0, atol=1e-7)
    assert known_tables([1, 7], rotary) is None
