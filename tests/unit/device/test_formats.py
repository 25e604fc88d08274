"""The numeric format follows from the machine."""

from __future__ import annotations

import pytest

from ninfer.device import formats


def test_a_wanted_format_is_taken_as_it_is() -> None:
    assert formats.choose_format("float64") == "float64"
    assert formats.choose_format("bfloat16") == "bfloat16"


@pytest.mark.parametrize(("packs", "chosen"), [(True, "bfloat16"), (False, "float32")])
def test_auto_follows_from_the_machine_alone(monkeypatch: pytest.MonkeyPatch, packs: bool, chosen: str) -> None:
    """[SAMP-10] the same choice after every restart."""
    monkeypatch.setattr(formats, "can_pack", lambda: packs)
    assert formats.choose_format("auto") == chosen
