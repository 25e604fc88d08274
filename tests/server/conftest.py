"""Fixtures: an application around a scripted engine, in this process or behind a real socket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .clients import Api, LiveServer
from .scripted import ScriptedEngine
from .simulated import SimulatedEngine


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    engine = ScriptedEngine()
    yield engine
    engine.close()


@pytest.fixture(params=["scripted", "simulated"])
def speaker(request: pytest.FixtureRequest) -> Iterator[ScriptedEngine | SimulatedEngine]:
    """Whoever speaks scripts: the scripted engine, or the true one on the simulated device."""
    speaker = ScriptedEngine() if request.param == "scripted" else SimulatedEngine()
    yield speaker
    speaker.close()


@pytest.fixture
def speaking(speaker: ScriptedEngine | SimulatedEngine) -> Iterator[Api]:
    """The application around the speaker."""
    with Api(speaker) as api:
        yield api


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
