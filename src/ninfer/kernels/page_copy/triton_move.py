"""Triton: many blocks of bytes from one memory to another in one launch; one of them may be pinned host memory.

A copy call a block costs about ten microseconds each and leaves the link idle between small blocks; a kernel that reads
or writes the host through the link keeps it full whatever the size of the pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

_PIECE_BYTES = 32 * 1024
ALIGN_BYTES = 4


def list_pieces(moves: Sequence[tuple[int, int, int]]) -> Tensor:
    """(source, target, length) in bytes -> int64 [pieces, 3] in words, each at most `_PIECE_BYTES` long."""
    pieces = [
        (source + start, target + start, min(_PIECE_BYTES, length - start))
        for source, target, length in moves
        for start in range(0, length, _PIECE_BYTES)
    ]
    table = torch.tensor(pieces, dtype=torch.int64)
    assert not bool((table % ALIGN_BYTES).any()), "blocks lie on words"
    return table // ALIGN_BYTES


def move_pieces(source: Tensor, target: Tensor, pieces: Tensor) -> None:
    """source, target: uint8 [bytes]; pieces: from `list_pieces`, on the device. Bits are copied."""
    words = _PIECE_BYTES // ALIGN_BYTES
    _move[(len(pieces),)](source.view(torch.int32), target.view(torch.int32), pieces, WORDS=words, num_warps=8)


@triton.jit
def _move(source, target, pieces, WORDS: tl.constexpr):
    piece = pieces + tl.program_id(0) * 3
    at = tl.arange(0, WORDS)
    live = at < tl.load(piece + 2)
    tl.store(target + tl.load(piece + 1) + at, tl.load(source + tl.load(piece) + at, mask=live), mask=live)
