"""Options of engine and server, command line and environment: none of the three knows one that the others lack."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ninfer.cli.main import cli, run
from ninfer.cli.serve import command as serve
from ninfer.cli.spelling import FLAGS
from ninfer.config.options import ContextCacheOptions, EngineOptions, ServerOptions

TRACE = Path(__file__).resolve().parents[2] / "data" / "replay" / "agents.jsonl"
FLAGS_WITHOUT_FIELD = {"--request-log"}
"""What the command itself does with: no option of engine or server."""


def _list_fields() -> set[str]:
    cache = {f"context_cache.{field.name}" for field in fields(ContextCacheOptions)}
    plain = {field.name for options in (EngineOptions, ServerOptions) for field in fields(options)}
    return (plain | cache) - {"context_cache", "model_dir"}


def _list_options(command: click.Command) -> list[click.Option]:
    return [option for option in command.params if isinstance(option, click.Option)]


def test_every_field_has_a_flag_and_every_flag_a_field() -> None:
    """An option that only code can set is none."""
    nested = {name.partition(".")[2] for name in FLAGS if "." in name}
    assert set(FLAGS) - nested == _list_fields()
    flags = {option.opts[0] for option in _list_options(serve)} - {"--help"}
    assert set(FLAGS.values()) == flags - FLAGS_WITHOUT_FIELD


@pytest.mark.parametrize("name", ["serve", "chat", "generate", "inspect"])
def test_every_flag_of_an_engine_has_an_environment_variable(name: str) -> None:
    """Named after the flag, shown in --help."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    page = CliRunner().invoke(command, ["--help"]).output
    shared = {option.opts[0] for option in _list_options(serve)}
    for option in _list_options(command):
        if option.opts[0] in shared - {"--help"}:
            variable = "NINFER_" + option.opts[0].removeprefix("--").replace("-", "_").upper()
            assert option.envvar == variable
            assert re.search(rf"\b{variable}\b", page)


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--unread-limit", "10"),
        ("--stalled-reader-timeout", "0"),
        ("--drain-timeout", "-1"),
        ("--body-timeout", "0"),
        ("--queue-timeout", "nan"),
        ("--max-gap-ms", "nan"),
        ("--served-model-name", ""),
        ("--cors-origin", "page.test:3000"),
        ("--cors-origin", "http://page.test/"),
        ("--api-key-file", "/dev/null"),
    ],
)
def test_a_value_out_of_range_is_said_in_the_flags_spelling(
    flag: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", flag, value]) == 2
    assert flag in capsys.readouterr().err


def test_what_a_plan_changed_is_said_in_the_flags_spelling(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", "--max-context", "512", "--kv-capacity", "1000"]) == 0
    assert "--kv-capacity 1000 is rounded up to 1024" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--device-bytes", "1KiB"], "--device-bytes 1024: "),
        (["--device-bytes", "0"], "--device-bytes 0: "),
        (["--max-context", "64"], "--max-context 64 is less than the longest request"),
        (["--device-bytes", "1000GiB", "--max-context", "40000"], "name a larger --max-context"),
        (["--geometry", "none"], "--geometry 'none' is not known"),
    ],
)
def test_an_error_of_a_replay_names_the_flag(flags: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(TRACE), *flags]) == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize("url", ["http://[::1", "http://127.0.0.1:99999"])
def test_an_address_that_is_none_is_wrong_usage(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ttft", "--url", url]) == 2
    assert f"--url {url}: " in capsys.readouterr().err
