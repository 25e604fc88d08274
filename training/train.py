"""Train the bundled model on one GPU by the clock: `python -m training.train`. Goes on from its last save."""

from __future__ import annotations

import argparse
import json
import math
import os
import queue
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from training.data import Batch, Feeder
from training.export import load, save
from training.loss import Objective
from training.model import Model
from training.shape import Shape, Weights, fresh_weights

# up to this share of the time: row lengths and their shares of the batches
SCHEDULE: tuple[tuple[float, dict[int, float]], ...] = (
    (0.22, {256: 1.0}),
    (0.38, {512: 0.8, 256: 0.2}),
    (0.54, {1024: 0.75, 512: 0.25}),
    (0.76, {2048: 0.7, 512: 0.3}),
    (0.94, {4096: 0.65, 2048: 0.15, 512: 0.2}),
    (1.01, {8192: 0.3, 4096: 0.4, 512: 0.3}),
)
# a short second training on finished weights, after a change of the generators
POLISH: tuple[tuple[float, dict[int, float]], ...] = (
    (0.5, {512: 0.3, 2048: 0.4, 4096: 0.3}),
    (1.01, {512: 0.2, 2048: 0.35, 4096: 0.45}),
)
WARM_UP = 0.02
COLD_STEPS = 100  # a polish, or a resume without the optimiser's moments starts this gently
READ_FROM, READ_UNTIL, READ_LATER = 0.25, 0.45, 0.2  # what is only read counts this much less later on
READ_AT_MOST = 0.05  # weights below this are of text that is only read
SAVE_EVERY_S = 60.0


@dataclass(slots=True)
class Settings:
    """What one run needs to know."""

    model: Path
    out: Path
    seconds: float
    tokens: int
    rate: float
    workers: int
    seed: int
    cpu: bool
    lengths_at_most: int
    start: Path | None = None
    few: bool = False
    finish_at: float = 0.0  # on the monotonic clock; 0 means that only `seconds` counts
    stop_at: float = 0.0  # on the monotonic clock: save and leave the rest to the next call; 0 means never

    @property
    def schedule(self) -> tuple[tuple[float, dict[int, float]], ...]:
        """The main schedule, or the short one on given weights."""
        return POLISH if self.start else SCHEDULE


def mix_at(schedule: tuple[tuple[float, dict[int, float]], ...], progress: float, longest: int) -> dict[int, float]:
    """Row lengths at a share of the time."""
    mix = next(mix for end, mix in schedule if progress < end)
    out: dict[int, float] = {}
    for length, share in mix.items():
        out[min(length, longest)] = out.get(min(length, longest), 0.0) + share
    return out


def rate_at(progress: float, peak: float) -> float:
    """Warm-up, then a cosine to a hundredth."""
    if progress < WARM_UP:
        return peak * progress / WARM_UP
    return peak * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, (progress - WARM_UP) / (1 - WARM_UP)))))


def read_share(progress: float) -> float:
    """How much text that is only read still counts: first it teaches the language, later it is noise."""
    done = min(1.0, max(0.0, (progress - READ_FROM) / (READ_UNTIL - READ_FROM)))
    return 1.0 + (READ_LATER - 1.0) * done


def optimiser(weights: Weights, rate: float, device: torch.device) -> torch.optim.Optimizer:
    """AdamW; only matrices decay."""
    groups = [
        {"params": [w for n, w in weights.items() if w.ndim == 2 and "embed" not in n], "weight_decay": 0.1},
        {"params": [w for n, w in weights.items() if w.ndim != 2 or "embed" in n], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), eps=1e-8, fused=device.type == "cuda")


class Replays:
    """Loss and gradients of a batch as one CUDA graph a row length, so that the CPU does not set the pace."""

    def __init__(self, objective: Objective, weights: Weights) -> None:
        self._objective, self._weights = objective, list(weights.values())
        for w in self._weights:
            w.grad = torch.zeros_like(w)
        self._graphs: dict[int, tuple[torch.cuda.CUDAGraph, tuple[torch.Tensor, ...], torch.Tensor]] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def _once(self, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        torch._foreach_zero_([w.grad for w in self._weights])
        total, parts = self._objective(*inputs)
        total.backward()
        return parts

    def __call__(self, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Leaves the gradients in place and returns the loss parts."""
        length = inputs[0].shape[1]
        if length not in self._graphs:
            static = tuple(x.clone() for x in inputs)
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self._once(static)
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool):
                parts = self._once(static)
            self._graphs[length] = (graph, static, parts)
        graph, static, parts = self._graphs[length]
        for held, new in zip(static, inputs, strict=True):
            held.copy_(new)
        graph.replay()
        return parts


def saved_progress(out: Path) -> tuple[float, int]:
    """Seconds and steps of a run's last save."""
    if not (out / "state.json").exists():
        return 0.0, 0
    state = json.loads((out / "state.json").read_text())
    return state["elapsed_s"], state["step"]


class Run:
    """One training run: state, steps, saves."""

    def __init__(self, settings: Settings) -> None:
        self.s = settings
        self.device = torch.device("cpu" if settings.cpu else "cuda")
        self.shape = Shape.load(settings.model)
        self.elapsed, self.step, self.cold = 0.0, 0, COLD_STEPS
        saved = settings.out / "state.json"
        if saved.exists():
            self.elapsed, self.step = saved_progress(settings.out)
            weights = load(self.shape, settings.out, self.device)
        elif settings.start:
            weights = load(self.shape, settings.start, self.device)
        else:
            weights = fresh_weights(self.shape, settings.seed, self.device)
        self.weights = weights
        self.optimiser = optimiser(weights, settings.rate, self.device)
        moments = settings.out / "optimiser.pt"
        self.cold = 0 if (saved.exists() or settings.start) and not moments.exists() else COLD_STEPS
        if moments.exists() and saved.exists():
            full = torch.load(moments, map_location=self.device)
            self.optimiser.load_state_dict(full["optimiser"])
            with torch.no_grad():
                for name, w in full["weights"].items():
                    weights[name].copy_(w)
        compiled = not settings.cpu
        model = Model(
            self.shape,
            weights,
            dtype=torch.float32 if settings.cpu else torch.bfloat16,
            compiled=compiled,
            few=settings.few,
        )
        self.objective = Objective(model, compiled=compiled)
        self.replays = Replays(self.objective, weights) if compiled else None

    @property
    def progress(self) -> float:
        """Share of the time that is used."""
        return self.elapsed / self.s.seconds

    def _step(self, made: Batch) -> torch.Tensor:
        inputs = tuple(torch.from_numpy(x.astype(t)) for x, t in zip(made, ("int64", "float32", "int64"), strict=True))
        inputs[1][inputs[1] < READ_AT_MOST] *= READ_LATER if self.s.start else read_share(self.progress)
        if self.device.type == "cuda":
            inputs = tuple(x.pin_memory().to(self.device, non_blocking=True) for x in inputs)
        self.cold = min(COLD_STEPS, self.cold + 1)
        for group in self.optimiser.param_groups:
            group["lr"] = rate_at(self.progress, self.s.rate) * self.cold / COLD_STEPS
        if self.replays:
            parts = self.replays(inputs)
        else:
            total, parts = self.objective(*inputs)
            self.optimiser.zero_grad(set_to_none=True)
            total.backward()
        torch.nn.utils.clip_grad_norm_(list(self.weights.values()), 1.0)
        self.optimiser.step()
        return parts

    def save(self) -> None:
        """Shards first, then the state that names them complete."""
        save(self.weights, self.shape, self.s.out)
        if self.s.start:
            return  # a polish is too short to be resumed
        keep = {"optimiser": self.optimiser.state_dict(), "weights": {n: w.detach() for n, w in self.weights.items()}}
        torch.save(keep, self.s.out / "optimiser.tmp")
        (self.s.out / "optimiser.tmp").replace(self.s.out / "optimiser.pt")
        state = {
            "elapsed_s": self.elapsed,
            "step": self.step,
            "tokens": self.step * self.s.tokens,
            "seconds": self.s.seconds,
        }
        (self.s.out / "state.json").write_text(json.dumps(state))

    def go(self, feeder: Feeder) -> None:
        """Train until the time (or this part's share of it) is used."""
        waited = time.monotonic()
        made = feeder.take()
        self._step(made)  # compiles; not counted as training time
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        print(f"first step {time.monotonic() - waited:.1f}s", flush=True)
        begun = last = saved = mark = time.monotonic()
        if self.s.finish_at:
            self.s.seconds = self.elapsed + self.s.finish_at - begun
        shown = torch.zeros(4, device=self.device)
        steps = 0
        while self.progress < 1.0 and not (self.s.stop_at and time.monotonic() > self.s.stop_at):
            feeder.set_mix(mix_at(self.s.schedule, self.progress, self.s.lengths_at_most))
            try:
                made = feeder.take()
            except queue.Empty:
                self.save()
                raise
            shown += self._step(made)
            self.step, steps = self.step + 1, steps + 1
            if self.step % 20 == 0 or self.device.type == "cpu":
                parts = (shown / steps).tolist()  # waits for the GPU
                now = time.monotonic()
                rate = steps * self.s.tokens / (now - last)
                if self.step % 100 == 0 or self.device.type == "cpu":
                    line = " ".join(f"{x:.4f}" for x in parts)
                    print(
                        f"{now - begun:7.1f}s {self.progress:5.3f} step {self.step} rows {made[0].shape} loss {line} "
                        f"{rate / 1e6:.3f} Mtok/s queue {feeder.queue.qsize()}",
                        flush=True,
                    )
                    assert math.isfinite(parts[0])
                shown.zero_()
                last, steps = now, 0
                if now - saved > SAVE_EVERY_S:
                    self.save()
                    saved = time.monotonic()
            now = time.monotonic()
            self.elapsed += now - mark
            mark = now
        self.save()
        seen = self.step * self.s.tokens / 1e6
        state = "done" if self.progress >= 1.0 else "part"
        print(f"{state} {self.progress:.3f} step {self.step} tokens {seen:.1f}M", flush=True)


def main() -> None:
    """Parse, run, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model", type=Path, default=Path("src/ninfer/bundled_model"), help="folder with config and tokenizer"
    )
    parser.add_argument("--out", type=Path, default=Path(".train"))
    parser.add_argument("--minutes", type=float, default=17.5, help="of training, set-up not counted")
    parser.add_argument("--stop-in", type=float, default=0.0, help="seconds from now; the same command then goes on")
    parser.add_argument("--tokens", type=int, default=65536, help="tokens a step")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=int, default=8192)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--start", type=Path, help="polish these finished weights instead of training from nothing")
    parser.add_argument(
        "--finish-in",
        type=float,
        default=0.0,
        help="end so many seconds from now, set-up included, instead of --minutes",
    )
    parser.add_argument("--few", action="store_true", help="compile only what gains most: a quicker start")
    begun = time.monotonic()
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    # compiled code stays with the run, so that its later parts start at once
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str((a.out / "compiled").resolve()))
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(a.seed)
    settings = Settings(
        a.model, a.out, a.minutes * 60, a.tokens, a.rate, a.workers, a.seed, a.cpu, a.longest, a.start, a.few
    )
    settings.finish_at = begun + a.finish_in if a.finish_in else 0.0
    settings.stop_at = begun + a.stop_in if a.stop_in else 0.0
    elapsed, step = saved_progress(a.out)
    feeder = Feeder(a.model, a.tokens, a.seed + 17 * step, a.workers)
    feeder.set_mix(mix_at(settings.schedule, elapsed / settings.seconds, a.longest))
    feeder.start()  # the workers fill the queue while the model is set up
    try:
        Run(settings).go(feeder)
    finally:
        feeder.close()


if __name__ == "__main__":
    main()
