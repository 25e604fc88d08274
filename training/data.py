"""Batches: conversations as token rows with loss weights, made by worker processes ahead of the trainer."""

from __future__ import annotations

import multiprocessing as mp
import os
import queue
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training.dialogues import Dialogue, conversation, plain_text
from training.render import render

DEPTH = 3  # drafts a round
AHEAD = DEPTH + 1  # tokens a batch holds beyond its rows
CHARS_A_TOKEN = 3.7
READ_WEIGHT = 0.03  # of tokens that the model only reads
PLAIN_SHARE = 0.02
PATIENCE_S = 60.0  # a trainer without batches for so long ends with its state saved
CHAIN_EVERY = 16  # one sampled draft chain for so many tokens


@dataclass(frozen=True, slots=True)
class Marks:
    """Token ids that structure a conversation."""

    start: int
    end: int
    assistant: int
    think: int
    think_end: int
    pad: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Marks:
        """Look them up."""
        ids = [
            tokenizer.token_to_id(t)
            for t in ("<|im_start|>", "<|im_end|>", "assistant", "<think>", "</think>", "<|endoftext|>")
        ]
        assert None not in ids
        return cls(*ids)


def weights_of(ids: NDArray[np.int64], turns: Sequence[float], marks: Marks) -> NDArray[np.float32]:
    """Loss weight of every token: what the model writes counts by its turn, what a prompt gives it counts nothing."""
    w = np.full(len(ids), READ_WEIGHT, dtype=np.float32)
    ends = np.flatnonzero(ids == marks.end)
    starts = np.flatnonzero(ids[:-1] == marks.start)
    starts = starts[ids[starts + 1] == marks.assistant]
    for at, weight in zip(starts.tolist(), turns, strict=False):
        after = int(np.searchsorted(ends, at))
        stop = int(ends[after]) + 1 if after < len(ends) else len(ids)
        w[at : at + 3] = 0.0  # header and its newline
        head = at + 3
        empty = head + 2 < len(ids) and ids[head + 2] == marks.think_end
        given = head + (4 if empty else 2)  # what the generation prompt already holds
        w[head:given] = 0.0
        w[given:stop] = weight
        w[stop : stop + 1] = 0.0
    return w


def encode(talk: Dialogue, tokenizer: Tokenizer, marks: Marks) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Token ids and weights of a whole conversation."""
    text = render(talk.messages, [t.schema for t in talk.tools])
    ids = np.array(tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int64)
    return ids, weights_of(ids, [m.weight for m in talk.messages if m.role == "assistant"], marks)


def encode_plain(seed: int, length: int, tokenizer: Tokenizer) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """A row of plain sentences."""
    text = plain_text(seed, int(length * CHARS_A_TOKEN))
    ids = np.array(tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int64)
    return ids, np.full(len(ids), 0.15, dtype=np.float32)


Batch = tuple[NDArray[np.uint16], NDArray[np.float16], NDArray[np.int32]]


def batch(first_seed: int, rows: int, length: int, tokenizer: Tokenizer, marks: Marks) -> Batch:
    """`rows` conversations cut to `length` (plus what drafts look ahead), weights, and positions of draft chains."""
    ids = np.full((rows, length + AHEAD), marks.pad, dtype=np.uint16)
    weight = np.zeros((rows, length + AHEAD), dtype=np.float16)
    at = np.zeros((rows, length // CHAIN_EVERY), dtype=np.int32)
    rng = np.random.default_rng(first_seed)
    for r in range(rows):
        talk = conversation(first_seed + r, int((length + AHEAD) * CHARS_A_TOKEN * 1.04))
        row, w = (
            encode(talk, tokenizer, marks)
            if rng.random() > PLAIN_SHARE
            else encode_plain(first_seed + r, length, tokenizer)
        )
        n = min(len(row), length + AHEAD)
        ids[r, :n], weight[r, :n] = row[:n], w[:n]
        good = np.flatnonzero(weight[r, 2 : length + 2] > 0.2)
        at[r] = rng.choice(good if len(good) else np.arange(length), size=at.shape[1])
    return ids, weight, at


def _work(index: int, folder: str, tokens: int, seed: int, mix: Any, out: Any, stop: Any) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    marks = Marks.of(tokenizer)
    rng = np.random.default_rng((seed, index))
    next_seed = seed * 100_000_000 + index * 4_000_000
    while not stop.value:
        lengths, shares = list(mix[0::2]), np.array(mix[1::2])
        length = int(rng.choice(lengths, p=shares / shares.sum()))
        rows = tokens // length
        made = batch(next_seed, rows, length, tokenizer, marks)
        next_seed += rows
        while not stop.value:
            try:
                out.put(made, timeout=0.5)
                break
            except queue.Full:
                continue


class Feeder:
    """Worker processes and the queue they fill; the mix of lengths may change while they run."""

    SLOTS = 4

    def __init__(self, folder: Path, tokens: int, seed: int, workers: int) -> None:
        context = mp.get_context("spawn")
        self._mix = context.Array("d", [0.0] * (2 * self.SLOTS))
        self._stop = context.Value("b", 0)
        self.queue = context.Queue(maxsize=3 * workers)
        args = (str(folder), tokens, seed, self._mix, self.queue, self._stop)
        self._workers = [context.Process(target=_work, args=(i, *args), daemon=True) for i in range(workers)]

    def set_mix(self, mix: dict[int, float]) -> None:
        """Lengths and their shares of the batches from now on."""
        pairs = [*mix.items(), *[(256, 0.0)] * (self.SLOTS - len(mix))]
        self._mix[:] = [float(x) for pair in pairs for x in pair]

    def start(self) -> None:
        """Start the workers; set a mix first."""
        for worker in self._workers:
            worker.start()

    def take(self) -> Batch:
        """The next batch; queue.Empty when the workers make none for PATIENCE_S seconds."""
        made: Batch = self.queue.get(timeout=PATIENCE_S)
        return made

    def close(self) -> None:
        """Stop the workers."""
        self._stop.value = 1
        for worker in self._workers:
            worker.terminate()
