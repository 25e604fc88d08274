"""The CUDA device: implements ports.device and the host tier over streams, events and captured steps.

Everything is submitted from the thread that calls and ends on the GPU; `poll` asks events and never waits. In BF16 the
fused model runs, decode steps as graphs of exactly B rows; in other formats the plain routes, for comparison.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ninfer.base.clock import SystemClock
from ninfer.base.errors import DeviceFailure
from ninfer.base.frontier import pages_for
from ninfer.base.ids import TransferId, UnitId
from ninfer.config.geometry import ModelGeometry, NumericFormat, read_geometry
from ninfer.config.options import EngineOptions
from ninfer.models.digest import digest_weights
from ninfer.models.registry import LOADERS
from ninfer.models.tensor_files import TensorFiles
from ninfer.models.weights import LoadedModel
from ninfer.ports.device import (
    Completion,
    CopyDone,
    DeviceFacts,
    HostCopy,
    PageCopy,
    SampleRow,
    SamplesDone,
    StateCopy,
    UnitBatch,
    UnitDone,
)

from .arena import Arena
from .capacity import CapacityPlan, MemoryBudget, plan_capacity
from .copies import run_copies
from .cuda_copies import CudaLink, Journey
from .cuda_runner import CudaRunner, Draw
from .cuda_support import choose_gpu_format, device_errors, find_gpu, find_gpu_budget, tell_shortage
from .cuda_timeline import Mark, Timeline
from .formats import TORCH_DTYPES
from .host import HostArena, check_host_copies
from .parts import LayerGroups

_ASK_EVERY_S = 5e-5
"""While the GPU works; the next step is queued behind, so that it loses nothing by it."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """Submitted work: when it is done, what is told then."""

    is_done: Callable[[], bool]
    tell: Callable[[], Completion]


class CudaDevice:
    """One model on one GPU. `CudaDevice.open(options)` is the usual way in; attributes as of `CpuDevice`.

    `device` may be a CPU for tests: everything then ends inside the call that submits it. `fused` None: in BF16.
    `chunk_tokens`: of the longest prefill unit.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        plan: CapacityPlan,
        weight_digest: bytes,
        vocab_tokens: int | None = None,
        *,
        device: torch.device,
        fused: bool | None = None,
        chunk_tokens: int = 64,
    ) -> None:
        self.geometry: ModelGeometry = loaded.model.geometry
        self.plan, self.layout = plan, plan.layout
        layout = plan.layout
        self.numeric_format: NumericFormat = layout.numeric_format
        self.weight_digest = weight_digest
        self.mtp = loaded.mtp
        self._line = Timeline(device)
        use_fused = self.numeric_format == "bfloat16" if fused is None else fused
        vocab = self.geometry.vocab_rows if vocab_tokens is None else min(vocab_tokens, self.geometry.vocab_rows)
        self.facts = DeviceFacts(
            vocab_tokens=vocab,
            slots=layout.states.capacity,
            pages={pool: region.capacity for pool, region in layout.pools.items()},
            page_bytes={pool: region.block_bytes for pool, region in layout.pools.items()},
            state_bytes=layout.states.block_bytes,
            run_ahead_slots=layout.states.run_ahead,
            feeds_draws=use_fused,
        )
        self.host_bytes = plan.host_bytes
        with device_errors(), self._line.use():
            self.arena = Arena(self.geometry, layout, device)
            self.arena.images[0].zero_()
            for pool in self.arena.kv.values():
                pool[0].zero_()
            self.host = HostArena(plan.host_bytes, pinned=device.type == "cuda")
            self._groups = LayerGroups(self.geometry, layout)
            self._link = CudaLink(self.arena.raw, self.host, layout, self._groups, self._line)
            pages = pages_for(layout.max_context)
            self._runner = CudaRunner(
                loaded.model,
                self.arena,
                vocab,
                layout.lanes,
                pages,
                min(chunk_tokens, layout.max_context),
                self._line,
                fused=use_fused,
            )
        self._media: dict[int, Tensor] = {}
        self._journeys: dict[TransferId, Journey] = {}
        self._pending: list[_Pending] = []
        self._next_id = 0
        self._last_draw: UnitId | None = None
        self._clock = SystemClock()

    @classmethod
    def open(
        cls,
        options: EngineOptions,
        *,
        vocab_tokens: int | None = None,
        budget_bytes: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> CudaDevice:
        """Plan, then load, then capture. `options.dtype` "auto" is BF16.

        Raises BadInput when there is no GPU that fits or too little of its memory, ModelFileError for a bad directory.
        """
        device = find_gpu()
        geometry = read_geometry(options.model_dir)
        budget = find_gpu_budget(geometry, choose_gpu_format(options), budget_bytes)
        return cls.open_on(device, budget, options, vocab_tokens=vocab_tokens, progress=progress)

    @classmethod
    def open_on(
        cls,
        device: torch.device,
        budget: MemoryBudget,
        options: EngineOptions,
        *,
        vocab_tokens: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        fused: bool | None = None,
    ) -> CudaDevice:
        """`open` on a given device, with a given budget."""
        geometry = read_geometry(options.model_dir)
        files = TensorFiles(options.model_dir)
        numeric_format = choose_gpu_format(options)
        plan = plan_capacity(geometry, numeric_format, options, budget)
        digest = digest_weights(options.model_dir, files)
        load = LOADERS[geometry.architecture]
        try:
            with torch.inference_mode(), device:
                loaded = load(geometry, files, options.model_dir, TORCH_DTYPES[numeric_format], progress)
            files.close()
            chunk = options.prefill_chunk_tokens
            return cls(loaded, plan, digest, vocab_tokens, device=device, fused=fused, chunk_tokens=chunk)
        except torch.OutOfMemoryError as error:
            raise tell_shortage(plan, error) from error
        except DeviceFailure as error:
            if isinstance(error.__cause__, torch.OutOfMemoryError):
                raise tell_shortage(plan, error.__cause__) from error
            raise

    # ---- ports.device ---------------------------------------------------------------------------------------------

    def submit_copy(self, copies: Sequence[PageCopy | StateCopy]) -> TransferId:
        """Copies inside the arena run on the computing stream, in order with the units."""
        transfer = TransferId(self._take_id())
        with device_errors(), self._line.use():
            run_copies(self.arena, copies)
            self._await(self._line.mark(), partial(CopyDone, transfer))
        return transfer

    def submit_host_copy(self, copies: Sequence[HostCopy]) -> TransferId:
        """On streams of its own, after every unit submitted before."""
        check_host_copies(copies, self.layout, self.host_bytes)
        transfer = TransferId(self._take_id())
        with device_errors():
            journey = self._link.carry(copies)
        self._journeys[transfer] = journey
        self._pending.append(_Pending(journey.is_done, partial(self._land, transfer)))
        return transfer

    def submit_unit(self, batch: UnitBatch, after: Sequence[TransferId] = ()) -> UnitId:
        """Launched when this returns; a prefill waits for transfers layer by layer, on the GPU."""
        assert batch.drawn_by is None or batch.drawn_by == self._last_draw, "a unit feeds another draw than the last"
        unit = UnitId(self._take_id())
        awaited = [self._journeys[number] for number in after if number in self._journeys]
        with device_errors(), self._line.use():
            self._runner.run_unit(batch, self._media, self._gate(awaited))
            self._await(self._line.mark(), partial(UnitDone, unit))
        return unit

    def submit_sampling(self, rows: Sequence[SampleRow]) -> UnitId:
        """Launched when this returns; tokens come with the completion."""
        unit = UnitId(self._take_id())
        with device_errors(), self._line.use():
            draw = self._runner.submit_draw(rows)
            self._await(self._line.mark(), partial(self._tell_draw, unit, draw))
        self._last_draw = unit
        return unit

    def poll(self) -> list[Completion]:
        """What has ended since the last poll, in order of submission; a transfer may be overtaken."""
        done: list[Completion] = []
        left: list[_Pending] = []
        with device_errors():
            for pending in self._pending:
                if pending.is_done():
                    done.append(pending.tell())
                else:
                    left.append(pending)
        self._pending = left
        return done

    def wait(self, timeout_s: float) -> None:
        """Until something submitted is done, or the time is over. Asks the driver, which has no wait with a limit."""
        end = self._clock.now() + timeout_s
        with device_errors():
            while not any(pending.is_done() for pending in self._pending):
                left = end - self._clock.now()
                if left <= 0:
                    return
                time.sleep(min(left, _ASK_EVERY_S) if self._pending else left)

    def set_threads(self, count: int) -> None:
        """The CPU computes nothing here."""

    def close(self) -> None:
        """Wait for the GPU, forget media and undelivered completions; memory goes with the last reference."""
        if self._line.stream is not None:
            torch.cuda.synchronize(self._line.device)
        self._media.clear()
        self._journeys.clear()
        self._pending.clear()

    # ---- media ----------------------------------------------------------------------------------------------------

    def keep_media(self, rows: Tensor) -> int:
        """Keep prepared media rows [M, H] for embedding overrides; returns their handle."""
        handle = self._take_id()
        self._media[handle] = rows.to(self._line.device)
        return handle

    def drop_media(self, handle: int) -> None:
        """Forget prepared rows; no submitted unit may still name them."""
        del self._media[handle]

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _gate(self, journeys: Sequence[Journey]) -> Callable[[int], None] | None:
        """What a forward pass calls before each layer: its stream waits for the layer's bytes, this thread does not."""
        if not journeys:
            return None

        def wait_for(layer: int) -> None:
            for journey in journeys:
                journey.saved.hold(self._line)
                journey.groups[self._groups.group_of_layer[layer]].hold(self._line)

        return wait_for

    def _await(self, mark: Mark, tell: Callable[[], Completion]) -> None:
        self._pending.append(_Pending(mark.is_done, tell))

    def _land(self, transfer: TransferId) -> Completion:
        del self._journeys[transfer]
        return CopyDone(transfer)

    def _tell_draw(self, unit: UnitId, draw: Draw) -> Completion:
        return SamplesDone(unit, draw.read())

    def _take_id(self) -> int:
        self._next_id += 1
        return self._next_id
