"""uvicorn's HTTP/1.1 protocol with the three things an engine needs on top.

- A peer that ends its sending side (half-close) still wants its answer, but a peer that closed looks the same until
  something is written to it. So after the end of input the connection is probed: while no response has begun with an
  interim `100 Continue`, later by the stream's own pings, which come faster (see `PeerState`).
- A connection that never completes a request header is closed.
- A request that is not HTTP gets an error body like every other.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ninfer.server.errors import invalid
from ninfer.server.wire import encode_json

PEER = "ninfer.peer"
"""Key of the connection's `PeerState` in the ASGI scope."""

PROBE_INTERVAL_S = 0.1
HEADER_TIMEOUT_S = 30.0
_INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"


class PeerState:
    """What a response may ask about its connection."""

    __slots__ = ("_transport", "input_ended")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.input_ended = False
        """The peer sends no more: half-closed, or gone."""

    def abort(self) -> None:
        """Close at once and drop what was not sent; for a peer that does not read."""
        self._transport.abort()


class ServingProtocol(HttpToolsProtocol):
    """One connection."""

    _peer: PeerState
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = PeerState(transport)
        self._timer = self.loop.call_later(HEADER_TIMEOUT_S, self._close_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope[PEER] = self._peer

    def on_headers_complete(self) -> None:
        self._stop_timer()
        super().on_headers_complete()

    def eof_received(self) -> bool:  # type: ignore[override]
        """True keeps the connection open for the answer that is under way."""
        self._peer.input_ended = True
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return False
        if cycle.scope["http_version"] == "1.0":  # knows no interim responses
            return False
        cycle.keep_alive = False
        self._probe()
        return True

    def send_400_response(self, msg: str) -> None:
        body = encode_json(invalid(msg, code="invalid_http").body())
        head = (
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
            b"content-length: " + str(len(body)).encode() + b"\r\n\r\n"
        )
        self.transport.write(head + body)
        self.transport.close()

    def _probe(self) -> None:
        """Write to a peer whose input has ended: one that is really gone answers with a reset."""
        if self.transport.is_closing() or self.cycle.response_started:
            return
        self.transport.write(_INTERIM)
        self._timer = self.loop.call_later(PROBE_INTERVAL_S, self._probe)

    def _close_if_idle(self) -> None:
        self._timer = None
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
