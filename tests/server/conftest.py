"""Fixtures: an application around a scripted engine, in this process or behind a real socket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .clients import Api, LiveServer
from .scripted import ScriptedEngine


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    engine = ScriptedEngine()
    yield engine
    engine.close()


@pytest.fixture
def api(engine: ScriptedEngine) -> Iterator[Api]:
    """The application without a socket, with default options."""
    with Api(engine) as api:
        yield api


@pytest.fixture
def live(engine: ScriptedEngine) -> Iterator[LiveServer]:
    """The server on a loopback port."""
    with LiveServer(engine) as server:
        yield server
