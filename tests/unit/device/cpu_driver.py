"""Drives a device through its port the way Program does, for one or several sequences."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from ninfer.base.ids import LaneId, SlotId
from ninfer.base.pools import Pool
from ninfer.config.options import ContextCacheOptions, EngineOptions
from ninfer.device.cpu import CpuDevice
from ninfer.ports.device import (
    Completion,
    EmbeddingOverride,
    RunResult,
    SampleRow,
    SamplesDone,
    StateCut,
    UnitBatch,
    UnitDone,
    UnitKind,
    UnitRow,
)
from ninfer.ports.sampling import SamplingParams

FIXTURES = Path(__file__).resolve().parents[2] / "data" / "fixtures"
GREEDY = SamplingParams(temperature=0.0)


def open_fixture(name: str, dtype: str = "float32", lanes: int = 4, **options: Any) -> CpuDevice:
    """A device on a fixture model, small pools."""
    cache = ContextCacheOptions(
        device_state_slots=options.pop("device_state_slots", 6), host_capacity_bytes=options.pop("host_bytes", 0)
    )
    options.setdefault("max_context", 512)
    return CpuDevice.open(
        EngineOptions(
            model_dir=FIXTURES / name,
            dtype=dtype,  # type: ignore[arg-type]
            max_concurrency=lanes,
            context_cache=cache,
            **options,
        )
    )


@dataclass(frozen=True)
class Golden:
    """What a fixture says about its prompt. `overrides`: (start, media rows) of each placeholder run."""

    tensors: dict[str, Tensor]
    prompt_ids: list[int]
    positions: list[list[int]]
    rope_delta: int
    greedy_ids: list[int]
    chunk_split: int
    overrides: list[tuple[int, Tensor]]


def read_golden(name: str) -> Golden:
    tensors = load_file(FIXTURES / name / "golden.safetensors")
    facts = json.loads((FIXTURES / name / "golden.json").read_text())
    overrides: list[tuple[int, Tensor]] = []
    if "token_types" in tensors:
        types = tensors["token_types"].tolist()
        taken = {1: 0, 2: 0}
        rows = {1: tensors["vision.image_embeds"], 2: tensors["vision.video_embeds"]}
        start = 0
        while start < len(types):
            stop = start
            while stop < len(types) and types[stop] == types[start]:
                stop += 1
            if types[start]:
                first = taken[types[start]]
                overrides.append((start, rows[types[start]][first : first + stop - start]))
                taken[types[start]] += stop - start
            start = stop
    return Golden(
        tensors=tensors,
        prompt_ids=tensors["prompt_ids"].tolist(),
        positions=tensors["positions"].tolist(),
        rope_delta=facts.get("rope_delta", 0),
        greedy_ids=facts["greedy_ids"],
        chunk_split=facts["chunk_split"],
        overrides=overrides,
    )


class Sequence_:
    """One history on a device: its tokens, pages and slot. Pages are handed out by the test."""

    def __init__(self, device: CpuDevice, lane: int, slot: int, pages: Sequence[int], rope_delta: int = 0) -> None:
        self.device, self.lane, self.slot = device, LaneId(lane), SlotId(slot)
        self.pages = array("i", pages)
        self.frontier = 0
        self.rope_delta = rope_delta
        self.started = False

    def row(
        self,
        token_ids: Sequence[int],
        *,
        positions: list[list[int]] | None = None,
        cuts: Sequence[tuple[int, int | None]] = (),
        overrides: Sequence[EmbeddingOverride] = (),
        read_slot: int | None = None,
    ) -> UnitRow:
        """A row that feeds `token_ids` next. `read_slot` overrides where the state comes from."""
        count, start = len(token_ids), self.frontier
        axes = positions or [[p + self.rope_delta for p in range(start, start + count)]] * 3
        source = read_slot if read_slot is not None else self.slot if self.started else None
        pages = self.pages[: -(-(start + count) // 64)]
        return UnitRow(
            lane=self.lane,
            token_ids=memoryview(array("i", token_ids)),
            start=start,
            positions=memoryview(array("i", [p for axis in axes for p in axis])),
            pages={Pool.MAIN_KV: memoryview(pages)},
            read_slot=None if source is None else SlotId(source),
            write_slot=self.slot,
            cuts=tuple(StateCut(offset, None if slot is None else SlotId(slot)) for offset, slot in cuts),
            overrides=tuple(overrides),
        )

    def prefill(self, token_ids: Sequence[int], **row: Any) -> None:
        run_unit(self.device, UnitKind.PREFILL, [self.row(token_ids, **row)])
        self.advance(len(token_ids))

    def advance(self, count: int) -> None:
        self.frontier += count
        self.started = True

    def draw(self, params: SamplingParams = GREEDY, uniform: float = 0.0, **row: Any) -> RunResult:
        return draw_rows(self.device, [self.sample_row(params, uniform, **row)])[0]

    def sample_row(self, params: SamplingParams = GREEDY, uniform: float = 0.0, **row: Any) -> SampleRow:
        return SampleRow(self.lane, self.slot, self.frontier, params, uniform, **row)


def collect(device: CpuDevice, count: int) -> list[Completion]:
    """The next `count` completions."""
    done: list[Completion] = []
    while len(done) < count:
        device.wait(60)
        done += device.poll()
    assert len(done) == count
    return done


def run_unit(device: CpuDevice, kind: UnitKind, rows: Sequence[UnitRow]) -> None:
    unit = device.submit_unit(UnitBatch(kind, tuple(rows)))
    assert collect(device, 1) == [UnitDone(unit)]


def draw_rows(device: CpuDevice, rows: Sequence[SampleRow]) -> tuple[RunResult, ...]:
    unit = device.submit_sampling(rows)
    (done,) = collect(device, 1)
    assert isinstance(done, SamplesDone)
    assert done.unit == unit
    return done.runs


def decode(sequences: Sequence[Sequence_], token_ids: Sequence[int]) -> None:
    """Feed one token to each sequence, as one batch."""
    rows = [sequence.row([token]) for sequence, token in zip(sequences, token_ids, strict=True)]
    run_unit(sequences[0].device, UnitKind.DECODE, rows)
    for sequence in sequences:
        sequence.advance(1)


def prefill_golden(sequence: Sequence_, golden: Golden, ends: Sequence[int], **row: Any) -> None:
    """Feed the golden's prompt in chunks that end at `ends`, media rows and positions included."""
    handles = [sequence.device.keep_media(rows) for _, rows in golden.overrides]
    start = 0
    for end in ends:
        overrides = []
        for handle, (first, rows) in zip(handles, golden.overrides, strict=True):
            low, high = max(first, start), min(first + len(rows), end)
            if low < high:
                overrides.append(EmbeddingOverride(low - start, high - low, handle, low - first))
        positions = [axis[start:end] for axis in golden.positions]
        sequence.prefill(golden.prompt_ids[start:end], positions=positions, overrides=overrides, **row)
        start = end
    for handle in handles:
        sequence.device.drop_media(handle)
