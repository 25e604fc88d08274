"""What may be said of an exception: what it is and where it came from, not its text, which may quote a prompt (OPS-06).

The texts of our own errors and invariants name numbers and fields; nobody else's are shown.
"""

from __future__ import annotations

import logging
import traceback

from ninfer.base.errors import NInferError


def name_error(error: BaseException) -> str:
    """One line for people: the type, and the text where we wrote it."""
    is_ours = isinstance(error, NInferError | AssertionError)
    return f"{type(error).__name__}: {error}" if is_ours else type(error).__name__


def log_error(log: logging.Logger, level: int, what: str, error: BaseException) -> None:
    """Type and frames, causes included. The record has the exception itself as `error`, for whoever simulates."""
    lines = []
    link: BaseException | None = error
    while link is not None:
        lines.append(f"{type(link).__name__}\n{''.join(traceback.format_tb(link.__traceback__))}")
        link = link.__cause__ or link.__context__
    log.log(level, "%s: %s", what, "caused by ".join(lines), extra={"error": error})
