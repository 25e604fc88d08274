"""Where a request belongs in a distributed trace: W3C Trace Context, header to ids and back. Knows nothing else.

Every request is a span of its own. `traceparent` names the trace and the caller's span; without a valid one the request
begins a trace. So a log line can be turned into a span by whoever collects them.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

from starlette.types import Scope

from ninfer.server.wire import find_header

_TRACEPARENT = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<parent>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)
_FORBIDDEN_VERSION = "ff"
_FIRST_VERSION = "00"
_NOT_SAMPLED = "00"


@dataclass(frozen=True, slots=True)
class Trace:
    """Lower-case hexadecimal ids: 32, 16 and 16 digits. `parent_id` None: the caller named no span."""

    trace_id: str
    span_id: str
    parent_id: str | None
    flags: str

    def response_header(self) -> tuple[bytes, bytes]:
        """Tells the caller which span answered."""
        return b"traceresponse", f"{_FIRST_VERSION}-{self.trace_id}-{self.span_id}-{self.flags}".encode()


def find_trace(scope: Scope) -> Trace:
    """The trace that the request's header names, or a new one. A malformed header is as good as none."""
    span_id = _draw(8)
    found = _TRACEPARENT.fullmatch(find_header(scope, b"traceparent") or "")
    if found is None or not _is_valid(found):
        return Trace(_draw(16), span_id, None, _NOT_SAMPLED)
    return Trace(found["trace"], span_id, found["parent"], found["flags"])


def _is_valid(found: re.Match[str]) -> bool:
    if found["version"] == _FORBIDDEN_VERSION or (found["version"] == _FIRST_VERSION and found["more"]):
        return False
    return int(found["trace"], 16) != 0 and int(found["parent"], 16) != 0


def _draw(count: int) -> str:
    while not int(drawn := secrets.token_hex(count), 16):
        continue
    return drawn
