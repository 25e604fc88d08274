"""One server on one socket: uvicorn embedded, ready line, signals, draining.

Knows sockets and signals. The engine is opened by whoever calls, on a thread, while /health already answers.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from ninfer.base.errors import NInferError
from ninfer.server.protocol import ServingProtocol
from ninfer.server.service import Phase, Service
from ninfer.server.watchdog import Watchdog

FAILED_LINGER_S = 5.0
_BACKLOG = 512
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class AddressInUse(NInferError):
    """The port cannot be had. The message names it."""


def bind_socket(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one. Raises AddressInUse."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise AddressInUse(f"cannot listen on {host}: {error.strerror}") from None
    bound = socket.socket(family, kind, protocol)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        raise AddressInUse(f"cannot listen on {host} port {port}: {error.strerror}") from None
    return bound


def find_url(bound: socket.socket) -> str:
    """The address as a person types it."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if bound.family == socket.AF_INET6 else f"http://{host}:{port}"


class DrainingServer(uvicorn.Server):
    """The first SIGTERM or SIGINT drains: /health says so, new requests are refused, those in flight may end. The
    second one ends the process at once.

    An engine that has failed for good ends the server after `failed_linger_s`, so that a probe can see why and a
    supervisor can start a fresh process (SCHED-09).
    """

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        *,
        failed_linger_s: float = FAILED_LINGER_S,
        on_drain_signal: Callable[[int], None] | None = None,
    ) -> None:
        """`on_drain_signal`: told how many requests are in flight when a signal begins the drain."""
        config = uvicorn.Config(
            app,
            http=ServingProtocol,
            ws="none",
            lifespan="off",
            loop="uvloop",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=5,
        )
        super().__init__(config)
        self._service = service
        self._failed_linger_s = failed_linger_s
        self._failed_since: float | None = None
        self._on_drain_signal = on_drain_signal
        self._watchdog = Watchdog(service)
        self._draining: asyncio.Task[None] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Replaces uvicorn's: nothing is re-raised at the end, so a drained server exits with 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.take_signal)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    async def on_tick(self, counter: int) -> bool:
        """uvicorn's heartbeat, ten times a second."""
        self._watchdog.look()
        phase, _ = self._service.find_phase()
        if phase is not Phase.FAILED:
            self._failed_since = None
        elif self._failed_since is None:
            self._failed_since = self._service.clock.now()
        elif self._service.clock.now() - self._failed_since >= self._failed_linger_s:
            self.should_exit = True
        return await super().on_tick(counter)

    def take_signal(self) -> None:
        """On the event loop: somebody asked the process to end."""
        if self._draining is None and self._on_drain_signal is not None:
            self._on_drain_signal(self._service.count_live())
        self.start_drain()

    def start_drain(self) -> None:
        """On the event loop: begin to drain; when draining already, end now."""
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain())
        else:
            self.should_exit = self.force_exit = True

    async def serve_on(self, bound: socket.socket, on_listening: Callable[[], None] | None = None) -> None:
        """Serve until drained. `on_listening`: called on the loop once connections are accepted."""
        serving = asyncio.create_task(self.serve(sockets=[bound]))
        while not self.started and not serving.done():
            await asyncio.sleep(0.005)
        if on_listening is not None and self.started:
            on_listening()
        await serving
        self._service.close()

    async def _drain(self) -> None:
        await self._service.drain()
        self.should_exit = True
