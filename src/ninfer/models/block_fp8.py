"""FP8 weights with a scale a block, as Hugging Face writes them: which tensors they are, and their numbers.

A weight `NAME` in F8_E4M3 has a tensor `NAME_scale_inv`, one number for each block of the configured size; a number of
the weight is its FP8 number times the scale of its block. Knows names, formats and that product, not when it is due.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch
from torch import Tensor

from ninfer.config.geometry import BlockQuantization

from .tensor_files import TensorEntry

FP8 = "F8_E4M3"
_SUFFIX = "_scale_inv"
_AT_ONCE = 1 << 24
"""Numbers that are FP32 at the same time."""


def scale_name(weight: str) -> str:
    """Of the tensor with a weight's scales."""
    return weight + _SUFFIX


def scale_shape(shape: tuple[int, ...], block: BlockQuantization) -> tuple[int, ...]:
    """Blocks of the last two dimensions; the last of each may be cut."""
    *outer, rows, columns = shape
    return (*outer, -(-rows // block.rows), -(-columns // block.columns))


def list_faults(
    entries: dict[str, TensorEntry], block: BlockQuantization | None, wanted: Collection[str]
) -> Iterator[str]:
    """What does not fit the config, in words: formats, missing and misshaped scales."""
    for name in wanted:
        entry = entries.get(name)
        if entry is None or entry.dtype != FP8:
            continue
        scales = entries.get(scale_name(name))
        if block is None:
            yield f"{name} is {FP8}, but config.json has no quantization_config"
        elif block.is_kept(name.removesuffix(".weight")):
            yield f"{name} is {FP8}, but quantization_config.modules_to_not_convert names it"
        elif len(entry.shape) < 2:
            yield f"{name} is {FP8} and no matrix"
        elif scales is None:
            yield f"{scale_name(name)} is missing"
        elif scales.shape != scale_shape(entry.shape, block) or scales.dtype == FP8:
            want = list(scale_shape(entry.shape, block))
            yield f"{scale_name(name)} is {scales.dtype} {list(scales.shape)}, must be numbers {want}"


def is_scale(name: str, entries: dict[str, TensorEntry]) -> bool:
    """A tensor that belongs to an FP8 weight."""
    weight = entries.get(name.removesuffix(_SUFFIX))
    return name.endswith(_SUFFIX) and weight is not None and weight.dtype == FP8


def multiply_out(weight: Tensor, scales: Tensor, block: BlockQuantization, dtype: torch.dtype) -> Tensor:
    """FP8 [..., R, C] and scales [..., R / rows, C / columns] -> a new tensor [..., R, C] in `dtype`.

    The product is rounded once, from FP32, a strip of block rows at a time, on torch's default device.
    """
    device = torch.get_default_device()
    weight, scales = weight.to(device), scales.to(device, torch.float32)
    out = torch.empty(weight.shape, dtype=dtype)
    columns = weight.shape[-1]
    wide = scales.repeat_interleave(block.columns, -1)[..., :columns]
    for index in range(out[..., 0, 0].numel()):
        one, factors, target = (x.reshape(-1, *x.shape[-2:])[index] for x in (weight, wide, out))
        strip = max(_AT_ONCE // (block.rows * columns), 1) * block.rows
        for start in range(0, one.shape[0], strip):
            first, stop = start // block.rows, -(-min(start + strip, one.shape[0]) // block.rows)
            spread = factors[first:stop].repeat_interleave(block.rows, 0)[: one.shape[0] - start]
            target[start : start + strip] = one[start : start + strip].float().mul_(spread).to(dtype)
    return out
