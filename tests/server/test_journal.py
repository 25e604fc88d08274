"""The request log: its page names every field, lines hold no text, outcomes and traces are right (N1, OPS-06)."""

from __future__ import annotations

import io
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ninfer.base.errors import QueueTimeout, RequestFailed
from ninfer.ports.output import GAP_BOUNDS_S, GenerationStart, LossReport, RestorePath
from ninfer.resource.admission import Right
from ninfer.server.journal import SCHEMA, JsonJournal, RequestRecord

from .clients import Api
from .scripted import Script, ScriptedEngine, whole

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "request-log.md").read_text()
RESOURCE = ROOT / "src" / "ninfer" / "resource"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


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


def test_the_page_describes_every_field_and_no_other() -> None:
    """[N1]: documented and versioned."""
    described = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`[^|]*`) \|", PAGE, re.MULTILINE)))
    assert len(described) == len(set(described))
    assert set(described) == {field.name for field in fields(RequestRecord)} | {"schema"}
    assert f"schema **{SCHEMA}**" in PAGE
    bounds = [
        *(f"{bound * 1000:g}" for bound in GAP_BOUNDS_S if bound < 1),
        *(f"{b:g}" for b in GAP_BOUNDS_S if b >= 1),
    ]
    assert ", ".join(bounds).replace("500, 1,", "500 ms, 1,") in PAGE


def test_the_page_explains_every_reason_of_a_loss() -> None:
    """Settled decision 14: a reason that nobody explains is none. Reasons are written where points end."""
    source = "".join(path.read_text() for path in RESOURCE.glob("*.py"))
    ends = re.findall(r"_losses\.note\([^\n]*, f?\"(\w+)(?:\{right\.value\})?\"\)", source)
    assert len(ends) == source.count("_losses.note("), "written in a form that this test does not read"
    told = re.findall(r"reason = \"(\w+)\"", (RESOURCE / "explain.py").read_text())
    for reason in {*ends, *told}:
        assert f"`{reason}" in PAGE
    for right in Right:
        assert f"`{right.value}`" in PAGE


def write(api: Api) -> list[dict[str, Any]]:
    """What the log file would hold."""
    out = io.StringIO()
    for record in api.journal.records:
        JsonJournal(out).write(record)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_each_outcome_is_told_with_what_it_cost(api: Api, engine: ScriptedEngine) -> None:
    """[N1]: a request that failed after some output has its tokens on record."""
    engine.script = whole("fine")
    api.ask()
    api.chat(temperature=9)
    engine.script = Script(((b"some",), (b"more",)), error=RequestFailed("SECRET"))
    api.stream()
    engine.script = Script(steps=(), error=QueueTimeout("late"))
    api.chat()
    lines = write(api)
    assert [line["outcome"] for line in lines] == ["completed", "refused", "failed", "failed"]
    assert {line["schema"] for line in lines} == {SCHEMA}
    assert lines[2]["output_tokens"] == 2
    assert lines[2]["computed_tokens"] == lines[2]["prompt_tokens"]
    assert sum(lines[2]["gap_counts"]) == 1
    assert (lines[3]["status"], lines[3]["error"]) == (503, "queue_timeout")
    assert "SECRET" not in json.dumps(lines)


@pytest.mark.parametrize(
    ("header", "is_taken"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-what-comes-later", True),
        (f"00-{TRACE}-{SPAN}-01-more", False),
        (f"ff-{TRACE}-{SPAN}-01", False),
        (f"00-{TRACE.upper()}-{SPAN}-01", False),
        (f"00-{'0' * 32}-{SPAN}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE[1:]}-{SPAN}-01", False),
        ("", False),
    ],
)
def test_a_trace_is_continued_or_begun(api: Api, header: str, is_taken: bool) -> None:
    """W3C Trace Context: a valid `traceparent` is continued, anything else begins a trace; the response says which."""
    answers = [api.get("/v1/models", headers={"traceparent": header}) for _ in range(2)]
    records = api.journal.records[-2:]
    for answer, record in zip(answers, records, strict=True):
        assert (record.trace_id == TRACE) == is_taken
        assert record.parent_id == (SPAN if is_taken else None)
        flags = "01" if is_taken else "00"
        assert answer.headers["traceresponse"] == f"00-{record.trace_id}-{record.span_id}-{flags}"
        assert re.fullmatch(r"[0-9a-f]{32}", record.trace_id or "")
        assert re.fullmatch(r"[0-9a-f]{16}", record.span_id or "")
    assert records[0].span_id != records[1].span_id
    assert (records[0].trace_id == records[1].trace_id) == is_taken
