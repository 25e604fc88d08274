"""Delivering one answer: as server-sent events, or folded into one body.

Knows framing, pings, and peers that go away or stop reading. Does not know a protocol: a renderer turns answer events
into chunks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from starlette.types import Receive, Scope, Send

from ninfer.config.options import ServerOptions
from ninfer.server.answer import AnswerEvent, Broken, Ended
from ninfer.server.body import ClientGone
from ninfer.server.errors import find_api_error, log_exception
from ninfer.server.generation import Generation
from ninfer.server.protocol import PEER, PROBE_INTERVAL_S, PeerState
from ninfer.server.wire import JsonReply, encode_json

_NOT_READING = "client_not_reading"
_PING = b": ping\n\n"
_DONE = b"data: [DONE]\n\n"
_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # reverse proxies must not collect the stream
)


class Renderer(Protocol):
    """One protocol's form of an answer."""

    def render(self, event: AnswerEvent) -> Sequence[Any]:
        """Chunks, JSON-encodable."""
        ...

    def fold(self, chunks: list[Any]) -> Any:
        """The body that says the same as these chunks."""
        ...


async def collect_answer(generation: Generation, renderer: Renderer, receive: Receive) -> JsonReply:
    """The complete body. Raises ApiError when the answer broke, ClientGone when nobody waits for it."""
    chunks: list[Any] = []
    watcher = asyncio.create_task(_watch_peer(receive, generation))
    try:
        while not generation.abandoned:
            for event in await generation.next_events(None):
                if isinstance(event, Broken):
                    raise event.error
                chunks.extend(renderer.render(event))
                if isinstance(event, Ended):
                    return JsonReply(200, renderer.fold(chunks))
        raise ClientGone
    finally:
        watcher.cancel()
        generation.abandon("server_error")
        await generation.settle()


async def stream_answer(
    generation: Generation, renderer: Renderer, options: ServerOptions, scope: Scope, receive: Receive, send: Send
) -> None:
    """Server-sent events until the answer ends, breaks, or the peer is lost. Never raises ApiError."""
    watcher = asyncio.create_task(_watch_peer(receive, generation))
    writer = _EventWriter(generation, renderer, options, scope.get(PEER), send)
    try:
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        await writer.run()
    finally:
        watcher.cancel()
        generation.abandon("server_error")
        await generation.settle()


async def _watch_peer(receive: Receive, generation: Generation) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            generation.abandon("client_disconnected")
            return


class _EventWriter:
    """Writes one stream, at the speed its reader allows and no further than the limits."""

    def __init__(
        self, generation: Generation, renderer: Renderer, options: ServerOptions, peer: PeerState | None, send: Send
    ) -> None:
        self._generation = generation
        self._renderer = renderer
        self._options = options
        self._peer = peer
        self._send = send
        self._deadline: asyncio.Timeout | None = None
        generation.limit_unread(options.unread_limit_bytes, self._give_up_now)

    async def run(self) -> None:
        """Until the end of the stream. What goes wrong on our side is told as an error event."""
        over = False
        while not over and not self._generation.abandoned:
            try:
                frames, over = self._frame(await self._generation.next_events(self._ping_interval_s()))
            except Exception as error:
                log_exception(error, self._generation.request_id)
                frames, over = _frame(encode_json(find_api_error(error).body())), True
            if not self._generation.abandoned:
                await self._write(frames or _PING, more=not over)

    def _frame(self, events: list[AnswerEvent]) -> tuple[bytes, bool]:
        """The bytes for these events, and whether they end the stream."""
        frames: list[bytes] = []
        for event in events:
            frames.extend(_frame(encode_json(chunk)) for chunk in self._renderer.render(event))
            match event:
                case Broken():
                    frames.append(_frame(encode_json(event.error.body())))
                    return b"".join(frames), True
                case Ended():
                    return b"".join([*frames, _DONE]), True
                case _:
                    continue
        return b"".join(frames), False

    async def _write(self, data: bytes, *, more: bool) -> None:
        """Send, or lose a peer that reads too slowly: stuck for too long, or too far behind the engine (LIFE-06)."""
        try:
            async with asyncio.timeout(self._options.stalled_reader_timeout_s) as deadline:
                self._deadline = deadline
                await self._send({"type": "http.response.body", "body": data, "more_body": more})
        except TimeoutError:
            self._generation.abandon(_NOT_READING)
            if self._peer is not None:
                self._peer.abort()
                await asyncio.sleep(0)  # lets the connection learn that it is lost
        finally:
            self._deadline = None

    def _give_up_now(self) -> None:
        """Too much waits. That is the reader's fault only while a write is stuck."""
        if self._deadline is not None:
            deadline, self._deadline = self._deadline, None
            self._generation.abandon(_NOT_READING)  # at once: what the engine yields meanwhile is not kept
            deadline.reschedule(0.0)

    def _ping_interval_s(self) -> float:
        """Pings also find out whether a peer whose input has ended is still there."""
        if self._peer is not None and self._peer.input_ended:
            return PROBE_INTERVAL_S
        return self._options.ping_interval_s


def _frame(payload: bytes) -> bytes:
    return b"data: " + payload + b"\n\n"
