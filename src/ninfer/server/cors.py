"""Cross-origin access for browsers. Off unless origins are named."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.types import Scope

from ninfer.server.wire import find_header

_HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")
_ALLOWED_METHODS = b"GET, POST, OPTIONS"
_DEFAULT_HEADERS = "authorization, content-type, x-api-key, x-request-id, x-session-id, traceparent"
_PREFLIGHT_SECONDS = b"600"


class CorsPolicy:
    """Which origins a browser may call from. `*` stands for any."""

    __slots__ = ("_any", "_origins")

    def __init__(self, origins: Sequence[str]) -> None:
        self._any = "*" in origins
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)

    def list_headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Headers for every response to this request, errors and streams included; none when off (OPS-03)."""
        origin = find_header(scope, b"origin")
        if not self._origins or origin is None:
            return []
        if not self._any and origin.lower() not in self._origins:
            return [(b"vary", b"origin")]
        allowed = b"*" if self._any else origin.encode("latin-1")
        return [
            (b"access-control-allow-origin", allowed),
            (b"access-control-expose-headers", b"x-request-id, retry-after, traceresponse"),
            (b"vary", b"origin"),
        ]

    def list_preflight_headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """What an OPTIONS request gets on top: methods, and the headers it asked for (clients add their own kinds)."""
        origin_headers = self.list_headers(scope)
        if len(origin_headers) < 2:
            return []
        asked = find_header(scope, b"access-control-request-headers") or _DEFAULT_HEADERS
        names = [name.strip() for name in asked.split(",")]
        allowed = ", ".join(name for name in names if _HEADER_NAME.fullmatch(name))
        return [
            (b"access-control-allow-methods", _ALLOWED_METHODS),
            (b"access-control-allow-headers", allowed.encode("latin-1")),
            (b"access-control-max-age", _PREFLIGHT_SECONDS),
        ]
