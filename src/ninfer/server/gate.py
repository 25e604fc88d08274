"""The door: every request passes here, whatever its route.

Gives each a request id and a record, checks keys, answers OPTIONS, adds the headers that all responses carry, and
turns what escapes from a route into an error body. Plain ASGI: it never buffers a stream.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ninfer.base.clock import Clock, unix_time
from ninfer.server.auth import KeyRing
from ninfer.server.body import ClientGone
from ninfer.server.cors import CorsPolicy
from ninfer.server.errors import ApiError, find_api_error, internal, log_exception
from ninfer.server.journal import Journal, RequestRecord
from ninfer.server.trace import find_trace
from ninfer.server.wire import JsonReply, find_header

RECORD = "ninfer.record"
"""Key of the request's record in the ASGI scope."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_UNLOGGED = frozenset({"/health", "/metrics"})
_DRAIN_LIMIT_BYTES = 64 * 1024 * 1024
_DRAIN_LIMIT_S = 5.0


def find_record(scope: Scope) -> RequestRecord:
    """The record of the request that this scope belongs to."""
    record: RequestRecord = scope[RECORD]
    return record


class Gate:
    """ASGI middleware around the routes."""

    def __init__(self, app: ASGIApp, *, keys: KeyRing, cors: CorsPolicy, journal: Journal, clock: Clock) -> None:
        self._app = app
        self._keys = keys
        self._cors = cors
        self._journal = journal
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = self._clock.now()
        trace = find_trace(scope)
        record = RequestRecord(_name_request(scope), scope["method"], "-", time=unix_time())
        record.trace_id, record.span_id, record.parent_id = trace.trace_id, trace.span_id, trace.parent_id
        scope[RECORD] = record
        scope["app"] = self  # lets the router raise its refusals instead of writing plain text
        reply = _Reply(send, record, [trace.response_header(), *self._cors.list_headers(scope)])
        try:
            await self._answer(scope, receive, reply)
        finally:
            record.close(self._clock.now() - started)
            if scope["path"] not in _UNLOGGED:
                self._journal.write(record)

    async def _answer(self, scope: Scope, receive: Receive, reply: _Reply) -> None:
        try:
            if scope["method"] == "OPTIONS":
                await reply.send_preflight(self._cors.list_preflight_headers(scope))
                return
            refusal = self._keys.find_refusal(scope)
            if refusal is not None:
                raise refusal
            await self._app(scope, receive, reply)
        except ClientGone:
            reply.record.finish = "cancelled"
            reply.record.status = reply.record.status or 499
        except HTTPException as error:
            await reply.send_error(_find_route_error(error, scope), receive)
        except Exception as error:
            if not isinstance(error, ApiError):
                log_exception(error, reply.record.id)
            await reply.send_error(find_api_error(error), receive)


class _Reply:
    """The `send` that routes get: adds headers, notes the status, knows whether an error can still be sent."""

    def __init__(self, send: Send, record: RequestRecord, headers: list[tuple[bytes, bytes]]) -> None:
        self._send = send
        self.record = record
        self._headers = [(b"x-request-id", record.id.encode()), *headers]
        self._started = False
        self._held: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            self.record.status = message["status"]
            message = {**message, "headers": [*message["headers"], *self._headers]}
        await self._send(message)

    async def send_preflight(self, headers: list[tuple[bytes, bytes]]) -> None:
        """204 for any OPTIONS request."""
        start: dict[str, Any] = {"type": "http.response.start", "status": 204}
        await self({**start, "headers": [(b"allow", b"GET, POST, OPTIONS"), *headers]})
        await self({"type": "http.response.body", "body": b""})

    async def send_error(self, error: ApiError, receive: Receive) -> None:
        """The error body, if nothing was sent yet. A body still under way is read and dropped, so that the client
        gets to see the answer before the connection closes."""
        self.record.error, self.record.param = error.code or error.type, error.param
        if self._started:
            return
        reply = JsonReply.of_error(error)
        if error.status not in (408, 413):
            await reply({}, receive, self)
            return
        await reply({}, receive, self._hold_back_end)
        await _drop_body(receive)
        if self._held is not None:
            await self._send(self._held)

    async def _hold_back_end(self, message: Message) -> None:
        """Send everything but the sign that the response is complete: that would close the connection at once."""
        if message["type"] == "http.response.start":
            await self({**message, "headers": [*message["headers"], (b"connection", b"close")]})
            return
        await self._send({**message, "more_body": True})
        self._held = {"type": "http.response.body", "body": b"", "more_body": False}


async def _drop_body(receive: Receive) -> None:
    """Read what the client still sends, within limits: closing at once would take the answer from it."""
    dropped = 0
    try:
        async with asyncio.timeout(_DRAIN_LIMIT_S):
            while dropped < _DRAIN_LIMIT_BYTES:
                message = await receive()
                dropped += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return


def _name_request(scope: Scope) -> str:
    offered = find_header(scope, b"x-request-id")
    if offered is not None and _REQUEST_ID.fullmatch(offered):
        return offered
    return f"req_{secrets.token_hex(12)}"


def _find_route_error(error: HTTPException, scope: Scope) -> ApiError:
    """The router's own refusal, 405, in our form."""
    if error.status_code == 405:
        allow = tuple((name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items())
        message = f"This route does not answer {scope['method']}."
        return ApiError(405, message, code="method_not_allowed", headers=allow)
    return internal()
