"""Medians per operator, per decode step and per prefill on the CPU, with the bundled model's shape.

    python -m bench.ops [--threads N] [--dtype float32|bfloat16] [--model DIR]

Without --model the bundled model is measured; where its weights are missing, random ones of its shape.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import save_file

from bench.table import Row
from ninfer.base.ids import LaneId, PageId, SlotId, UnitId
from ninfer.base.pools import Pool
from ninfer.config.geometry import read_geometry
from ninfer.config.options import ContextCacheOptions, EngineOptions
from ninfer.device.cpu import CpuDevice
from ninfer.device.formats import TORCH_DTYPES
from ninfer.kernels.conv1d import conv_scan, conv_step
from ninfer.kernels.gated_delta import delta_inputs, delta_scan, delta_step
from ninfer.kernels.linear import DenseWeight, linear
from ninfer.kernels.paged_attention import attend_decode, attend_prefill, plan_decode, plan_prefill
from ninfer.kernels.rmsnorm import RmsNorm, rmsnorm
from ninfer.kernels.rope import build_rotary, rotary_tables, rotate_
from ninfer.kernels.slots import step_slots
from ninfer.kernels.swiglu import swiglu_
from ninfer.models.weights import list_tensor_shapes
from ninfer.ports.device import (
    CopyDone,
    HostCopy,
    PageFromHost,
    PageToHost,
    SampleRow,
    SamplesDone,
    StateFromHost,
    StateToHost,
    UnitBatch,
    UnitDone,
    UnitKind,
    UnitRow,
)
from ninfer.ports.sampling import SamplingParams

BUNDLED = Path(__file__).resolve().parents[1] / "src" / "ninfer" / "bundled_model"
LANES, CONTEXT, CHUNK = 8, 4096, 512
SHORT = 100
GREEDY = SamplingParams(temperature=0.0)


def write_random_model(folder: Path) -> None:
    """A model directory with random BF16 weights and the bundled config."""
    shutil.copy(BUNDLED / "config.json", folder)
    generator = torch.Generator().manual_seed(0)
    tensors = {
        name: (torch.randn(shape, generator=generator) * (0.3 if len(shape) == 1 else 0.04)).to(torch.bfloat16)
        for name, shape in list_tensor_shapes(read_geometry(folder)).items()
    }
    save_file(tensors, folder / "model.safetensors")


@contextmanager
def model_folder(given: Path | None) -> Iterator[Path]:
    """The given directory, the bundled one, or a random model that goes away afterwards."""
    if given is not None or next(BUNDLED.glob("*.safetensors"), None) is not None:
        yield given or BUNDLED
        return
    with tempfile.TemporaryDirectory() as folder:
        write_random_model(Path(folder))
        yield Path(folder)


def median_s(call: Callable[[], object], seconds: float = 0.4) -> float:
    """Median duration after a short warm-up."""
    for _ in range(3):
        call()
    durations: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(durations) < 5:
        start = time.perf_counter()
        call()
        durations.append(time.perf_counter() - start)
    return statistics.median(durations)


class Lanes:
    """Sequences on a device, advanced by a benchmark. Page tables cover the whole context."""

    def __init__(self, device: CpuDevice) -> None:
        self.device = device
        pages = CONTEXT // 64
        self.tables = [array("i", range(1 + lane * pages, 1 + (lane + 1) * pages)) for lane in range(LANES)]

    def row(self, lane: int, token_ids: array[int], start: int, *, fresh: bool = False) -> UnitRow:
        positions = array("i", range(start, start + len(token_ids)))
        return UnitRow(
            lane=LaneId(lane),
            token_ids=memoryview(token_ids),
            start=start,
            positions=memoryview(positions * 3),
            pages={Pool.MAIN_KV: memoryview(self.tables[lane])[: -(-(start + len(token_ids)) // 64)]},
            read_slot=None if fresh else SlotId(lane + 1),
            write_slot=SlotId(lane + 1),
        )

    def prefill(self, lane: int, tokens: int) -> None:
        """A whole prompt in chunks."""
        for start in range(0, tokens, CHUNK):
            ids = array("i", [(7 * i) % 4000 for i in range(start, min(start + CHUNK, tokens))])
            row = self.row(lane, ids, start, fresh=start == 0)
            unit = self.device.submit_unit(UnitBatch(UnitKind.PREFILL, (row,)))
        self._wait_for(unit)

    def decode(self, batch: int, context: int) -> None:
        """One forward of `batch` rows at the same place again and again; the draw after it waits for both."""
        rows = tuple(self.row(lane, array("i", [11 + lane]), context) for lane in range(batch))
        self.device.submit_unit(UnitBatch(UnitKind.DECODE, rows))

    def sample(self, batch: int, params: SamplingParams) -> None:
        rows = [SampleRow(LaneId(lane), SlotId(lane + 1), 5, params, 0.37) for lane in range(batch)]
        self._wait_for(self.device.submit_sampling(rows))

    def _wait_for(self, unit: UnitId) -> None:
        while not any(isinstance(done, UnitDone | SamplesDone) and done.unit == unit for done in self.device.poll()):
            self.device.wait(1.0)


def measure(threads: int | None = None, dtype: str = "auto", model: Path | None = None) -> list[Row]:
    """All rows: steps as the engine runs them, then the operators inside."""
    with model_folder(model) as folder:
        start = time.perf_counter()
        device = CpuDevice.open(
            EngineOptions(
                model_dir=folder,
                dtype=dtype,  # type: ignore[arg-type]
                threads=threads,
                max_context=CONTEXT,
                max_concurrency=LANES,
                context_cache=ContextCacheOptions(device_state_slots=LANES),
                prefill_chunk_tokens=CHUNK,
            )
        )
        opened = Row(f"open the model ({device.numeric_format})", time.perf_counter() - start, "s")
    return [
        opened,
        *measure_steps(device),
        *measure_draws(device),
        *measure_transfers(device),
        *measure_operators(device),
    ]


def measure_steps(device: CpuDevice) -> list[Row]:
    """Decode steps (forward and greedy draw) by batch and context; prefill."""
    lanes, rows = Lanes(device), []
    for tokens in (SHORT, 3000):
        for lane in range(LANES):
            lanes.prefill(lane, tokens)
        steps = {}
        for batch in (1, 2, 4, 8):

            def step(batch: int = batch, tokens: int = tokens) -> None:
                lanes.decode(batch, tokens)
                lanes.sample(batch, GREEDY)

            steps[batch] = 1e3 * median_s(step)
            goal = ("<= 3.5", steps[1] <= 3.5) if batch == 1 and tokens == SHORT else ("", None)
            rows.append(Row(f"decode step, batch {batch}, context {tokens}", steps[batch], "ms", *goal))
        ratio = steps[4] / steps[1]
        # Weights are read once a step, context once a row: only the former is shared.
        goal = ("<= 1.7", ratio <= 1.7) if tokens == SHORT else ("", None)
        rows.append(Row(f"batch 4 / batch 1, context {tokens}", ratio, "", *goal))
    for tokens in (512, 3000):
        speed = tokens / median_s(lambda count=tokens: lanes.prefill(0, count), 1.5)  # type: ignore[misc]
        rows.append(Row(f"prefill, {tokens} tokens", speed, "tokens/s", ">= 2,500", speed >= 2500))
    return rows


def measure_draws(device: CpuDevice) -> list[Row]:
    """Drawing from stored hidden rows, head included."""
    lanes, rows = Lanes(device), []
    chosen = {
        "greedy": GREEDY,
        "temperature": SamplingParams(temperature=0.8),
        "top-k 20, top-p 0.8": SamplingParams(temperature=0.7, top_k=20, top_p=0.8),
    }
    for name, params in chosen.items():
        for batch in (1, 4):
            seconds = median_s(lambda count=batch, how=params: lanes.sample(count, how))  # type: ignore[misc]
            rows.append(Row(f"draw, {name}, batch {batch}", 1e3 * seconds, "ms"))
    return rows


def measure_transfers(device: CpuDevice) -> list[Row]:
    """A StateImage and 16 pages (1,024 tokens) to the host and back, from submission to completion."""
    facts, pages = device.facts, range(1, 17)
    places = [facts.state_bytes + index * facts.page_bytes[Pool.MAIN_KV] for index in range(len(pages))]
    spots = list(zip(pages, places, strict=True))
    save = [StateToHost(SlotId(1), 0), *(PageToHost(Pool.MAIN_KV, PageId(page), at, 64) for page, at in spots)]
    restore = [StateFromHost(0, SlotId(1)), *(PageFromHost(Pool.MAIN_KV, at, PageId(page), 64) for page, at in spots)]

    def run(copies: Sequence[HostCopy]) -> None:
        transfer = device.submit_host_copy(copies)
        while CopyDone(transfer) not in device.poll():
            device.wait(1.0)

    moved = facts.state_bytes + len(pages) * facts.page_bytes[Pool.MAIN_KV]
    rows = []
    for name, copies in (("to the host", save), ("from the host", restore)):
        seconds = median_s(lambda what=copies: run(what))  # type: ignore[misc]
        rows.append(Row(f"1,024 tokens and their state {name}, {moved / 1e6:.1f} MB", 1e3 * seconds, "ms"))
    return rows


def measure_operators(device: CpuDevice) -> list[Row]:
    """Each operator alone, at one and four rows and at one prompt chunk; in a warm loop, so a lower bound."""
    shape = device.geometry
    gdn, attention = shape.gdn, shape.attention
    dtype = TORCH_DTYPES[device.numeric_format]
    weight = DenseWeight(2 * shape.mlp_inner, shape.hidden, dtype)
    weight.rows(0, weight.out_features).normal_()
    weight.pack()
    norm = RmsNorm.empty((shape.hidden,), 1e-6, torch.float32)
    norm.fill(torch.zeros(shape.hidden), offset=1)
    rotary = build_rotary(1e7, shape.rope.width, shape.rope.sections, torch.float32)
    states = torch.zeros(9, gdn.value_heads, gdn.key_dim, gdn.value_dim)
    columns = torch.zeros(9, gdn.conv_taps - 1, gdn.conv_channels, dtype=dtype)
    kernel = torch.ones(gdn.conv_taps, gdn.conv_channels)
    kv = torch.zeros(20, 1, 2, attention.kv_heads, 64, attention.head_dim, dtype=dtype)
    rate = -torch.ones(gdn.value_heads)
    rows = []
    for count in (1, 4, CHUNK):
        x, gate_up = torch.randn(count, shape.hidden), torch.randn(count, 2 * shape.mlp_inner)
        qkv = torch.randn(count, attention.heads + 2 * attention.kv_heads, attention.head_dim)
        q, k, v = qkv.split([attention.heads, attention.kv_heads, attention.kv_heads], 1)
        tables = rotary_tables(torch.arange(count).expand(3, -1), rotary)
        mixed, b, a = torch.randn(count, gdn.conv_channels), *torch.randn(2, count, gdn.value_heads)
        inputs = delta_inputs(mixed, b, a, rate, rate, gdn.key_heads, gdn.key_dim)
        calls: dict[str, Callable[[], object]] = {
            "linear, gate and up": lambda x=x: linear(x, weight),
            "rmsnorm": lambda x=x: rmsnorm(x, norm),
            "rope": lambda q=q, tables=tables: rotate_(q, tables),
            "swiglu": lambda gate_up=gate_up: swiglu_(gate_up),
            "delta inputs": lambda m=mixed, b=b, a=a: delta_inputs(m, b, a, rate, rate, gdn.key_heads, gdn.key_dim),
        }
        if count == CHUNK:
            pages = plan_prefill(kv, torch.arange(1, 1 + CHUNK // 64), 0, CHUNK)
            calls["conv1d, scan"] = lambda m=mixed: conv_scan(m, kernel, columns, None, 1)
            calls["gated_delta, scan"] = lambda inputs=inputs: delta_scan(inputs, states, None, 1)
            calls["paged_attention, prefill"] = lambda q=q, k=k, v=v, p=pages: attend_prefill(q, k, v, kv, 0, p)
        else:
            slots = step_slots(range(1, 1 + count), range(1, 1 + count))
            plan = plan_decode(kv, [[1 + 2 * row, 2 + 2 * row] for row in range(count)], [101] * count)
            calls["conv1d, step"] = lambda m=mixed, slots=slots: conv_step(m, kernel, columns, slots)
            calls["gated_delta, step"] = lambda inputs=inputs, slots=slots: delta_step(inputs, states, slots)
            calls["paged_attention, decode"] = lambda q=q, k=k, v=v, p=plan: attend_decode(q, k, v, kv, 0, p)
        with torch.inference_mode():
            rows += [Row(f"{name}, {count} rows", 1e6 * median_s(call, 0.1), "us") for name, call in calls.items()]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int)
    parser.add_argument("--dtype", default="auto", choices=["auto", "float32", "bfloat16"])
    parser.add_argument("--model", type=Path)
    arguments = parser.parse_args()
    for row in measure(arguments.threads, arguments.dtype, arguments.model):
        print(row.line(), flush=True)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")


if __name__ == "__main__":
    main()
