"""Starts `ninfer serve` as a person would, in a process of its own on a free loopback port, and stops it."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

START_LIMIT_S = 60.0


@contextmanager
def running_server(*options: str) -> Iterator[str]:
    """Yields the base URL of a fresh server with the bundled model; ends the process afterwards.

    Raises RuntimeError with the server's own words when it does not come up.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        with log.open("wb") as sink:
            command = [sys.executable, "-m", "ninfer", "serve", "--port", str(port), *options]
            process = subprocess.Popen(command, stdout=sink, stderr=sink)
            try:
                wait_until_ready(url, process, log)
                yield url
            finally:
                process.terminate()
                try:
                    process.wait(timeout=15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def free_port() -> int:
    """A loopback port nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when /health answers 200."""
    deadline = monotonic() + START_LIMIT_S
    while monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended at start:\n{log.read_text(errors='replace')}")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        sleep(0.05)
    raise RuntimeError(f"the server was not ready after {START_LIMIT_S:.0f} s:\n{log.read_text(errors='replace')}")
