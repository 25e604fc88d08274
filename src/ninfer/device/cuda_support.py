"""Is there a GPU that can serve, and how much of its memory may be planned with? Each refusal is one line."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ninfer.base.errors import BadInput, DeviceFailure
from ninfer.config.geometry import ModelGeometry, NumericFormat
from ninfer.config.options import EngineOptions

from .capacity import CapacityPlan, MemoryBudget, weight_bytes

LEAST_CAPABILITY = (8, 0)
_MEMORY_SHARE = 0.94
"""Of the memory that is free; the rest is for graphs, libraries and the driver."""
_RESERVED_BYTES = 1 << 30


def find_gpu() -> torch.device:
    """The first GPU. Raises BadInput that says in one line what is missing."""
    if not torch.backends.cuda.is_built():
        raise _refuse(f"torch {torch.__version__} is built without CUDA")
    if not torch.cuda.is_available():
        raise _refuse("no NVIDIA GPU found, or its driver does not fit torch's CUDA " + str(torch.version.cuda))
    capability = torch.cuda.get_device_capability(0)
    if capability < LEAST_CAPABILITY:
        name, least = torch.cuda.get_device_name(0), ".".join(map(str, LEAST_CAPABILITY))
        raise _refuse(f"{name} has compute capability {capability[0]}.{capability[1]}, {least} is needed")
    if importlib.util.find_spec("triton") is None:
        raise _refuse("triton is not installed (pip install 'ninfer[cuda]')")
    return torch.device("cuda", 0)


def choose_gpu_format(options: EngineOptions) -> NumericFormat:
    """ "auto" is BF16."""
    return "bfloat16" if options.dtype == "auto" else options.dtype


def find_gpu_budget(geometry: ModelGeometry, numeric_format: NumericFormat, given_bytes: int | None) -> MemoryBudget:
    """A share of the free GPU memory, less the weights that are still to be read; or what the caller allows."""
    if given_bytes is not None:
        return MemoryBudget(given_bytes)
    free, _ = torch.cuda.mem_get_info()
    need = weight_bytes(geometry, numeric_format)
    left = int(_MEMORY_SHARE * free) - _RESERVED_BYTES - need
    if left <= 0:
        raise BadInput(f"device cuda: the weights need {need} bytes, the GPU has {free} free", param="device")
    return MemoryBudget(left)


def tell_shortage(plan: CapacityPlan, error: BaseException) -> BadInput:
    """Out of memory at start-up: the largest entries of the plan, and the option that helps."""
    parts = sorted(
        (
            ("weights", plan.weight_bytes),
            ("KV pages", plan.layout.arena_bytes - plan.layout.states.region_bytes),
            ("states", plan.layout.states.region_bytes),
            ("workspace", plan.layout.workspace_bytes),
        ),
        key=lambda part: -part[1],
    )
    named = ", ".join(f"{name} {count}" for name, count in parts[:3])
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return BadInput(
        f"device cuda: out of memory ({first}); planned bytes: {named}; lower kv_capacity", param="kv_capacity"
    )


@contextmanager
def device_errors() -> Iterator[None]:
    """No gradients inside; what torch or the driver raises becomes DeviceFailure. Failed assertions pass."""
    try:
        with torch.inference_mode():
            yield
    except (RuntimeError, ValueError, IndexError, KeyError, MemoryError) as error:
        raise DeviceFailure(f"{type(error).__name__}: {error}") from error


def _refuse(reason: str) -> BadInput:
    return BadInput(f"device cuda: {reason}; use device cpu", param="device", code="unsupported_parameter")
