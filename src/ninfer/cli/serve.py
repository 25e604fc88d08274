"""`ninfer serve`: an engine behind HTTP."""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import click

from ninfer.base.clock import SystemClock
from ninfer.base.errors import BadInput, DeviceFailure
from ninfer.cli.engine_options import (
    ByteCount,
    NumberRange,
    engine_options,
    env_option,
    find_model_name,
    read_engine_options,
)
from ninfer.cli.opening import open_engine, report_progress
from ninfer.config.geometry import read_geometry
from ninfer.config.options import EngineOptions, ServerOptions
from ninfer.config.secrets import read_api_keys


@click.command("serve")
@engine_options
@env_option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@env_option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0 takes a free one.")
@env_option("--served-model-name", multiple=True, help="Name of the model for clients; several allowed, * takes any.")
@env_option(
    "--api-key-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with one API key a line. NINFER_API_KEYS holds keys as well, separated by commas.",
)
@env_option(
    "--cors-origin", multiple=True, help="Origin a browser may call from, or *; several allowed. [default: none]"
)
@env_option("--body-limit", type=ByteCount(), default="128MiB", show_default=True, help="Largest request body.")
@env_option("--body-timeout", type=NumberRange(min=0.1), default=60.0, show_default=True, help="Seconds for a body.")
@env_option(
    "--ping-interval",
    type=NumberRange(min=0.01, max=10.0),
    default=5.0,
    show_default=True,
    help="Seconds of silence in a stream before a comment line is sent.",
)
@env_option(
    "--unread-limit",
    type=ByteCount(),
    default="4MiB",
    show_default=True,
    help="Output that may wait for a client that does not read; beyond it the client is cut off.",
)
@env_option(
    "--stalled-reader-timeout",
    type=NumberRange(min=0.001),
    default=60.0,
    show_default=True,
    help="Seconds that one write to a client may take.",
)
@env_option(
    "--stall-timeout",
    type=NumberRange(min=0.001),
    default=60.0,
    show_default=True,
    help="Seconds without progress after which a busy engine counts as stalled.",
)
@env_option(
    "--drain-timeout",
    type=NumberRange(min=0.0),
    default=30.0,
    show_default=True,
    help="Seconds that requests in flight have after SIGTERM.",
)
@env_option(
    "--request-log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File that gets one JSON line a request, without text.",
)
def command(**given: Any) -> int:
    """Serve MODEL_DIR (or NINFER_MODEL_DIR; default: the bundled model) with the OpenAI API.

    Prints one line with the address on stderr once requests are served, then one line a request.
    """
    options = read_engine_options(given)
    server_options = _read_server_options(given, options)
    read_geometry(options.model_dir)  # before the port: a wrong path is said whether or not the port is free
    request_log: Path | None = given["request_log"]
    return serve(options, server_options, request_log)


def _read_server_options(given: dict[str, Any], engine: EngineOptions) -> ServerOptions:
    return ServerOptions(
        host=given["host"],
        port=given["port"],
        served_model_names=_read_names(given["served_model_name"], engine),
        api_keys=read_api_keys(given["api_key_file"]),
        cors_origins=given["cors_origin"],
        body_limit_bytes=given["body_limit"],
        body_timeout_s=given["body_timeout"],
        ping_interval_s=given["ping_interval"],
        unread_limit_bytes=given["unread_limit"],
        stalled_reader_timeout_s=given["stalled_reader_timeout"],
        stall_timeout_s=given["stall_timeout"],
        drain_timeout_s=given["drain_timeout"],
    )


def _read_names(given: tuple[str, ...], engine: EngineOptions) -> tuple[str, ...]:
    """The names given; the model's own where none is, or only `*`."""
    named = any(name != "*" for name in given)
    return given if named else (find_model_name(engine.model_dir), *given)


def serve(options: EngineOptions, server_options: ServerOptions, request_log: Path | None) -> int:
    """Listen at once, load behind it, serve until a signal; the exit code."""
    import uvloop

    from ninfer.server.app import build_app
    from ninfer.server.interpreter import share_interpreter
    from ninfer.server.journal import JsonJournal, LineJournal, ManyJournals
    from ninfer.server.run import DrainingServer, bind_socket, find_url
    from ninfer.server.service import Service

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    with ExitStack() as stack:
        journals: list[Any] = [LineJournal()]
        if request_log is not None:
            lines = JsonJournal(_open_log(request_log))
            stack.callback(lines.close)
            journals.append(lines)
        bound = stack.enter_context(bind_socket(server_options.host, server_options.port))
        service = Service(server_options, server_options.served_model_names, SystemClock())
        app = build_app(service, ManyJournals(*journals))
        server = DrainingServer(app, service, on_drain_signal=_report_drain)
        loading = _Loading(options, service, server, find_url(bound))
        share_interpreter()
        uvloop.run(server.serve_on(bound, loading.start))
        return loading.finish()


def _open_log(path: Path) -> IO[str]:
    try:
        return path.open("a", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"request_log: cannot write {path}: {error.strerror}", param="request_log") from None


def _report_drain(live: int) -> None:
    requests = "1 request" if live == 1 else f"{live or 'no'} requests"
    click.echo(f"ninfer: draining, {requests} in flight; a second signal stops at once", err=True)


class _Loading:
    """Opens the engine on a thread, so that /health can say `loading` meanwhile."""

    def __init__(self, options: EngineOptions, service: Any, server: Any, url: str) -> None:
        self._options = options
        self._service = service
        self._server = server
        self._url = url
        self._engine: Any = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._load, name="ninfer-load", daemon=True)

    def start(self) -> None:
        """On the event loop, once connections are accepted."""
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def _load(self) -> None:
        try:
            self._engine = open_engine(self._options, report_progress)
        except Exception as error:
            self._error = error
            self._service.fail("the model could not be loaded")
            self._loop.call_soon_threadsafe(self._server.start_drain)
            return
        self._service.open(self._engine)
        names = ", ".join(self._service.names)
        click.echo(f"ninfer: serving {names} on {self._url}", err=True)

    def finish(self) -> int:
        """After serving: close the engine, raise what loading raised."""
        if self._error is not None:
            raise self._error
        if self._engine is None:
            return 0
        failure = self._engine.find_failure()
        self._engine.close()
        if failure is not None:
            raise DeviceFailure(f"the engine has failed: {failure}")
        return 0
