"""docs/serving.md says what the code does: every route, refused field, error code and option stands there."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from ninfer.cli.main import cli
from ninfer.server import app, fields

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "serving.md").read_text()
SOURCES = "".join(path.read_text() for path in (ROOT / "src" / "ninfer" / "server").glob("*.py"))


@pytest.mark.parametrize(
    "path", [app.CHAT_PATH, app.COMPLETIONS_PATH, app.MODELS_PATH, app.HEALTH_PATH, app.METRICS_PATH]
)
def test_every_route_is_described(path: str) -> None:
    assert f" {path}`" in PAGE


def test_every_refused_field_is_named() -> None:
    """JSON-01: nobody has to find out by trying."""
    for name in fields.list_refused_in_chat() | fields.list_refused_in_completions() | fields.WITHOUT_EFFECT:
        shown = "guided_*" if name.startswith("guided_") else name
        assert f"`{shown}`" in PAGE, name


def test_every_error_code_is_listed() -> None:
    for code in set(re.findall(r'code="([a-z_]+)"', SOURCES)):
        assert f"`{code}`" in PAGE, code


def test_every_option_it_mentions_exists() -> None:
    known = {"--help"}
    for name in ("serve", "chat", "generate", "inspect", "ttft"):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        known |= {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    assert set(re.findall(r"(--[a-z][a-z-]+)", PAGE)) <= known
