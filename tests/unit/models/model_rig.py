"""A model with memory of its own, driven pass by pass. Everything unwritten is NaN."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from ninfer.config.geometry import read_geometry
from ninfer.kernels.paged_attention import plan_decode, plan_prefill
from ninfer.kernels.slots import step_slots
from ninfer.models.passes import DecodePass, Memory, PrefillPass, StateViews
from ninfer.models.registry import LOADERS
from ninfer.models.tensor_files import TensorFiles

FIXTURES = Path(__file__).resolve().parents[2] / "data" / "fixtures"
MODELS = ["dense_text", "moe_text", "dense_vision", "moe_vision"]
SLOTS, PAGES = 10, 12


class Rig:
    """One fixture in one dtype, its golden, and pools."""

    def __init__(self, name: str, dtype: torch.dtype = torch.float32) -> None:
        self.folder = FIXTURES / name
        self.geometry = read_geometry(self.folder)
        loaded = LOADERS[self.geometry.architecture](self.geometry, TensorFiles(self.folder), self.folder, dtype, None)
        self.model, self.mtp, self.dtype = loaded.model, loaded.mtp, dtype
        self.golden = load_file(self.folder / "golden.safetensors")
        facts = json.loads((self.folder / "golden.json").read_text())
        self.chunk_split: int = facts["chunk_split"]
        self.rope_delta: int = facts.get("rope_delta", 0)
        self.prompt = self.golden["prompt_ids"].long()
        self.positions = self.golden["positions"].long()
        self.memory = self._memory(self.geometry.full_layers)
        self.mtp_memory = Memory(self._memory(1).kv, self.memory.states)

    def _memory(self, layers: int) -> Memory:
        shape, gdn, nan = self.geometry, self.geometry.gdn, float("nan")
        fine = torch.float64 if self.dtype == torch.float64 else torch.float32
        kv = (PAGES, layers, 2, shape.attention.kv_heads, 64, shape.attention.head_dim)
        recurrent = (SLOTS, shape.linear_layers, gdn.value_heads, gdn.key_dim, gdn.value_dim)
        conv = (SLOTS, shape.linear_layers, gdn.conv_taps - 1, gdn.conv_channels)
        return Memory(
            torch.full(kv, nan, dtype=self.dtype),
            StateViews.of(
                torch.full(recurrent, nan, dtype=fine),
                torch.full(conv, nan, dtype=self.dtype),
                torch.full((SLOTS, shape.hidden), nan, dtype=self.dtype),
            ),
        )

    def prompt_rows(self) -> Tensor:
        """Embeddings of the prompt, media rows in place of their placeholders."""
        x = self.model.embed(self.prompt)
        if "token_types" in self.golden:
            types = self.golden["token_types"]
            x[types == 1] = self.golden["vision.image_embeds"].to(x.dtype)
            x[types == 2] = self.golden["vision.video_embeds"].to(x.dtype)
        return x

    def prefill(
        self,
        start: int,
        stop: int,
        read_slot: int | None,
        write_slot: int,
        *,
        pages: Sequence[int] = (3, 7, 2),
        cuts: Sequence[tuple[int, int | None]] = (),
        on_layer: Callable[[int, Tensor], None] | None = None,
    ) -> Tensor:
        """Prompt tokens [start, stop) -> final-normed hidden rows."""
        run = PrefillPass(
            self.model.rotary_tables(self.positions[:, start:stop]),
            plan_prefill(self.memory.kv, torch.tensor(pages), start, stop - start),
            read_slot,
            write_slot,
            tuple(cuts),
        )
        return self.model.forward(self.prompt_rows()[start:stop], run, self.memory, on_layer)

    def decode(
        self,
        token_ids: Sequence[int],
        lengths: Sequence[int],
        reads: Sequence[int],
        writes: Sequence[int],
        pages: Sequence[Sequence[int]],
    ) -> Tensor:
        """One token a row; `lengths` include it -> hidden rows."""
        positions = torch.tensor([[length - 1 + self.rope_delta for length in lengths]] * 3)
        run = DecodePass(
            self.model.rotary_tables(positions),
            plan_decode(self.memory.kv, pages, lengths),
            step_slots(reads, writes),
        )
        return self.model.forward(self.model.embed(torch.tensor(token_ids)), run, self.memory)


def near(got: Tensor, want: Tensor, bound: float) -> None:
    """Absolute bound, whatever the dtypes."""
    torch.testing.assert_close(got.double(), want.double(), rtol=0, atol=bound)
