"""T tokens of one sequence as kernels must know them: on the device, so that a captured launch reads them anew.

Launches have the shape of the most tokens that fit; which of their rows are tokens, where these lie in the history and
where the recurrent scan is cut are numbers. A row that is no token changes no page and no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

CHUNK_TOKENS = 64
"""Of the scan: each piece between two cuts is worked off in chunks of so many tokens, the last of them shorter."""
HEAD = 8
"""Numbers before the tables; the last of them are there for the tables' alignment."""
_NO_SLOT = -1

Cuts = Sequence[tuple[int, int | None]]


@dataclass(frozen=True, slots=True)
class SpanNumbers:
    """All int32. `head`: tokens, start in the history, read slot (-1: the empty state), write slot, chunks in use.

    `chunks` [C, 4]: first token, tokens, slot that takes the state after them (-1: none), nothing.
    `cuts` [K, 2]: offset, slot; (-1) unused. The last one in use is the end, whose slot is the write slot.
    """

    head: Tensor
    chunks: Tensor
    cuts: Tensor

    @staticmethod
    def of(numbers: Tensor, chunks: int, cuts: int) -> SpanNumbers:
        """Views of one buffer, as `write_span` fills it."""
        split = HEAD + 4 * chunks
        return SpanNumbers(
            numbers[:HEAD], numbers[HEAD:split].view(chunks, 4), numbers[split : split + 2 * cuts].view(cuts, 2)
        )


def span_size(chunks: int, cuts: int) -> int:
    """Numbers of a span with room for so many chunks and cuts, the end among the cuts; every table is aligned."""
    return HEAD + 4 * chunks + 2 * (cuts + cuts % 2)


def count_chunks(tokens: int, cuts: Cuts) -> int:
    """Chunks of a scan that is cut there."""
    offsets = [0, *(offset for offset, _ in cuts), tokens]
    return sum(-(-(stop - start) // CHUNK_TOKENS) for start, stop in pairwise(offsets))


def write_span(
    numbers: np.ndarray, chunks: int, tokens: int, start: int, read_slot: int | None, write_slot: int, cuts: Cuts
) -> None:
    """Fill int32 [span_size]; `cuts` (offset, slot or None) rise, at most at the end."""
    split = HEAD + 4 * chunks
    table, kept = numbers[HEAD:split].reshape(chunks, 4), numbers[split:].reshape(-1, 2)
    table[:], kept[:] = (0, 0, _NO_SLOT, 0), (0, _NO_SLOT)
    used = begin = 0
    for index, (offset, slot) in enumerate((*cuts, (tokens, write_slot))):
        target = _NO_SLOT if slot is None else slot
        kept[index] = (offset, target)
        while begin < offset:
            end = min(begin + CHUNK_TOKENS, offset)
            table[used] = (begin, end - begin, _NO_SLOT, 0)
            used, begin = used + 1, end
        if index < len(cuts):  # the end is written to the write slot whatever stands here
            table[used - 1, 2] = target
    numbers[:HEAD] = (tokens, start, _NO_SLOT if read_slot is None else read_slot, write_slot, used, 0, 0, 0)


def make_span(
    tokens: int,
    start: int = 0,
    read_slot: int | None = None,
    write_slot: int = 0,
    cuts: Cuts = (),
    device: torch.device | None = None,
) -> SpanNumbers:
    """A span in memory of its own, with just the room it needs."""
    chunks, kept = count_chunks(tokens, cuts), len(cuts) + 1
    numbers = np.empty(span_size(chunks, kept), dtype=np.int32)
    write_span(numbers, chunks, tokens, start, read_slot, write_slot, cuts)
    return SpanNumbers.of(torch.from_numpy(numbers).to(device or "cpu"), chunks, kept)
