"""Single operators on a GPU at the shapes of a published geometry: routes and tile choices side by side.

    python -m bench.gpu_ops --geometry 4b [--only linear attention ...] --json FILE

Each variant is captured in a graph over several sets of inputs, larger together than the cache, and the graph's replay
is timed. Rows carry the bytes (or FLOPs) that must be moved and the rate reached.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from bench.gpu import Figures, tell
from bench.gpu_model import NAMES, read_named_geometry
from ninfer.config.geometry import ModelGeometry
from ninfer.kernels.gated_delta.triton_inputs import scan_inputs
from ninfer.kernels.gated_delta.triton_scan import ScanTiles, scan_chunks
from ninfer.kernels.gated_delta.triton_step import StepTiles, mix_step
from ninfer.kernels.linear.triton_rows import multiply_parts, multiply_rows, multiply_rows_gated
from ninfer.kernels.paged_attention.triton_decode import attend_pages
from ninfer.kernels.paged_attention.triton_prefill import PrefillTiles, attend_chunk_pages
from ninfer.kernels.rmsnorm import RmsNorm
from ninfer.kernels.rmsnorm.triton_norm import add_norm
from ninfer.kernels.span import make_span
from ninfer.kernels.swiglu.triton_swiglu import swiglu

REHEARSAL = not torch.cuda.is_available()
"""On a CPU every variant runs once, in the interpreter, in FP32 and at small sizes; the figures mean nothing."""
DEVICE = torch.device("cpu" if REHEARSAL else "cuda")
BF16 = torch.float32 if REHEARSAL else torch.bfloat16


def replay_s(calls: Sequence[Callable[[], object]]) -> float:
    """Seconds of one call, as part of a graph of all of them."""
    if REHEARSAL:
        calls[0]()
        return 1.0
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls:
            call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            kept = [call() for call in calls]
        times = []
        for _ in range(8):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
    del kept
    return statistics.median(times[2:]) / len(calls)


def over(work: Callable[..., object], items: Sequence[object]) -> list[Callable[[], object]]:
    """One call for each item."""
    return [partial(work, item) for item in items]


def rand(*shape: int, dtype: torch.dtype = BF16, scale: float = 1.0) -> Tensor:
    return torch.empty(shape, dtype=dtype).normal_().mul_(scale)


def unit_norm(width: int) -> RmsNorm:
    norm = RmsNorm.empty((width,), 1e-6, torch.float32)
    norm.fill(rand(width, dtype=torch.float32), offset=1)
    return norm


def list_shapes(geometry: ModelGeometry) -> dict[str, tuple[int, int]]:
    """(outputs, inputs) of the products of one step."""
    gdn, attention = geometry.gdn, geometry.attention
    shapes = {
        "gdn_in": (gdn.conv_channels + gdn.value_width + 2 * gdn.value_heads, geometry.hidden),
        "gdn_out": (geometry.hidden, gdn.value_width),
        "attention_in": (2 * (attention.heads + attention.kv_heads) * attention.head_dim, geometry.hidden),
    }
    if geometry.moe is None:
        shapes |= {"gate_up": (2 * geometry.mlp_inner, geometry.hidden), "down": (geometry.hidden, geometry.mlp_inner)}
    return shapes | {"head": (geometry.vocab_rows, geometry.hidden)}


def measure_linear(geometry: ModelGeometry, report: Callable[..., None]) -> None:
    """cuBLAS against row tiles."""
    for name, (outputs, inputs) in list_shapes(geometry).items():
        size = 2 * outputs * inputs
        weights = [
            rand(outputs, inputs, scale=0.02)
            for _ in range(max(2, min(8, 400_000_000 // size)) if not REHEARSAL else 1)
        ]
        for batch in (1, 8):
            _measure_product(name, batch, weights, report, size)


def _measure_product(name: str, batch: int, weights: Sequence[Tensor], report: Callable[..., None], size: int) -> None:
    outputs, inputs = weights[0].shape
    x = rand(batch, inputs)
    report(f"linear {name} b{batch} cublas", replay_s(over(lambda w: torch.mm(x, w.t()), weights)), size)
    forms: dict[str, Callable[..., object]] = {"rows": partial(multiply_rows, x)}
    if outputs <= 8192:
        forms = {f"{parts} parts": partial(multiply_parts, x, parts=parts) for parts in (1, 2, 4, 8)}
    if name == "gate_up":
        forms["gated"] = partial(multiply_rows_gated, x)
    for form, product in forms.items():
        report(f"linear {name} b{batch} {form}", replay_s(over(product, weights)), size)


def measure_attention(geometry: ModelGeometry, report: Callable[..., None]) -> None:
    """Decode over pages by parts and stages; prefill by library."""
    shape, context, layers = geometry.attention, 128 if REHEARSAL else 8192, 4
    pages = context // 64
    for batch, parts in ((1, (16, 32, 64)), (8, (4, 8, 16))):
        pool = rand(1 + batch * pages, layers, 2, shape.kv_heads, 64, shape.head_dim)
        table = torch.arange(1, 1 + batch * pages, dtype=torch.int32).view(batch, pages)
        lengths = torch.full((batch,), context, dtype=torch.int32)
        q, gates = rand(batch, shape.heads, shape.head_dim), rand(batch, shape.heads * shape.head_dim)
        size = batch * context * 2 * shape.kv_heads * shape.head_dim * 2
        for splits, stages in itertools.product(parts[:1] if REHEARSAL else parts, (2, 3)):

            def attend(layer: object, inputs=(q, gates, pool, table, lengths), splits=splits, stages=stages) -> Tensor:  # type: ignore[no-untyped-def]
                q, gates, pool, table, lengths = inputs
                return attend_pages(q, gates, pool, layer, table, lengths, splits, stages)  # type: ignore[arg-type]

            report(f"attention b{batch} 8k parts {splits} stages {stages}", replay_s(over(attend, range(layers))), size)
    tokens = context
    q, k, v = (rand(1, shape.heads, tokens, shape.head_dim) for _ in range(3))
    flops = 2 * shape.heads * shape.head_dim * tokens * tokens
    aten = torch.ops.aten
    calls: dict[str, Callable[[], object]] = {
        "flash": lambda: aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True)[0],
        "cudnn": lambda: aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, True)[0],
    }
    queries, gates = rand(tokens, shape.heads, shape.head_dim), rand(tokens, shape.heads * shape.head_dim)
    for choice in ((128, 2, 8), (128, 1, 8), (64, 2, 4)):
        calls[f"pages {choice}"] = partial(
            attend_chunk_pages, queries, gates, pool, 1, table[:1], make_span(tokens), PrefillTiles(*choice)
        )
    for name, call in calls.items():
        if not REHEARSAL or name.startswith("pages"):
            report(f"attention prefill 8k {name}", replay_s([call]), flops, unit="tflop_per_s")


def measure_delta(geometry: ModelGeometry, report: Callable[..., None]) -> None:
    """The step kernel; the scan by tiles."""
    gdn, layers = geometry.gdn, 6
    width = gdn.conv_channels + gdn.value_width + 2 * gdn.value_heads
    states = rand(9, layers, gdn.value_heads, gdn.key_dim, gdn.value_dim, dtype=torch.float32, scale=0.05)
    columns = rand(9, layers, 3, gdn.conv_channels)
    conv, rate = rand(4, gdn.conv_channels, dtype=torch.float32), -torch.rand(gdn.value_heads)
    norm = unit_norm(gdn.value_dim)
    for batch in (1, 8):
        slots = torch.arange(1, 1 + batch, dtype=torch.int32)

        def mix(tiles: StepTiles, layer: object, y: Tensor = rand(batch, width), slots: Tensor = slots) -> Tensor:  # noqa: B008
            read = (columns[:, layer], states[:, layer], rate, rate, norm, gdn.key_heads)
            return mix_step(y, conv, *read, slots, slots, tiles)

        for choice in (StepTiles(32, 4), StepTiles(16, 4), StepTiles(16, 2), StepTiles(32, 8), StepTiles(64, 8)):
            seconds = replay_s(over(partial(mix, choice), range(layers)))
            label = f"delta step b{batch} part {choice.part} w{choice.warps}"
            report(label, seconds, 2 * batch * 4 * gdn.state_elements)
    for tokens in (70,) if REHEARSAL else (512, 2048, 8192):
        y = rand(tokens, width)
        span = make_span(tokens, write_slot=1)
        prepare = partial(scan_inputs, y, conv, columns[:, 0], span, rate, rate, gdn.key_heads, gdn.key_dim)
        report(f"delta inputs {tokens}", replay_s([prepare]), 2 * 2 * tokens * gdn.conv_channels)
        for part, stages, warps in ((32, 2, 4), (64, 2, 4)):
            scan = partial(scan_chunks, prepare(), states[:, 0], span, tokens, ScanTiles(part, stages, warps))
            flops = 6 * gdn.state_elements * tokens
            report(f"delta scan {tokens} part {part} s{stages} w{warps}", replay_s([scan]), flops, unit="tflop_per_s")


def measure_small(geometry: ModelGeometry, report: Callable[..., None]) -> None:
    """What lies between products in a step."""
    norm = unit_norm(geometry.hidden)
    inner = geometry.mlp_inner or 512
    for batch in (1, 8):
        x, delta = rand(batch, geometry.hidden, dtype=torch.float32), rand(batch, geometry.hidden)
        both = rand(batch, 2 * inner)
        report(f"add_norm b{batch}", replay_s([partial(add_norm, x, delta, norm, BF16)] * 16), 0)
        report(f"swiglu b{batch}", replay_s([partial(swiglu, both)] * 16), 0)


GROUPS = {
    "small": measure_small,
    "delta": measure_delta,
    "attention": measure_attention,
    "linear": measure_linear,
}


def main() -> int:
    """Exit status 1 when a group failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_ops", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--geometry", choices=NAMES, default="4b")
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    geometry, failed = read_named_geometry(chosen.geometry), 0

    def report(name: str, seconds: float, amount: float, unit: str = "tb_per_s") -> None:
        figures: Figures = {"geometry": chosen.geometry, "op": name, "us": 1e6 * seconds}
        tell({**figures, unit: amount / seconds / 1e12}, chosen.json)

    for group in chosen.only:
        try:
            with torch.inference_mode(), DEVICE:
                GROUPS[group](geometry, report)
        except Exception as error:
            failed += 1
            words = f"{type(error).__name__}: {error}"[:500]
            tell({"geometry": chosen.geometry, "op": group, "error": words}, chosen.json)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
