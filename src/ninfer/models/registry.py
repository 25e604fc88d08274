"""Which architecture strings are served, and by which loader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from ninfer.config.geometry import ModelGeometry

from .tensor_files import TensorFiles
from .weights import LoadedModel, Progress, load_weights

Loader = Callable[[ModelGeometry, TensorFiles, Path, torch.dtype, Progress | None], LoadedModel]

LOADERS: dict[str, Loader] = {
    "Qwen3_5ForCausalLM": load_weights,
    "Qwen3_5MoeForCausalLM": load_weights,
    "Qwen3_5ForConditionalGeneration": load_weights,
    "Qwen3_5MoeForConditionalGeneration": load_weights,
}
