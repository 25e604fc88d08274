"""ASGI by hand: JSON out, a whole response in one go. Knows no protocol of ours and no engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from ninfer.server.errors import ApiError

Headers = Iterable[tuple[bytes, bytes]]

_ENCODER = msgspec.json.Encoder()


def encode_json(value: Any) -> bytes:
    """UTF-8 JSON without spaces. Structs leave out their unset fields."""
    return _ENCODER.encode(value)


class JsonReply:
    """A complete JSON response. An ASGI application."""

    def __init__(self, status: int, body: Any, headers: Headers = ()) -> None:
        self.status = status
        self._body = encode_json(body)
        self._headers = tuple(headers)

    @staticmethod
    def of_error(error: ApiError) -> JsonReply:
        """The reply for a refusal."""
        return JsonReply(error.status, error.body(), error.headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(self._body)).encode()),
            *self._headers,
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self._body, "more_body": False})


def find_header(scope: Scope, name: bytes) -> str | None:
    """The first header of that lower-case name, latin-1 decoded and stripped."""
    for key, value in scope["headers"]:
        if key == name:
            text: str = value.decode("latin-1").strip()
            return text
    return None
