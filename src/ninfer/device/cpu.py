"""The CPU device: implements ports.device over torch tensors in one arena, and the host tier beside it.

Units, draws and copies inside the arena run on one thread in order of submission, host transfers on another; each
transfer starts after the units submitted before it. Completions wait for `poll`. Knows lanes as labels only.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from ninfer.base.errors import BadInput, DeviceFailure
from ninfer.base.ids import LaneId, TransferId, UnitId
from ninfer.config.geometry import ModelGeometry, NumericFormat, read_geometry
from ninfer.config.options import EngineOptions
from ninfer.models.digest import digest_weights
from ninfer.models.registry import LOADERS
from ninfer.models.tensor_files import TensorFiles
from ninfer.models.weights import LoadedModel
from ninfer.ports.device import (
    Completion,
    CopyDone,
    CopyFailed,
    DeviceFacts,
    HostCopy,
    PageCopy,
    SampleRow,
    SamplesDone,
    StateCopy,
    UnitBatch,
    UnitDone,
    UnitKind,
)

from .arena import Arena
from .capacity import CapacityPlan, MemoryBudget, plan_capacity, weight_bytes
from .copies import run_copies
from .formats import TORCH_DTYPES, choose_format
from .host import HostArena, HostLink, Transfer, TransferLost, check_host_copies, layer_gate
from .memory import free_memory_bytes
from .parts import LayerGroups
from .runner import LayerGate, Runner
from .workers import Outbox, Worker

_MEMORY_SHARE = 0.8
"""Of the free memory; the rest is for prompts, text and the system."""


class CpuDevice:
    """One model on the CPU. `CpuDevice.open(options)` is the usual way in; for an engine's builder:

    - `progress(done_bytes, total_bytes)` is called while weights are read, from the calling thread.
    - `plan` says what every byte is for; its `layout` has pages, slots, `max_context` and `kv_capacity`.
    - `geometry`, `numeric_format` and `weight_digest` (32 bytes of config and weights, the same in every process)
      are this device's part of the execution identity.
    - `facts` is what Program plans with; `host_bytes` is not 0 where there is a host tier (`ports.device.HostTier`).

    What goes wrong on the device's threads is raised by `poll`. Bad options raise BadInput before any weight is read,
    a bad directory ModelFileError.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        plan: CapacityPlan,
        weight_digest: bytes,
        vocab_tokens: int | None = None,
    ) -> None:
        self.geometry: ModelGeometry = loaded.model.geometry
        self.plan, self.layout = plan, plan.layout
        layout = plan.layout
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
            run_ahead_slots=layout.states.run_ahead,
            follows_copies=True,
            feeds_draws=True,
        )
        self.host_bytes = plan.host_bytes
        self.host = HostArena(plan.host_bytes)
        self._groups = LayerGroups(self.geometry, layout)
        self._link = HostLink(self.arena.raw, self.host, self._groups)
        self._runner = Runner(loaded.model, self.arena, vocab)
        self._media: dict[int, Tensor] = {}
        self._transfers: dict[TransferId, Transfer] = {}
        """Until their end was polled: a unit may name them meanwhile."""
        self._next_id = 0
        self._drawn: dict[LaneId, int] = {}
        """By the last draws that have run; the computing thread's."""
        self._outbox = Outbox()
        self._compute = Worker("ninfer-device", self._outbox, self)
        self._copier = Worker("ninfer-copies", self._outbox, self) if plan.host_bytes else None

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
        thread; `set_threads` may change it. `budget_bytes`: memory for arena and workspace (default: most of what the
        machine has free beyond the weights, host tier included).
        """
        geometry = read_geometry(options.model_dir)
        files = TensorFiles(options.model_dir)
        numeric_format = choose_format(options.dtype)
        torch.set_num_threads(options.threads or 1)
        plan = plan_capacity(geometry, numeric_format, options, _find_budget(geometry, numeric_format, budget_bytes))
        digest = digest_weights(options.model_dir, files)
        load = LOADERS[geometry.architecture]
        loaded = load(geometry, files, options.model_dir, TORCH_DTYPES[numeric_format], progress)
        files.close()
        try:
            return cls(loaded, plan, digest, vocab_tokens)
        except RuntimeError as error:  # less than was free a moment ago
            text = f"device memory: the system refuses {plan.layout.arena_bytes} bytes for KV pages and states"
            raise BadInput(f"{text}; lower kv_capacity", param="kv_capacity") from error

    # ---- ports.device.Device --------------------------------------------------------------------------------------

    def submit_copy(self, copies: Sequence[PageCopy | StateCopy]) -> TransferId:
        """Copies run in order of submission with the units."""
        transfer = TransferId(self._take_id())
        self._compute.submit(partial(self._copy, transfer, tuple(copies)))
        return transfer

    def submit_host_copy(self, copies: Sequence[HostCopy]) -> TransferId:
        """What is restored lands by layer group."""
        check_host_copies(copies, self.layout, self.host_bytes)
        assert self._copier is not None, "C2: there is no host tier"
        number, transfer = TransferId(self._take_id()), Transfer(self._groups.count)
        self._transfers[number] = transfer
        job = partial(self._copy_host, number, transfer, tuple(copies))
        self._compute.submit(partial(self._copier.submit, job))  # it follows every unit submitted before
        return number

    def submit_unit(self, batch: UnitBatch, after: Sequence[TransferId] = ()) -> UnitId:
        """Each layer waits for its part of the transfers named; other work may be submitted meanwhile."""
        unit = UnitId(self._take_id())
        awaited = [self._transfers[number] for number in after if number in self._transfers]
        gate = layer_gate(awaited, self._groups)
        is_step = batch.kind is UnitKind.DECODE
        self._compute.submit(partial(self._run_unit, unit, batch, gate), tells_with_next=is_step)
        return unit

    def submit_sampling(self, rows: Sequence[SampleRow]) -> UnitId:
        """Tokens come with the completion."""
        unit = UnitId(self._take_id())
        self._compute.submit(partial(self._draw, unit, tuple(rows)))
        return unit

    def poll(self) -> list[Completion]:
        """Completions since the last poll, in order of ending."""
        done = self._outbox.take()
        for completion in done:
            if isinstance(completion, CopyDone | CopyFailed):
                self._transfers.pop(completion.transfer, None)
        return done

    def wait(self, timeout_s: float) -> None:
        """Returns at once while completions wait."""
        self._outbox.wait(timeout_s)

    def set_threads(self, count: int) -> None:
        """Threads of the model's arithmetic, from the next unit on: torch keeps this number per thread."""
        self._compute.submit(partial(torch.set_num_threads, count))

    def close(self) -> None:
        """End the threads once what was submitted is done; forget media and undelivered completions."""
        self._compute.close()
        if self._copier is not None:
            self._copier.close()
        self._media.clear()
        self._transfers.clear()
        self._outbox.clear()

    # ---- on the device's threads ----------------------------------------------------------------------------------

    def _copy(self, transfer: TransferId, copies: tuple[PageCopy | StateCopy, ...]) -> Completion:
        with _device_errors():
            run_copies(self.arena, copies)
        return CopyDone(transfer)

    def _copy_host(self, number: TransferId, transfer: Transfer, copies: tuple[HostCopy, ...]) -> None:
        """Its end is told before that of any unit that waits for it."""
        try:
            self._link.carry(copies, transfer)
        except (RuntimeError, OSError, MemoryError):
            self._outbox.put([CopyFailed(number)])
            transfer.fail()
        except Exception as error:
            self._outbox.put([error])
            transfer.fail()
        else:
            self._outbox.put([CopyDone(number)])
            transfer.finish()

    def _run_unit(self, unit: UnitId, batch: UnitBatch, gate: LayerGate | None) -> Completion:
        with _device_errors():
            try:
                self._runner.run_unit(_fill_in(batch, self._drawn), self._media, gate)
            except TransferLost:  # whoever submitted it has heard of the transfer's failure before
                self._runner.clear_targets(batch)
        return UnitDone(unit)

    def _draw(self, unit: UnitId, rows: tuple[SampleRow, ...]) -> Completion:
        with _device_errors():
            runs = self._runner.draw_tokens(rows)
        self._drawn = {run.lane: run.token_ids[0] for run in runs}
        return SamplesDone(unit, runs)

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


def _fill_in(batch: UnitBatch, drawn: dict[LaneId, int]) -> UnitBatch:
    """With the tokens that the draws before it gave."""
    if batch.drawn_by is None:
        return batch
    rows = (replace(row, token_ids=memoryview(array("i", [drawn[row.lane]]))) for row in batch.rows)
    return replace(batch, rows=tuple(rows), drawn_by=None)


def _find_budget(geometry: ModelGeometry, numeric_format: NumericFormat, device_bytes: int | None) -> MemoryBudget:
    """A share of the memory that is free, less the weights that are still to be read; or what the caller allows."""
    if device_bytes is not None:
        return MemoryBudget(device_bytes)
    free = free_memory_bytes()
    if free is None:
        return MemoryBudget(shared=True)
    return MemoryBudget(max(int(_MEMORY_SHARE * free) - weight_bytes(geometry, numeric_format), 0), shared=True)


@contextmanager
def _device_errors() -> Iterator[None]:
    """No gradients inside; what torch raises becomes DeviceFailure. Failed assertions pass: broken invariants."""
    try:
        with torch.inference_mode():
            yield
    except (RuntimeError, ValueError, IndexError, KeyError, MemoryError) as error:
        raise DeviceFailure(f"{type(error).__name__}: {error}") from error
