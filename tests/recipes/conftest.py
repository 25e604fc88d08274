"""Fixtures: the two model directories (same random weights, two templates), engines, and the reference engines."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ninfer.build.assemble import BUNDLED_MODEL_DIR

from .live import Live

FIXTURE_DIR = Path(__file__).parents[1] / "data" / "fixtures" / "dense_text"
TEMPLATE = "chat_template.jinja"

OpenLive = Callable[..., Live]


@pytest.fixture(scope="session")
def strip_dir() -> Path:
    """A template that prints the thinking of the open turn only: the next user message rewrites history."""
    return FIXTURE_DIR


@pytest.fixture(scope="session")
def append_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights with the bundled model's template, which rewrites nothing unless told to."""
    target = tmp_path_factory.mktemp("append") / "dense_text"
    target.mkdir()
    for path in FIXTURE_DIR.iterdir():
        if not path.name.startswith("golden") and path.name != TEMPLATE:
            shutil.copy(path, target)
    shutil.copy(BUNDLED_MODEL_DIR / TEMPLATE, target)
    return target


@pytest.fixture
def open_live() -> Iterator[OpenLive]:
    """Opens engines that are closed with the test."""
    opened: list[Live] = []

    def open_one(model_dir: Path, **options: Any) -> Live:
        opened.append(Live(model_dir, **options))
        return opened[-1]

    yield open_one
    for live in opened:
        live.__exit__(None, None, None)


@pytest.fixture
def append(open_live: OpenLive, append_dir: Path) -> Live:
    """An engine with an append-only template."""
    return open_live(append_dir)


@pytest.fixture
def strip(open_live: OpenLive, strip_dir: Path) -> Live:
    """An engine with a template that strips thinking."""
    return open_live(strip_dir)


@pytest.fixture(scope="session")
def append_ref(append_dir: Path) -> Iterator[Live]:
    """REF: every request from nothing, one lane."""
    with Live(append_dir, reuse=False, max_concurrency=1) as live:
        yield live


@pytest.fixture(scope="session")
def strip_ref(strip_dir: Path) -> Iterator[Live]:
    """REF for the stripping template."""
    with Live(strip_dir, reuse=False, max_concurrency=1) as live:
        yield live
