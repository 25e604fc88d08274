"""Trace files: what is read, and how every kind of malformed line is refused by line, field and reason."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ninfer.base.errors import BadInput
from ninfer.sim.replay.stream import stream_tokens
from ninfer.sim.replay.trace import Role, read_trace, tokens_of

DATA = Path(__file__).resolve().parents[2] / "data" / "replay"


def line(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "rid": 0,
        "session": "s",
        "turn": 0,
        "parent": None,
        "arrival": 0.0,
        "think": 0.0,
        "tag": "",
        "segs": [{"r": "user", "s": 1, "o": 0, "n": 10}],
        "out": [{"r": "asst", "s": 2, "o": 0, "n": 5}],
    }
    return {name: value for name, value in {**values, **changes}.items() if value is not ...}


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
    return path


def test_streams_are_the_published_ones() -> None:
    """Slices of one stream agree wherever they overlap; these four are what the format's own reader gives."""
    assert stream_tokens(7, 0, 100)[40:60].tolist() == stream_tokens(7, 40, 20).tolist()
    assert stream_tokens(64726359233391, 64, 4).tolist() == [53832, 12550, 101423, 111385]
    assert stream_tokens(7, 0, 50).tolist() != stream_tokens(8, 0, 50).tolist()


def test_a_file_is_read_with_or_without_gzip(tmp_path: Path) -> None:
    plain = read_trace(DATA / "agents.jsonl")
    packed = tmp_path / "agents.jsonl.gz"
    packed.write_bytes(gzip.compress((DATA / "agents.jsonl").read_bytes()))
    assert read_trace(packed) == plain
    assert plain.name == "agents"
    assert len(plain.requests) == 38
    assert plain.prompt_tokens == 444_907
    first = plain.requests[0]
    assert {segment.role for segment in first.prompt} >= {Role.TOOLS, Role.SYSTEM, Role.USER, Role.HEADER}
    assert any(segment.is_marked for segment in first.prompt)
    tokens = tokens_of(first.prompt)
    assert tokens.dtype == np.int32
    assert len(tokens) == first.prompt_tokens


def test_parents_are_named_by_index(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", {"meta": {"name": "n"}}, line(rid=5), line(rid=9, parent=5, think=2.5))
    trace = read_trace(path)
    assert trace.name == "n"
    assert [request.parent for request in trace.requests] == [None, 0]
    assert trace.requests[1].think_s == 2.5
    assert trace.longest_tokens == 15


@pytest.mark.parametrize(
    ("bad", "field", "reason"),
    [
        (line(rid=...), "rid", "is missing"),
        (line(rid=-1), "rid", "at least 0"),
        (line(rid=True), "rid", "whole number"),
        (line(session=3), "session", "must be a string"),
        (line(parent=7), "parent", "7 is no request of an earlier line"),
        (line(arrival="soon"), "arrival", "number of seconds"),
        (line(think=-1.0), "think", "number of seconds"),
        (line(think=float("nan")), "think", "number of seconds"),
        (line(segs=...), "segs", "is missing"),
        (line(segs=[]), "segs", "at least one segment"),
        (line(segs={}), "segs", "must be a list"),
        (line(segs=[4]), "segs[0]", "must be an object"),
        (line(out=[]), "out", "at least one segment"),
        (line(segs=[{"r": "user", "s": 1, "n": 0}]), "segs[0].n", "at least 1"),
        (line(segs=[{"r": "user", "s": 1}]), "segs[0].n", "is missing"),
        (line(segs=[{"r": "robot", "s": 1, "n": 2}]), "segs[0].r", "must be one of tools, sys"),
        (line(segs=[{"r": "user", "n": 2}]), "segs[0].s", "is missing"),
        (line(segs=[{"r": "user", "s": 1, "n": 2, "m": 3}]), "segs[0].m", "must be 0 or 1"),
        (line(out=[{"r": "asst", "s": 1, "o": 1.5, "n": 2}]), "out[0].o", "whole number"),
    ],
)
def test_a_bad_line_is_refused_with_line_field_and_reason(
    tmp_path: Path, bad: dict[str, Any], field: str, reason: str
) -> None:
    path = write(tmp_path / "t.jsonl", {"meta": {}}, line(rid=100), bad)
    with pytest.raises(BadInput) as refused:
        read_trace(path)
    assert f"line 3: {field} " in str(refused.value)
    assert reason in str(refused.value)


def test_what_is_no_trace_at_all_is_refused(tmp_path: Path) -> None:
    for name, lines, word in (
        ("a.jsonl", ["{oops"], "line 1: not valid JSON"),
        ("b.jsonl", ["[1]"], "line 1: must be a JSON object"),
        ("c.jsonl", [{"meta": {}}], "holds no request"),
        ("d.jsonl", [line(), line()], "line 2: rid 0 stands in an earlier line"),
    ):
        with pytest.raises(BadInput, match=word):
            read_trace(write(tmp_path / name, *lines))
    with pytest.raises(BadInput, match="file not found"):
        read_trace(tmp_path / "none.jsonl")
    broken = tmp_path / "e.jsonl.gz"
    broken.write_bytes(gzip.compress(json.dumps(line()).encode() * 50)[:60])
    with pytest.raises(BadInput, match="cannot be read"):
        read_trace(broken)
    (tmp_path / "f.jsonl.gz").write_text("no gzip")
    with pytest.raises(BadInput, match="cannot be read"):
        read_trace(tmp_path / "f.jsonl.gz")
