"""The log line's word on what was lost."""

from __future__ import annotations

import pytest

from ninfer.ports.output import GenerationStart, LossReport, RestorePath
from ninfer.server.journal import RequestRecord


@pytest.mark.parametrize(
    ("match", "chosen", "loss"),
    [(300, 300, "none"), (301, 300, "none"), (302, 300, "no_point_at_match"), (1, 0, "no_point_at_match")],
)
def test_nothing_is_lost_when_only_the_token_never_fed_is_missing(match: int, chosen: int, loss: str) -> None:
    """Settled decision 14."""
    record = RequestRecord("r", "POST", "/v1/chat/completions")
    report = LossReport(match, chosen, chosen, "no_point_at_match")
    record.note_start(GenerationStart(400, chosen, RestorePath.END, report))
    assert record.loss == loss
