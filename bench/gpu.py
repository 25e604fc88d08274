"""Decode, prefill, warm turns and restores of a random-weight model on a GPU, each with its floor from the same run.

    python -m bench.gpu --geometry 4b --rows decode:1:8192 prefill:2048 turn:512:32768 engine:8:8192 --json FILE

A row is printed, and appended to FILE, as soon as it is measured; a row that fails is told and the next one runs.
`floor`: bytes a step must move over the measured copy bandwidth, or FLOPs over the measured BF16 matmul rate. Times go
from token ids to token ids through the device's port; `gpu_ms` is the captured work alone. Decode and turns start from
pages of random values. `--profile ROW...` lists the kernels behind rows. Rows of the engine: bench/gpu_engine.py.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from array import array
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch

from bench.gpu_engine import EngineBench
from bench.gpu_model import NAMES, open_random, prefill_flops, step_bytes
from ninfer.base.ids import LaneId, PageId, SlotId, UnitId
from ninfer.base.pools import Pool
from ninfer.device.cuda import CudaDevice
from ninfer.ports.device import (
    CopyDone,
    HostCopy,
    PageFromHost,
    PageToHost,
    SampleRow,
    SamplesDone,
    StateCut,
    StateFromHost,
    StateToHost,
    UnitBatch,
    UnitKind,
    UnitRow,
)
from ninfer.ports.sampling import SamplingParams

Figures = dict[str, float | str | int]
ENGINE_ROWS = ("engine", "http", "repeat", "gap")
GAP_MS = 110.0
"""What a lane that decodes may wait for a chunk, in the row of gaps."""
_VOCAB_TOKENS = 4033
"""Of the bundled tokenizer, whose words the engine's rows say."""
GREEDY = SamplingParams(temperature=0.0)
SAMPLED = SamplingParams(temperature=0.7, top_k=20, top_p=0.8)


class Bench:
    """A device and the ceilings of its machine."""

    def __init__(self, device: CudaDevice, where: torch.device, small: bool, ceilings: tuple[float, float]) -> None:
        self.device, self.where, self.small = device, where, small
        self.copy_rate, self.matmul_rate = ceilings
        self.repeats = 2 if small else 5
        self.submit_s = 0.0

    def row(self, lane: int, token_ids: array[int], start: int, *, fresh: bool = False) -> UnitRow:
        """Lane `lane` owns an equal share of the pages and slot lane + 1."""
        pages_each = self.device.facts.pages[Pool.MAIN_KV] // self.device.layout.lanes
        count = -(-(start + len(token_ids)) // 64)
        first = 1 + lane * pages_each
        positions = array("i", range(start, start + len(token_ids)))
        return UnitRow(
            lane=LaneId(lane),
            token_ids=memoryview(token_ids),
            start=start,
            positions=memoryview(positions * 3),
            pages={Pool.MAIN_KV: memoryview(array("i", range(first, first + count)))},
            read_slot=None if fresh else SlotId(lane + 1),
            write_slot=SlotId(lane + 1),
        )

    def draw(self, lanes: int, params: SamplingParams = GREEDY) -> list[int]:
        """Tokens of the first lanes, waited for."""
        rows = [SampleRow(LaneId(lane), SlotId(lane + 1), 0, params, 0.4) for lane in range(lanes)]
        return self.read(self.device.submit_sampling(rows))

    def read(self, unit: UnitId) -> list[int]:
        """Tokens of a draw, waited for."""
        while True:
            self.device.wait(1.0)
            for done in self.device.poll():
                if isinstance(done, SamplesDone) and done.unit == unit:
                    return [run.token_ids[0] for run in done.runs]

    def steps(self, lanes: int, context: int, count: int, params: SamplingParams = GREEDY) -> list[float]:
        """Moments at which the tokens of each of `count` steps were read. Each step is launched behind the draw that
        feeds it, as the engine does, from slot to slot; all overwrite the same position."""
        facts = self.device.facts
        sides = [[lane + 1, facts.slots + 1 + lane] for lane in range(lanes)]
        plain = [self.row(lane, array("i", [11 + lane]), context) for lane in range(lanes)]
        feeds, draws = [], []
        for side in range(2):
            places = [(row, SlotId(pair[side]), SlotId(pair[1 - side])) for row, pair in zip(plain, sides, strict=True)]
            feeds.append(tuple(replace(row, read_slot=read, write_slot=write) for row, read, write in places))
            draws.append([SampleRow(row.lane, read, 0, params, 0.4) for row, read, _ in places])
        moments = []
        for step in range(count):
            drawing = self.device.submit_sampling(draws[step % 2])
            begin = time.perf_counter()
            self.device.submit_unit(UnitBatch(UnitKind.DECODE, feeds[step % 2], drawing))
            self.submit_s = time.perf_counter() - begin
            self.read(drawing)
            moments.append(time.perf_counter())
        self.draw(1)
        return moments

    def decode(self, lanes: int, context: int, params: SamplingParams = GREEDY) -> Figures:
        """Steps at one context."""
        count = 4 if self.small else 80
        busy = time.thread_time()
        moments = self.steps(lanes, context, count, params)
        busy = (time.thread_time() - busy) / count
        seconds = statistics.median(later - earlier for earlier, later in pairwise(moments[count // 4 :]))
        floor = step_bytes(self.device.geometry, lanes, context) / self.copy_rate
        rows = tuple(self.row(lane, array("i", [11 + 97 * lane]), context) for lane in range(lanes))
        gpu = self.time_on_gpu(lambda: self.device._runner._steps.launch(rows))
        head = self.time_on_gpu(lambda: self.device._runner._heads.launch([lane + 1 for lane in range(lanes)]))
        return {
            "ms": 1e3 * seconds,
            "tokens_per_s": lanes / seconds,
            "floor_ms": 1e3 * floor,
            "share_of_floor": floor / seconds,
            "gpu_ms": 1e3 * (gpu + head),
            "gpu_share_of_floor": floor / (gpu + head),
            "idle": 1 - (gpu + head) / seconds,
            "submit_ms": 1e3 * self.submit_s,
            "thread_ms": 1e3 * busy,
        }

    def prefill(self, tokens: int, start: int = 0, repeats: int | None = None, cut: int | None = None) -> Figures:
        """One unit of `tokens` at `start`, to the first token; with a capture at `cut`."""
        ids = array("i", [(7 * i) % 500 for i in range(tokens)])
        times = []
        for _ in range(1 + (self.repeats if repeats is None else repeats)):
            begin = time.perf_counter()
            row = self.row(0, ids, start, fresh=start == 0)
            if cut is not None:
                row = replace(row, cuts=(StateCut(cut, SlotId(self.device.layout.lanes + 1)),))
            self.device.submit_unit(UnitBatch(UnitKind.PREFILL, (row,)))
            submitted = time.perf_counter() - begin
            self.draw(1)
            times.append((time.perf_counter() - begin, submitted))
        seconds, submitted = (statistics.median(column) for column in zip(*(times[1:] or times), strict=True))
        floor = prefill_flops(self.device.geometry, tokens, start) / self.matmul_rate
        return {
            "ms": 1e3 * seconds,
            "tokens_per_s": tokens / seconds,
            "floor_ms": 1e3 * floor,
            "share_of_floor": floor / seconds,
            "launch_ms": 1e3 * submitted,
            "first_ms": 1e3 * times[0][0],
        }

    def prompt(self, tokens: int, chunk: int = 8192) -> Figures:
        """A whole prompt in chunks, to its first token."""
        ids = array("i", [(7 * i) % 500 for i in range(chunk)])
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            for start in range(0, tokens, chunk):
                row = self.row(0, ids[: tokens - start], start, fresh=start == 0)
                self.device.submit_unit(UnitBatch(UnitKind.PREFILL, (row,)))
            self.draw(1)
            times.append(time.perf_counter() - begin)
        seconds, floor = min(times[1:]), prefill_flops(self.device.geometry, tokens, 0) / self.matmul_rate
        return {"ms": 1e3 * seconds, "tokens_per_s": tokens / seconds, "share_of_floor": floor / seconds}

    def capture(self, tokens: int) -> Figures:
        """What a state kept in mid-chunk costs: the same unit with and without, in turns."""
        pairs = [
            (self.prefill(tokens, repeats=3), self.prefill(tokens, repeats=3, cut=tokens // 2 + 7)) for _ in range(3)
        ]
        plain, kept = (statistics.median(float(pair[side]["ms"]) for pair in pairs) for side in range(2))
        return {"ms": kept, "plain_ms": plain, "longer": kept / plain - 1}

    def restored(self, tokens: int, start: int) -> Figures:
        """`tokens` new ones over a past that is on the host: its pages and state come in while they are computed."""
        back = self.list_copies(start)[1]
        ids = array("i", [(7 * i) % 500 for i in range(tokens)])
        times = []
        for _ in range(1 + self.repeats):
            begin = time.perf_counter()
            transfer = self.device.submit_host_copy(back)  # type: ignore[arg-type]
            self.device.submit_unit(UnitBatch(UnitKind.PREFILL, (self.row(0, ids, start),)), (transfer,))
            self.draw(1)
            times.append(time.perf_counter() - begin)
        alone = self.prefill(tokens, start)
        seconds = statistics.median(times[1:])
        return {"ms": 1e3 * seconds, "on_device_ms": alone["ms"], "longer_ms": 1e3 * seconds - float(alone["ms"])}

    def list_copies(self, tokens: int) -> tuple[list[HostCopy], list[HostCopy]]:
        """State and pages of `tokens` to the host, and back."""
        state, page = self.device.facts.state_bytes, self.device.facts.page_bytes[Pool.MAIN_KV]
        spots = [(PageId(p), state + (p - 1) * page) for p in range(1, 1 + -(-tokens // 64))]
        out = [StateToHost(SlotId(1), 0), *(PageToHost(Pool.MAIN_KV, p, at, 64) for p, at in spots)]
        back = [StateFromHost(0, SlotId(1)), *(PageFromHost(Pool.MAIN_KV, at, p, 64) for p, at in spots)]
        return out, back

    def restore(self, tokens: int) -> Figures:
        """State and pages of `tokens` to the host and back."""
        out, back = self.list_copies(tokens)
        facts = self.device.facts
        count = facts.state_bytes + (len(out) - 1) * facts.page_bytes[Pool.MAIN_KV]
        figures: Figures = {"bytes": count}
        for name, copies in (("out", out), ("in", back)):
            times = []
            for _ in range(1 + self.repeats):
                begin = time.perf_counter()
                self.device.submit_host_copy(copies)  # type: ignore[arg-type]
                submitted = time.perf_counter() - begin
                while not any(isinstance(done, CopyDone) for done in self.device.poll()):
                    self.device.wait(1.0)
                times.append(time.perf_counter() - begin)
            seconds = statistics.median(times[1:])
            figures |= {f"{name}_ms": 1e3 * seconds, f"{name}_gb_per_s": count / seconds / 1e9}
            figures[f"{name}_submit_ms"] = 1e3 * submitted
        return figures

    def time_on_gpu(self, work: Callable[[], object], count: int = 20) -> float:
        """Seconds of one, back to back on the device's stream."""
        line = self.device._line
        if line.stream is None:
            return float("nan")
        with torch.inference_mode(), line.use():
            work()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(count):
                work()
            end.record()
            end.synchronize()
        return begin.elapsed_time(end) / 1e3 / count

    def profile(self, work: Callable[[], object], label: str) -> None:
        """The kernels of one run, longest first."""
        work()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as recorded:
            work()
            torch.cuda.synchronize()
        found = [(e.key, e.count, e.self_device_time_total) for e in recorded.key_averages()]
        found.sort(key=lambda entry: -entry[2])
        print(f"# profile of {label}: {sum(c for _, c, _ in found)} kernels, {sum(t for *_, t in found):.0f} us")
        for name, calls, total in found[:16]:
            print(f"#   {total:9.0f} us {calls:5d} x {total / calls:7.1f}  {name[:90]}", flush=True)


def measure_ceilings(where: torch.device, small: bool) -> tuple[float, float]:
    """Bytes a second of a copy (read and written), FLOPs a second of a BF16 product, on random data."""
    if where.type == "cpu":
        return 1e10, 1e11
    source = torch.empty(1 << 31, dtype=torch.uint8, device=where).random_()
    copy_s = _time(partial(torch.empty_like(source).copy_, source))
    side = 1024 if small else 8192
    left, right = (torch.randn(side, side, device=where, dtype=torch.bfloat16) for _ in range(2))
    product_s = _time(partial(torch.mm, left, right))
    return 2 * (1 << 31) / copy_s, 2 * side**3 / product_s


def count_allocations() -> int:
    """How often memory was asked of the driver so far: after the start nobody should."""
    return int(torch.cuda.memory_stats().get("num_device_alloc", 0)) if torch.cuda.is_available() else 0


def _time(work: Callable[[], object]) -> float:
    times = []
    for _ in range(13):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times[3:])


def find_row(bench: Bench, name: str) -> tuple[Callable[[], Figures], Callable[[], object]]:
    """By the row's name: what measures it, and one run of its work for a profile."""
    kind, *numbers = name.split(":")
    counts = [int(number) for number in numbers]
    match kind, counts:
        case (("decode" | "sampled"), [lanes, context]):
            params = GREEDY if kind == "decode" else SAMPLED
            return partial(bench.decode, lanes, context, params), partial(bench.steps, lanes, context, 1, params)
        case "prefill", [count]:
            return partial(bench.prefill, count), partial(bench.prefill, count, repeats=0)
        case "prompt", [count]:
            return partial(bench.prompt, count), partial(bench.prefill, 8192, count - 8192, repeats=0)
        case "turn", [count, start]:
            return partial(bench.prefill, count, start), partial(bench.prefill, count, start, repeats=0)
        case "capture", [count]:
            return partial(bench.capture, count), partial(bench.prefill, count, repeats=0, cut=count // 2 + 7)
        case "restored", [count, start]:
            return partial(bench.restored, count, start), partial(bench.restored, count, start)
        case "restore", [count]:
            return partial(bench.restore, count), partial(bench.restore, count)
    raise ValueError(f"no such row: {name}")


def measure_engine(device: CudaDevice, name: str, *, small: bool) -> Figures:
    """A row of the engine above the device."""
    kind, *counts = name.split(":")
    bench = EngineBench(device, max_gap_ms=GAP_MS if kind == "gap" else None, window_s=0.3 if small else 3.0)
    try:
        return {"engine": bench.decode, "http": bench.http, "repeat": bench.repeat, "gap": bench.gap}[kind](
            *map(int, counts)
        )
    finally:
        bench.close()


def main() -> int:
    """Exit status 1 when a row failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--geometry", choices=NAMES, default="4b")
    parser.add_argument("--rows", nargs="+", default=["decode:1:8192", "decode:8:8192", "prefill:2048", "prefill:8192"])
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--max-context", type=int, default=8192 + 1024)
    parser.add_argument("--chunk", type=int, default=8192, help="tokens of the largest prefill unit")
    parser.add_argument("--json", type=Path, help="append rows to this file, one a line")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: a rehearsal with FP32")
    parser.add_argument("--profile", nargs="*", default=[], metavar="ROW", help="rows whose kernels are listed")
    chosen = parser.parse_args()
    where = torch.device(chosen.device)
    small = where.type == "cpu"
    rates = measure_ceilings(where, small)
    if not small:
        torch.cuda.empty_cache()
    begin = time.perf_counter()
    restores = [row for row in chosen.rows if row.startswith("restore")]
    device = open_random(
        chosen.geometry,
        where,
        lanes=chosen.lanes,
        max_context=chosen.max_context,
        host_bytes=3 << 30 if restores and where.type == "cuda" else 1 << 26,
        chunk_tokens=chosen.chunk,
        vocab_tokens=_VOCAB_TOKENS if any(row.startswith(ENGINE_ROWS) for row in chosen.rows) else None,
    )
    opened_s = time.perf_counter() - begin
    bench = Bench(device, where, small, rates)
    taken = count_allocations()
    place = torch.cuda.get_device_name(0) if where.type == "cuda" else "cpu"
    common: Figures = {"geometry": chosen.geometry, "gpu": place, "torch": torch.__version__}
    ceilings: Figures = {"copy_tb_per_s": bench.copy_rate / 1e12, "matmul_tflop_per_s": bench.matmul_rate / 1e12}
    tell({**common, "row": "open", "ms": 1e3 * opened_s, **ceilings}, chosen.json)
    failed = 0
    for name in chosen.rows:
        try:
            if name.startswith(ENGINE_ROWS):
                figures = measure_engine(device, name, small=bench.small)
            else:
                figures = find_row(bench, name)[0]()
            tell({**common, "row": name, **figures}, chosen.json)
        except Exception as error:
            failed += 1
            tell({**common, "row": name, "error": f"{type(error).__name__}: {error}"[:500]}, chosen.json)
    tell({**common, "row": "allocations", "at_start": taken, "since": count_allocations() - taken}, chosen.json)
    for name in chosen.profile:  # afterwards: a profiler slows the launches that follow it
        bench.profile(find_row(bench, name)[1], name)
    return 1 if failed else 0


def tell(figures: Figures, file: Path | None) -> None:
    """Print one row, and append it."""
    rounded = {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}
    line = json.dumps(rounded)
    print(line, flush=True)
    if file is not None:
        with file.open("a", encoding="utf-8") as target:
            target.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
