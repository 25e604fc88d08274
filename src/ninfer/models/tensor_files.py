"""safetensors files by memory map: names, shapes, and one tensor at a time.

Knows the file format. Does not know which tensors a model needs. A tensor's pages are given back to the system as
soon as it has been copied, so that loading never holds two copies of the weights.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ninfer.base.errors import ModelFileError

_DTYPES = {
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "F32": torch.float32,
    "F64": torch.float64,
    "F8_E4M3": torch.float8_e4m3fn,
}
_HEADER_LIMIT_BYTES = 100_000_000
SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where one tensor lies: [start, stop) in bytes from the start of the file."""

    name: str
    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


class TensorFiles:
    """All tensors of a model directory: one file, or shards named by an index."""

    def __init__(self, model_dir: Path) -> None:
        self.entries: dict[str, TensorEntry] = {}
        for file in _list_files(model_dir):
            for entry in _read_header(file):
                if entry.name in self.entries:
                    other = self.entries[entry.name].file.name
                    raise ModelFileError(f"{file}: tensor {entry.name} is also in {other}")
                self.entries[entry.name] = entry
        _check_index(model_dir, self.entries)
        self._maps: dict[Path, mmap.mmap] = {}

    def close(self) -> None:
        """Unmap all files. Tensors still borrowed keep their own mapping alive."""
        self._maps.clear()

    @contextmanager
    def borrow(self, name: str) -> Iterator[Tensor]:
        """A view of the file's bytes, valid inside the block; copy what you need."""
        entry = self.entries[name]
        mapped = self._maps.get(entry.file)
        if mapped is None:
            with entry.file.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            self._maps[entry.file] = mapped
        count = math.prod(entry.shape)
        if count == 0:
            raise ModelFileError(f"{entry.file}: tensor {name} is empty")
        yield torch.frombuffer(mapped, dtype=_DTYPES[entry.dtype], count=count, offset=entry.start).view(entry.shape)
        if hasattr(mmap, "MADV_DONTNEED"):
            first = -(-entry.start // mmap.PAGESIZE) * mmap.PAGESIZE
            whole = (entry.stop - first) // mmap.PAGESIZE * mmap.PAGESIZE
            if whole > 0:
                mapped.madvise(mmap.MADV_DONTNEED, first, whole)


def _list_files(model_dir: Path) -> list[Path]:
    index = model_dir / INDEX_FILE
    if index.is_file():
        names = sorted(set(_read_index(index).values()))
        for name in names:
            if Path(name).name != name:
                raise ModelFileError(f"{index}: weight_map: {name!r} is not a file of this directory")
            if not (model_dir / name).is_file():
                raise ModelFileError(f"{model_dir / name}: file not found, but {INDEX_FILE} names it")
        return [model_dir / name for name in names]
    if not (model_dir / SINGLE_FILE).is_file():
        raise ModelFileError(f"{model_dir}: neither {SINGLE_FILE} nor {INDEX_FILE} found")
    return [model_dir / SINGLE_FILE]


def _read_index(index: Path) -> dict[str, str]:
    try:
        values = json.loads(index.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{index}: cannot be read: {error}") from None
    weight_map = values.get("weight_map") if isinstance(values, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise ModelFileError(f"{index}: weight_map must map tensor names to files")
    return weight_map


def _check_index(model_dir: Path, entries: dict[str, TensorEntry]) -> None:
    index = model_dir / INDEX_FILE
    if not index.is_file():
        return
    for name, file in _read_index(index).items():
        entry = entries.get(name)
        if entry is None or entry.file.name != file:
            raise ModelFileError(f"{index}: weight_map: {name} is not in {file}")


def _read_header(file: Path) -> list[TensorEntry]:
    """Entries in the order of the file. Every offset is checked against the file's length."""
    file_bytes = file.stat().st_size
    with file.open("rb") as stream:
        prefix = stream.read(8)
        header_bytes = int.from_bytes(prefix, "little")
        if len(prefix) < 8 or not 2 <= header_bytes <= min(_HEADER_LIMIT_BYTES, file_bytes - 8):
            raise ModelFileError(f"{file}: not a safetensors file, or cut short")
        try:
            header = json.loads(stream.read(header_bytes))
        except ValueError as error:
            raise ModelFileError(f"{file}: damaged header: {error}") from None
    if not isinstance(header, dict):
        raise ModelFileError(f"{file}: damaged header: not an object")
    data = 8 + header_bytes
    return [
        _read_entry(file, name, fields, data, file_bytes) for name, fields in header.items() if name != "__metadata__"
    ]


def _read_entry(file: Path, name: str, fields: Any, data: int, file_bytes: int) -> TensorEntry:
    try:
        dtype, shape = fields["dtype"], tuple(int(size) for size in fields["shape"])
        start, stop = (data + int(offset) for offset in fields["data_offsets"])
    except (KeyError, TypeError, ValueError):
        raise ModelFileError(f"{file}: tensor {name}: damaged header entry") from None
    if dtype not in _DTYPES:
        raise ModelFileError(f"{file}: tensor {name}: format {dtype} is not supported ({', '.join(_DTYPES)})")
    if stop - start != math.prod(shape) * _DTYPES[dtype].itemsize or start < data:
        raise ModelFileError(f"{file}: tensor {name}: {stop - start} bytes do not hold {dtype} {list(shape)}")
    if stop > file_bytes:
        raise ModelFileError(f"{file}: cut short: tensor {name} ends at {stop}, the file at {file_bytes}")
    return TensorEntry(name, file, dtype, shape, start, stop)
