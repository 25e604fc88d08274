"""docs/design/byte-layout.md says where every number of a page and of a StateImage lies; the arena agrees [D7]."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest
import torch

from ninfer.base.pools import Pool
from ninfer.config.geometry import ELEMENT_BYTES, ModelGeometry, NumericFormat, read_geometry
from ninfer.device.arena import Arena
from ninfer.device.layout import DeviceLayout, LayoutRequest, plan_layout
from ninfer.ports.device import BYTE_LAYOUT_VERSION

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "design" / "byte-layout.md").read_text()
ROWS = re.findall(
    r"^\| (\w+) \| (bfloat16|float32|float64) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", TEXT, re.MULTILINE
)
CASES = [pytest.param(*row, id=f"{row[0]}-{row[1]}") for row in ROWS]


def open_arena(
    fixture: str, numeric_format: NumericFormat, kv_dtype: Literal["auto", "fp8", "int8"] = "auto"
) -> tuple[ModelGeometry, DeviceLayout, Arena]:
    geometry = read_geometry(ROOT / "tests" / "data" / "fixtures" / fixture)
    request = LayoutRequest(
        lanes=1,
        max_context=192,
        kv_capacity="auto",
        extra_state_slots=1,
        chunk_tokens=64,
        budget_bytes=None,
        kv_dtype=kv_dtype,
    )
    layout = plan_layout(geometry, numeric_format, request)
    return geometry, layout, Arena(geometry, layout)


def raw(arena: Arena) -> torch.Tensor:
    return arena._bytes


def read(arena: Arena, offset: int, dtype: torch.dtype) -> float:
    """The number at a byte offset of the arena."""
    return float(raw(arena)[offset : offset + dtype.itemsize].view(dtype)[0])


def test_the_page_is_of_this_version() -> None:
    """[decision 19]"""
    assert TEXT.startswith(f"# Byte layout of a page and of a StateImage, version {BYTE_LAYOUT_VERSION}\n")
    assert {row[0] for row in ROWS} == {"dense_text", "moe_text"}
    assert len(ROWS) == 2 * len(ELEMENT_BYTES)


@pytest.mark.parametrize(("fixture", "numeric_format", "page", "conv", "tail", "image"), CASES)
def test_the_numbers_agree(
    fixture: str, numeric_format: NumericFormat, page: str, conv: str, tail: str, image: str
) -> None:
    """[C1], [D7]"""
    geometry, layout, _ = open_arena(fixture, numeric_format)
    assert layout.pools[Pool.MAIN_KV].block_bytes == int(page)
    assert layout.states.block_bytes == int(image)
    assert geometry.state_sections(numeric_format) == (0, int(conv), int(tail), int(image))


@pytest.mark.parametrize(("fixture", "numeric_format", "page", "conv", "tail", "image"), CASES)
def test_a_number_of_a_page_lies_where_the_text_says(
    fixture: str, numeric_format: NumericFormat, page: str, conv: str, tail: str, image: str
) -> None:
    """[C1]"""
    geometry, layout, arena = open_arena(fixture, numeric_format)
    heads, width = geometry.attention.kv_heads, geometry.attention.head_dim
    kv = arena.kv[Pool.MAIN_KV]
    kv.zero_()
    spots = [(1, 0, 0, 0, 0, 0), (2, geometry.full_layers - 1, 1, heads - 1, 63, width - 1), (1, 0, 1, 1, 5, 7)]
    for number, (block, layer, side, head, token, dim) in enumerate(spots, 1):
        kv[block, layer, side, head, token, dim] = number
        index = (((layer * 2 + side) * heads + head) * 64 + token) * width + dim
        offset = layout.pools[Pool.MAIN_KV].offset + block * int(page) + index * ELEMENT_BYTES[numeric_format]
        assert read(arena, offset, kv.dtype) == number


@pytest.mark.parametrize(("fixture", "numeric_format", "page", "conv", "tail", "image"), CASES)
def test_a_number_of_a_state_lies_where_the_text_says(
    fixture: str, numeric_format: NumericFormat, page: str, conv: str, tail: str, image: str
) -> None:
    """[D7]"""
    geometry, layout, arena = open_arena(fixture, numeric_format)
    gdn, layers, states = geometry.gdn, geometry.linear_layers, arena.states
    arena.images.zero_()
    start = layout.states.offset + 2 * int(image)
    fine = torch.float64 if numeric_format == "float64" else torch.float32
    assert states.recurrent.dtype == fine
    states.recurrent[2, layers - 1, 1, 3, 5] = 1
    index = (((layers - 1) * gdn.value_heads + 1) * gdn.key_dim + 3) * gdn.value_dim + 5
    assert read(arena, start + index * fine.itemsize, fine) == 1
    states.conv[2, layers - 1, 1, 9] = 2
    index = ((layers - 1) * (gdn.conv_taps - 1) + 1) * gdn.conv_channels + 9
    assert read(arena, start + int(conv) + index * ELEMENT_BYTES[numeric_format], states.conv.dtype) == 2
    states.tail[2, geometry.hidden - 1] = 3
    offset = start + int(tail) + (geometry.hidden - 1) * ELEMENT_BYTES[numeric_format]
    assert read(arena, offset, states.tail.dtype) == 3
    assert int((arena.images[2] != 0).sum()) <= 3 * 8


@pytest.mark.parametrize("kv_dtype", ["fp8", "int8"])
@pytest.mark.parametrize("fixture", ["dense_text", "moe_text"])
def test_a_one_byte_number_and_its_scale_lie_where_the_text_says(
    fixture: str, kv_dtype: Literal["fp8", "int8"]
) -> None:
    """[C1] [issue E 4]"""
    geometry, layout, arena = open_arena(fixture, "bfloat16", kv_dtype)
    heads, width = geometry.attention.kv_heads, geometry.attention.head_dim
    page = layout.pools[Pool.MAIN_KV].block_bytes
    (told,) = re.findall(rf"{fixture}(?: has)? (\d+)", TEXT.split("With one-byte numbers")[1])[:1]
    assert page == int(told) == geometry.kv_page_bytes(Pool.MAIN_KV, kv_dtype)
    assert layout.kv_format == kv_dtype
    kv, scales = arena.kv[Pool.MAIN_KV], arena.kv_scales[Pool.MAIN_KV]
    raw(arena).zero_()
    spots = [(1, 0, 0, 0, 0, 0), (2, geometry.full_layers - 1, 1, heads - 1, 63, width - 1), (1, 0, 1, 1, 5, 7)]
    for number, (block, layer, side, head, token, dim) in enumerate(spots, 1):
        kv[block, layer, side, head, token, dim] = number
        scales[block, layer, side, head, token] = number + 0.5
        at = layout.pools[Pool.MAIN_KV].offset + block * page
        at += ((layer * 2 + side) * heads + head) * 64 * (width + 4)
        assert read(arena, at + token * width + dim, kv.dtype) == number
        assert read(arena, at + 64 * width + 4 * token, torch.float32) == number + 0.5
    assert raw(arena).data_ptr() == arena.memory(Pool.MAIN_KV).kv.values.data_ptr() - layout.states.stop
