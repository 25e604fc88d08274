"""Request traces: gzipped or plain JSON lines, `{"meta": ...}` first, then one request a line.

Reads and checks; every refusal names file, line, field and reason. Knows no engine.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from ninfer.base.errors import BadInput

from .stream import Tokens, stream_tokens


class Role(Enum):
    """What a segment is. CTX: roles are unknown, the source told hashes only."""

    TOOLS = "tools"
    SYSTEM = "sys"
    USER = "user"
    ASSISTANT = "asst"
    THINK = "think"
    TOOL = "tool"
    HEADER = "hdr"
    CLOSE = "close"
    CTX = "ctx"


@dataclass(frozen=True, slots=True)
class Segment:
    """Tokens [offset, offset + tokens) of a stream. `is_marked`: an explicit cache marker stands at its end."""

    role: Role
    seed: int
    offset: int
    tokens: int
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request. `parent`: index in the trace of the request whose reply it waits for; `think_s` after that reply.

    Without a parent it arrives at `arrival_s`.
    """

    index: int
    rid: int
    session: str
    turn: int
    parent: int | None
    arrival_s: float
    think_s: float
    tag: str
    prompt: tuple[Segment, ...]
    reply: tuple[Segment, ...]

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return sum(segment.tokens for segment in self.prompt)

    @property
    def reply_tokens(self) -> int:
        """Length of the reply."""
        return sum(segment.tokens for segment in self.reply)


@dataclass(frozen=True, slots=True)
class Trace:
    """All requests of a file in its order: parents before children."""

    name: str
    requests: tuple[TraceRequest, ...]

    @property
    def longest_tokens(self) -> int:
        """Prompt and reply of the longest request."""
        return max(request.prompt_tokens + request.reply_tokens for request in self.requests)

    @property
    def prompt_tokens(self) -> int:
        """Of all requests."""
        return sum(request.prompt_tokens for request in self.requests)


def tokens_of(segments: tuple[Segment, ...]) -> Tokens:
    """int32: the tokens of these segments, joined."""
    parts = [stream_tokens(segment.seed, segment.offset, segment.tokens) for segment in segments]
    return np.concatenate(parts) if parts else np.zeros(0, np.int32)


def read_trace(path: Path) -> Trace:
    """A trace file. Raises BadInput with line number, field and reason."""
    name, requests = path.name.split(".")[0], list[TraceRequest]()
    indexes: dict[int, int] = {}
    for number, line in _list_lines(path):
        values = _parse_line(path, number, line)
        if number == 1 and "meta" in values:
            name = str(_Line(path, number, values).section("meta").get("name", name))
            continue
        request = _parse_request(_Line(path, number, values), len(requests), indexes)
        indexes[request.rid] = request.index
        requests.append(request)
    if not requests:
        raise BadInput(f"{path}: the trace holds no request", param="trace")
    return Trace(name, tuple(requests))


class _Line:
    """One JSON object of the file; every refusal names its line and field."""

    def __init__(self, path: Path, number: int, values: dict[str, Any], prefix: str = "") -> None:
        self._path, self._number, self._values, self._prefix = path, number, values, prefix

    def error(self, name: str, reason: str) -> BadInput:
        return BadInput(f"{self._path}: line {self._number}: {self._prefix}{name} {reason}", param="trace")

    def find(self, name: str) -> Any:
        return self._values.get(name)

    def section(self, name: str) -> dict[str, Any]:
        value = self._values.get(name)
        if not isinstance(value, dict):
            raise self.error(name, "must be an object")
        return value

    def whole(self, name: str, default: int | None = None, *, least: int = 0) -> int:
        value = self._values.get(name, default)
        if value is None:
            raise self.error(name, "is missing")
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error(name, f"must be a whole number of at least {least}, not {_show(value)}")
        return value

    def seconds(self, name: str) -> float:
        value = self._values.get(name)
        if value is None:
            raise self.error(name, "is missing")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
            raise self.error(name, f"must be a number of seconds from 0 on, not {_show(value)}")
        return float(value)

    def text(self, name: str, default: str | None = None) -> str:
        value = self._values.get(name, default)
        if value is None:
            raise self.error(name, "is missing")
        if not isinstance(value, str):
            raise self.error(name, f"must be a string, not {_show(value)}")
        return value

    def objects(self, name: str) -> list[_Line]:
        value = self._values.get(name)
        if value is None:
            raise self.error(name, "is missing")
        if not isinstance(value, list):
            raise self.error(name, f"must be a list, not {_show(value)}")
        lines = []
        for index, item in enumerate(value):
            if not isinstance(item, dict):
                raise self.error(f"{name}[{index}]", f"must be an object, not {_show(item)}")
            lines.append(_Line(self._path, self._number, item, f"{self._prefix}{name}[{index}]."))
        return lines


def _list_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not blank."""
    try:
        opens = gzip.open if path.suffix == ".gz" else open
        with opens(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, line
    except FileNotFoundError:
        raise BadInput(f"{path}: file not found", param="trace") from None
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: {error}", param="trace") from None


def _parse_line(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except json.JSONDecodeError as error:
        raise BadInput(f"{path}: line {number}: not valid JSON: {error}", param="trace") from None
    if not isinstance(values, dict):
        raise BadInput(f"{path}: line {number}: must be a JSON object, not {_show(values)}", param="trace")
    return values


def _parse_request(line: _Line, index: int, indexes: dict[int, int]) -> TraceRequest:
    rid = line.whole("rid")
    if rid in indexes:
        raise line.error("rid", f"{rid} stands in an earlier line as well")
    parent = None
    if line.find("parent") is not None:
        number = line.whole("parent")
        if number not in indexes:
            raise line.error("parent", f"{number} is no request of an earlier line")
        parent = indexes[number]
    prompt = tuple(_parse_segment(part) for part in line.objects("segs"))
    reply = tuple(_parse_segment(part) for part in line.objects("out"))
    if not prompt:
        raise line.error("segs", "must hold at least one segment")
    if not reply:
        raise line.error("out", "must hold at least one segment")
    return TraceRequest(
        index=index,
        rid=rid,
        session=line.text("session"),
        turn=line.whole("turn", 0),
        parent=parent,
        arrival_s=line.seconds("arrival"),
        think_s=line.seconds("think"),
        tag=line.text("tag", ""),
        prompt=prompt,
        reply=reply,
    )


def _parse_segment(part: _Line) -> Segment:
    name = part.text("r")
    try:
        role = Role(name)
    except ValueError:
        known = ", ".join(role.value for role in Role)
        raise part.error("r", f"must be one of {known}, not {_show(name)}") from None
    marked = part.find("m")
    if marked not in (None, 0, 1):
        raise part.error("m", f"must be 0 or 1, not {_show(marked)}")
    return Segment(role, part.whole("s"), part.whole("o", 0), part.whole("n", least=1), bool(marked))


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
