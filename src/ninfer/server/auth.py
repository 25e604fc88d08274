"""API keys: who may call. Knows keys only as digests, so that neither a log line nor a traceback can show one."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from starlette.types import Scope

from ninfer.server.errors import ApiError
from ninfer.server.wire import find_header

_FREE_PATHS = frozenset({"/health"})


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


class KeyRing:
    """The accepted keys. Empty: every caller may pass."""

    __slots__ = ("_digests",)

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = tuple(_digest(key) for key in keys)

    def __repr__(self) -> str:
        return f"KeyRing({len(self._digests)} keys)"

    def find_refusal(self, scope: Scope) -> ApiError | None:
        """401 unless the path is free, the method is OPTIONS, or one of the two headers holds a key (OPS-04)."""
        if not self._digests or scope["method"] == "OPTIONS" or scope["path"] in _FREE_PATHS:
            return None
        offered = _find_bearer(scope) or find_header(scope, b"x-api-key")
        if offered and self._accepts(offered):
            return None
        message = "A valid API key is needed (Authorization: Bearer, or x-api-key)."
        challenge = ((b"www-authenticate", b"Bearer"),)
        return ApiError(401, message, type="authentication_error", code="invalid_api_key", headers=challenge)

    def _accepts(self, offered: str) -> bool:
        digest = _digest(offered)
        matches = [hmac.compare_digest(digest, known) for known in self._digests]  # all of them: constant time
        return any(matches)


def _find_bearer(scope: Scope) -> str | None:
    value = find_header(scope, b"authorization")
    if value is None:
        return None
    scheme, _, key = value.partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None
