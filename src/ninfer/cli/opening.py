"""Opening an engine from a command: progress on stderr, torch imported only here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from ninfer.cli.spelling import spell_names
from ninfer.config.geometry import read_geometry
from ninfer.config.options import EngineOptions
from ninfer.engine.facade import Engine
from ninfer.server.interpreter import settle_heap


def report_progress(text: str) -> None:
    """One step of loading, on stderr: answers alone go to stdout."""
    click.echo(f"ninfer: {text}", err=True)


def open_engine(options: EngineOptions, progress: Callable[[str], None]) -> Engine:
    """A running engine. Raises NInferError when the model or the options cannot be served."""
    read_geometry(options.model_dir)  # of another family, or no model at all: said before any other file is missed
    progress(f"loading {options.model_dir}")
    from ninfer.build.assemble import assemble  # imports torch

    engine = assemble(options, lambda text: progress(spell_names(text)))
    settle_heap()
    return engine


@contextmanager
def opened_engine(options: EngineOptions) -> Iterator[Engine]:
    """An engine for one command, closed at its end."""
    engine = open_engine(options, report_progress)
    try:
        yield engine
    finally:
        engine.close()
