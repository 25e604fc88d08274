"""Medians per operator, per decode step and per prefill on the CPU, with the bundled model's shape.

    python -m bench.ops [--threads N] [--dtype float32|bfloat16] [--model DIR] [--quick]

Without --model, a model with random weights and the geometry of the bundled config is made in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import save_file

from ninfer.base.ids import LaneId, SlotId
from ninfer.base.pools import Pool
from ninfer.config.geometry import read_geometry
from ninfer.config.options import ContextCacheOptions, EngineOptions
from ninfer.device.cpu import CpuDevice
from ninfer.models.weights import list_tensor_shapes
from ninfer.ports.device import SampleRow, UnitBatch, UnitKind, UnitRow
from ninfer.ports.sampling import SamplingParams

BUNDLED = Path(__file__).resolve().parents[1] / "src" / "ninfer" / "bundled_model"
LANES, CONTEXT, CHUNK = 8, 4096, 512


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
    """The given directory, or a random model that goes away afterwards."""
    if given is not None:
        yield given
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
            self.device.submit_unit(UnitBatch(UnitKind.PREFILL, (self.row(lane, ids, start, fresh=start == 0),)))
        self.device.poll()

    def decode(self, batch: int, context: int) -> None:
        """One forward of `batch` rows at the same place again and again."""
        rows = tuple(self.row(lane, array("i", [11 + lane]), context) for lane in range(batch))
        self.device.submit_unit(UnitBatch(UnitKind.DECODE, rows))
        self.device.poll()

    def sample(self, batch: int, params: SamplingParams) -> None:
        rows = [SampleRow(LaneId(lane), SlotId(lane + 1), 5, params, 0.37) for lane in range(batch)]
        self.device.submit_sampling(rows)
        self.device.poll()


def bench_steps(device: CpuDevice) -> dict[str, float]:
    """Milliseconds of a decode step (forward and greedy draw), of draws alone, and prefill tokens per second."""
    lanes = Lanes(device)
    results = {}
    greedy = SamplingParams(temperature=0.0)
    for tokens in (100, 3000):
        for lane in range(LANES):
            lanes.prefill(lane, tokens)
        for batch in (1, 2, 4, 8):

            def step(batch: int = batch, tokens: int = tokens) -> None:
                lanes.decode(batch, tokens)
                lanes.sample(batch, greedy)

            results[f"decode step, batch {batch}, context {tokens} (ms)"] = 1e3 * median_s(step)
    for name, params in (
        ("greedy", greedy),
        ("temperature", SamplingParams(temperature=0.8)),
        ("top-k 20, top-p 0.8", SamplingParams(temperature=0.7, top_k=20, top_p=0.8)),
    ):
        for batch in (1, 4):
            seconds = median_s(lambda b=batch, p=params: lanes.sample(b, p))  # type: ignore[misc]
            results[f"draw, {name}, batch {batch} (ms)"] = 1e3 * seconds
    for tokens in (512, 3000):
        seconds = median_s(lambda t=tokens: lanes.prefill(0, t), 1.5)  # type: ignore[misc]
        results[f"prefill {tokens} tokens (tokens/s)"] = tokens / seconds
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--dtype", default="auto", choices=["auto", "float32", "bfloat16", "float64"])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with model_folder(arguments.model) as folder:
        start = time.perf_counter()
        device = CpuDevice.open(
            EngineOptions(
                model_dir=folder,
                dtype=arguments.dtype,
                threads=arguments.threads,
                max_context=CONTEXT,
                max_concurrency=LANES,
                context_cache=ContextCacheOptions(device_state_slots=LANES),
                prefill_chunk_tokens=CHUNK,
            )
        )
        results: dict[str, float] = {"open (s)": time.perf_counter() - start}
        results |= bench_steps(device)
    if arguments.json:
        print(json.dumps(results))
        return
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {device.numeric_format}")
    for name, value in results.items():
        print(f"{name:<48} {value:10.3f}")


if __name__ == "__main__":
    main()
