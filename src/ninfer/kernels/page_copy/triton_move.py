"""Triton: many blocks of bytes from one memory to another in one launch; one of them may be pinned host memory.

A copy call a block costs about ten microseconds each and leaves the link idle between small blocks; a kernel that reads
or writes the host through the link keeps it full whatever the size of the pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

_PIECE_BYTES = 32 * 1024
_ROW_BYTES = 4 * _PIECE_BYTES
"""A row of the table; all rows start as many programs, so one long block must not make them many."""
_WORD_BYTES = 4


def list_blocks(moves: np.ndarray | Sequence[tuple[int, int, int]]) -> Tensor:
    """(source, target, length) in bytes, [n, 3] -> int64 [>= n, 3] in words; long ones in several rows."""
    given = np.asarray(moves, dtype=np.int64).reshape(-1, 3)
    counts = -(-given[:, 2] // _ROW_BYTES)
    rows = np.repeat(given, counts, axis=0)
    ahead = (np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)) * _ROW_BYTES
    rows[:, :2] += ahead[:, None]
    rows[:, 2] = np.minimum(rows[:, 2] - ahead, _ROW_BYTES)
    assert not (rows % _WORD_BYTES).any(), "blocks lie on words"
    return torch.from_numpy(rows // _WORD_BYTES)


def move_blocks(source: Tensor, target: Tensor, blocks: Tensor) -> None:
    """source, target: uint8 [bytes]; blocks: from `list_blocks`, on the device. Bits are copied."""
    grid = (len(blocks), _ROW_BYTES // _PIECE_BYTES)
    words = _PIECE_BYTES // _WORD_BYTES
    _move[grid](source.view(torch.int32), target.view(torch.int32), blocks, WORDS=words, num_warps=8)


@triton.jit
def _move(source, target, blocks, WORDS: tl.constexpr):
    block = blocks + tl.program_id(0) * 3
    at = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    live = at < tl.load(block + 2)
    tl.store(target + tl.load(block + 1) + at, tl.load(source + tl.load(block) + at, mask=live), mask=live)
