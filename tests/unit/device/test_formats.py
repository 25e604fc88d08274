"""The numeric format follows from the processor."""

from __future__ import annotations

import pytest
import torch

from ninfer.device import formats


def test_a_wanted_format_is_taken_as_it_is() -> None:
    assert formats.choose_format("float64") == "float64"
    assert formats.choose_format("bfloat16") == "bfloat16"


@pytest.mark.parametrize(
    ("packs", "native", "chosen"), [(True, True, "bfloat16"), (True, False, "float32"), (False, True, "float32")]
)
def test_auto_follows_from_the_processor_alone(
    monkeypatch: pytest.MonkeyPatch, packs: bool, native: bool, chosen: str
) -> None:
    """[SAMP-10] the same choice after every restart."""
    monkeypatch.setattr(formats, "can_pack", lambda: packs)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: native)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert formats.choose_format("auto") == chosen
