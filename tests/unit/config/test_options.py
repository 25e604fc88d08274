"""Options are refused by name when they cannot hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ninfer.base.errors import BadInput
from ninfer.config.options import ContextCacheOptions, EngineOptions, ServerOptions


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_concurrency", 0),
        ("max_concurrency", 9),
        ("max_context", 8),
        ("kv_capacity", 1),
        ("prefill_chunk_tokens", 100),
        ("prefill_chunk_tokens", 0),
        ("max_queue", 0),
        ("queue_timeout_s", 0.0),
        ("request_timeout_s", -1.0),
        ("threads", 0),
        ("audit_every_cycles", -1),
    ],
)
def test_engine_options_name_the_field(field: str, value: Any) -> None:
    """Lanes are 1 to 8, fixed at start-up [A1]."""
    with pytest.raises(BadInput) as caught:
        EngineOptions(model_dir=Path("m"), **{field: value})
    assert caught.value.param == field
    assert field in str(caught.value)


def test_extra_slots_default_to_the_number_of_lanes() -> None:
    """[C2]"""
    assert EngineOptions(model_dir=Path("m"), max_concurrency=3).extra_state_slots == 3
    none_left = EngineOptions(model_dir=Path("m"), context_cache=ContextCacheOptions(device_state_slots=0))
    assert none_left.extra_state_slots == 0


@pytest.mark.parametrize(("field", "value"), [("port", 70000), ("body_limit_bytes", 1), ("ping_interval_s", 11.0)])
def test_server_options_name_the_field(field: str, value: Any) -> None:
    with pytest.raises(BadInput) as caught:
        ServerOptions(**{field: value})
    assert caught.value.param == field
