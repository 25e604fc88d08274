"""`make scenarios`: every row of the table is there, and a row that breaks its promise is told and fails the run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from demo.scenarios import __main__ as scenarios
from demo.scenarios.stage import Scenario, Stage


def keep(stage: Stage) -> None:
    stage.note("something happened")
    stage.expect(True, "nothing")


def break_promise(stage: Stage) -> None:
    stage.expect(False, "it did not hold")


def raise_error(_stage: Stage) -> None:
    raise RuntimeError("the server is gone")


def test_the_table_is_whole() -> None:
    """[M1] [M2] [M3] [M4] [M5] [M6] [M7] [M8] [M9]"""
    assert {row.name[:2] for row in scenarios.TABLE} == {f"M{number}" for number in range(1, 10)}
    assert all(row.promise and row.options for row in scenarios.TABLE)
    assert len(scenarios.TABLE) == 10, "M5 has a row for Snapshot and one for Replay"


@pytest.mark.parametrize(("play", "status"), [(keep, 0), (break_promise, 1), (raise_error, 1)])
def test_a_broken_promise_fails_the_run(
    play: object, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def no_server(*_options: str) -> Iterator[str]:
        yield "http://127.0.0.1:9"

    monkeypatch.setattr(scenarios, "running_server", no_server)
    monkeypatch.setattr(scenarios, "TABLE", (Scenario("M0", "all is well", ("--x",), play),))  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "argv", ["scenarios"])
    assert scenarios.main() == status
    said = capsys.readouterr().out
    assert "M0: all is well" in said
    assert "1 scenarios in 1 rows" in said
    assert ("NOT AS PROMISED" in said) == bool(status)
    monkeypatch.setattr(sys, "argv", ["scenarios", "M7"])
    assert scenarios.main() == 1, "no row of that name: nothing was shown"
