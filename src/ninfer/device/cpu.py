"""The CPU device: implements ports.device over torch tensors in one arena.

Computes inside submit; completions wait for `poll`, in order. Knows lanes as labels only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from ninfer.base.errors import DeviceFailure
from ninfer.base.ids import TransferId, UnitId
from ninfer.config.geometry import ELEMENT_BYTES, ModelGeometry, NumericFormat, read_geometry
from ninfer.config.options import EngineOptions
from ninfer.models.digest import digest_weights
from ninfer.models.registry import LOADERS
from ninfer.models.tensor_files import TensorFiles
from ninfer.models.weights import LoadedModel
from ninfer.ports.device import (
    Completion,
    CopyDone,
    DeviceFacts,
    PageCopy,
    SampleRow,
    SamplesDone,
    StateCopy,
    UnitBatch,
    UnitDone,
)

from .arena import Arena
from .copies import run_copies
from .formats import TORCH_DTYPES, choose_format
from .layout import DeviceLayout, LayoutRequest, plan_layout
from .memory import free_memory_bytes
from .runner import Runner

_MEMORY_SHARE = 0.8
"""Of the free memory; the rest is for prompts, text and the system."""


class CpuDevice:
    """One model on the CPU. `CpuDevice.open(options)` is the usual way in; for an engine's builder:

    - `progress(done_bytes, total_bytes)` is called while weights are read, from the calling thread.
    - `layout` is the plan that was carried out: pages, slots, bytes, `max_context`, `kv_capacity`.
    - `geometry`, `numeric_format` and `weight_digest` (32 bytes of config and weights, the same in every process)
      are this device's part of the execution identity.
    - `facts` is what Program plans with.

    Bad options raise BadInput before any weight is read, a bad directory ModelFileError.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        layout: DeviceLayout,
        weight_digest: bytes,
        vocab_tokens: int | None = None,
    ) -> None:
        self.geometry: ModelGeometry = loaded.model.geometry
        self.layout = layout
        self.numeric_format: NumericFormat = layout.numeric_format
        self.weight_digest = weight_digest
        self.mtp = loaded.mtp
        self.arena = Arena(self.geometry, layout)
        vocab = self.geometry.vocab_rows if vocab_tokens is None else min(vocab_tokens, self.geometry.vocab_rows)
        self.facts = DeviceFacts(
            vocab_tokens=vocab,
            slots=layout.states.capacity,
            pages={pool: region.capacity for pool, region in layout.pools.items()},
            page_bytes={pool: region.block_bytes for pool, region in layout.pools.items()},
            state_bytes=layout.states.block_bytes,
        )
        self._runner = Runner(loaded.model, self.arena, vocab)
        self._media: dict[int, Tensor] = {}
        self._completions: list[Completion] = []
        self._arrival = threading.Event()
        self._next_id = 0

    @classmethod
    def open(
        cls,
        options: EngineOptions,
        *,
        vocab_tokens: int | None = None,
        budget_bytes: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> CpuDevice:
        """Plan, then load. `vocab_tokens`: ids the tokenizer can write (default: all rows of the head).

        `options.dtype` "auto" picks BF16 on processors that multiply it, else FP32. `options.threads` None leaves one
        thread; torch's count may be set later. `budget_bytes`: memory for arena and workspace (default: most of what
        the machine has free beyond the weights).
        """
        geometry = read_geometry(options.model_dir)
        files = TensorFiles(options.model_dir)
        numeric_format = choose_format(options.dtype)
        torch.set_num_threads(options.threads or 1)
        layout = plan_layout(
            geometry,
            numeric_format,
            LayoutRequest(
                lanes=options.max_concurrency,
                max_context=options.max_context,
                kv_capacity=options.kv_capacity,
                extra_state_slots=options.extra_state_slots,
                chunk_tokens=options.prefill_chunk_tokens,
                budget_bytes=_budget_bytes(geometry, numeric_format) if budget_bytes is None else budget_bytes,
            ),
        )
        digest = digest_weights(options.model_dir, files)
        load = LOADERS[geometry.architecture]
        loaded = load(geometry, files, options.model_dir, TORCH_DTYPES[numeric_format], progress)
        files.close()
        return cls(loaded, layout, digest, vocab_tokens)

    # ---- ports.device.Device --------------------------------------------------------------------------------------

    def submit_copy(self, copies: Sequence[PageCopy | StateCopy]) -> TransferId:
        """Copies are done when this returns."""
        transfer = TransferId(self._take_id())
        with _device_errors():
            run_copies(self.arena, copies)
        self._complete(CopyDone(transfer))
        return transfer

    def submit_unit(self, batch: UnitBatch, after: Sequence[TransferId] = ()) -> UnitId:  # noqa: ARG002
        """The pass is done when this returns; every earlier transfer is done already."""
        unit = UnitId(self._take_id())
        with _device_errors():
            self._runner.run_unit(batch, self._media)
        self._complete(UnitDone(unit))
        return unit

    def submit_sampling(self, rows: Sequence[SampleRow]) -> UnitId:
        """Tokens are drawn when this returns, and delivered by `poll`."""
        unit = UnitId(self._take_id())
        with _device_errors():
            runs = self._runner.draw_tokens(rows)
        self._complete(SamplesDone(unit, runs))
        return unit

    def poll(self) -> list[Completion]:
        """Completions since the last poll, in order."""
        done, self._completions = self._completions, []
        self._arrival.clear()
        return done

    def wait(self, timeout_s: float) -> None:
        """Returns at once while completions wait; nothing completes by itself, so else the time passes."""
        self._arrival.wait(timeout_s)

    def close(self) -> None:
        """Forget media and undelivered completions; memory goes with the last reference."""
        self._media.clear()
        self._completions.clear()

    # ---- media ----------------------------------------------------------------------------------------------------

    def keep_media(self, rows: Tensor) -> int:
        """Keep prepared media rows [M, H] for embedding overrides; returns their handle."""
        handle = self._take_id()
        self._media[handle] = rows
        return handle

    def drop_media(self, handle: int) -> None:
        """Forget prepared rows; no submitted unit may still name them."""
        del self._media[handle]

    def _take_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _complete(self, completion: Completion) -> None:
        self._completions.append(completion)
        self._arrival.set()


def _budget_bytes(geometry: ModelGeometry, numeric_format: NumericFormat) -> int | None:
    """A share of the memory that is free, less the weights that are still to be read."""
    free = free_memory_bytes()
    if free is None:
        return None
    weights = (geometry.text_parameters + geometry.mtp_parameters) * ELEMENT_BYTES[numeric_format]
    return max(int(_MEMORY_SHARE * free) - weights, 0)


@contextmanager
def _device_errors() -> Iterator[None]:
    """No gradients inside; what torch raises becomes DeviceFailure. Failed assertions pass: broken invariants."""
    try:
        with torch.inference_mode():
            yield
    except (RuntimeError, ValueError, IndexError, KeyError, MemoryError) as error:
        raise DeviceFailure(f"{type(error).__name__}: {error}") from error
