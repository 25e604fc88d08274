"""The `ninfer` command: finds the sub-command, turns errors into one line and an exit code.

Imports nothing heavy: a sub-command's module is imported when it is called (or asked for its help).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

import click

from ninfer.base.errors import BadInput, NInferError
from ninfer.cli.spelling import is_about_option, spell_options

_COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("ninfer.cli.serve", "Serve a model over HTTP (OpenAI API)."),
    "chat": ("ninfer.cli.chat", "Talk to a model in the terminal."),
    "generate": ("ninfer.cli.generate", "Generate once from text, a chat message or token ids."),
    "inspect": ("ninfer.cli.inspect", "Show a model's geometry and the memory it would need."),
    "ttft": ("ninfer.cli.ttft", "Put a scripted load on a running server and report what became of it."),
    "sim": ("ninfer.cli.sim", "Run simulated worlds from seeds and check everything."),
    "simulate": ("ninfer.cli.simulate", "Replay request traces and say what is reused."),
}
"""Name, module that holds a `command`, and the line in the list of commands."""

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class _LazyGroup(click.Group):
    """Knows the names of all commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        command = import_module(_COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(version("ninfer"), prog_name="ninfer", message="%(prog)s %(version)s")
def cli() -> None:
    """An inference engine for hybrid language models that resumes long conversations exactly."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point. Exits with 0, 1 (error), 2 (wrong usage, the value of an option included) or 130 (interrupted).
    An error is one line on stderr."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """One command line; the exit code."""
    if not __debug__:
        return _complain("assertions guard the engine's state: run Python without -O")
    try:
        result: Any = cli.main(args=arguments, prog_name="ninfer", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return EXIT_USAGE
    except click.UsageError as error:
        return _complain_of_usage(error)
    except click.ClickException as error:
        return _complain(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        click.echo("ninfer: interrupted", err=True)
        return EXIT_INTERRUPTED
    except BadInput as error:
        return _complain(spell_options(error), EXIT_USAGE if is_about_option(error) else EXIT_ERROR)
    except NInferError as error:
        return _complain(str(error))
    except BrokenPipeError:
        return EXIT_ERROR
    except OSError as error:
        return _complain(str(error))
    return result if isinstance(result, int) else 0


def _complain(text: str, code: int = EXIT_ERROR) -> int:
    click.echo(f"ninfer: error: {_one_line(text)}", err=True)
    return code


def _complain_of_usage(error: click.UsageError) -> int:
    command = "ninfer" if error.ctx is None else error.ctx.command_path
    click.echo(f"{command}: {_one_line(error.format_message()).removesuffix('.')} (see --help)", err=True)
    return EXIT_USAGE


def _one_line(text: str) -> str:
    return " ".join(text.split())
