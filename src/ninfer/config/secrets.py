"""API keys, from a file or the environment: never from the command line, which the process list shows (OPS-04)."""

from __future__ import annotations

import os
from pathlib import Path

from ninfer.base.errors import BadInput

API_KEYS_VARIABLE = "NINFER_API_KEYS"


def read_api_keys(file: Path | None) -> tuple[str, ...]:
    """Keys of NINFER_API_KEYS (comma-separated) and of the file (one a line, # starts a comment). No key: open to all.

    Raises BadInput when a file names no key at all: a server that was meant to be closed must not start open.
    """
    keys = _split(os.environ.get(API_KEYS_VARIABLE, "").replace(",", "\n"))
    if file is not None:
        try:
            from_file = _split(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            raise BadInput(f"api_key_file: {file} cannot be read", param="api_key_file") from None
        if not from_file:
            raise BadInput(f"api_key_file: {file} holds no key", param="api_key_file")
        keys += from_file
    return tuple(dict.fromkeys(keys))


def _split(text: str) -> tuple[str, ...]:
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))
