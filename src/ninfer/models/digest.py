"""A cheap digest of a model directory's config and weights, stable across processes and machines.

Small models are hashed whole. In larger ones each tensor gives its name, format, shape and three windows of bytes:
enough to tell any two published or retrained checkpoints apart, not meant against someone who forges one.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import BinaryIO

from .tensor_files import TensorEntry, TensorFiles

_WHOLE_LIMIT_BYTES = 64 * 1024 * 1024
_WINDOW_BYTES = 4096
DIGEST_BYTES = 32


def digest_weights(model_dir: Path, files: TensorFiles) -> bytes:
    """32 bytes. The order of tensors and shards does not matter, nor does the layout of config.json."""
    hasher = hashlib.blake2b(digest_size=DIGEST_BYTES)
    config = json.loads((model_dir / "config.json").read_text(encoding="utf-8"))
    hasher.update(json.dumps(config, sort_keys=True).encode())
    whole = sum(entry.stop - entry.start for entry in files.entries.values()) <= _WHOLE_LIMIT_BYTES
    streams: dict[Path, BinaryIO] = {}
    try:
        for name in sorted(files.entries):
            entry = files.entries[name]
            if entry.file not in streams:
                streams[entry.file] = entry.file.open("rb")
            hasher.update(repr((entry.name, entry.dtype, entry.shape)).encode())
            for window in _windows(entry, whole):
                streams[entry.file].seek(window.start)
                hasher.update(streams[entry.file].read(len(window)))
    finally:
        for stream in streams.values():
            stream.close()
    return hasher.digest()


def _windows(entry: TensorEntry, whole: bool) -> list[range]:
    if whole or entry.stop - entry.start <= 3 * _WINDOW_BYTES:
        return [range(entry.start, entry.stop)]
    middle = (entry.start + entry.stop) // 2
    starts = (entry.start, middle, entry.stop - _WINDOW_BYTES)
    return [range(start, start + _WINDOW_BYTES) for start in starts]
