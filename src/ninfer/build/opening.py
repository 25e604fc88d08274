"""`ninfer.Engine`: an engine from a model directory and options, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

from ninfer.base.errors import BadInput
from ninfer.config.options import ContextCacheOptions, EngineOptions
from ninfer.engine.facade import Engine as AssembledEngine

from .assemble import BUNDLED_MODEL_DIR, Progress, open_parts
from .parts import make_core

_OPTION_NAMES = frozenset(field.name for field in fields(EngineOptions)) - {"model_dir"}


class Engine(AssembledEngine):
    """Loads a model and serves it in this process.

        with Engine() as engine:
            print(engine.submit([{"role": "user", "content": "Hello!"}], max_tokens=20).text())

    `model_dir`: a Hugging Face directory; None: the bundled model. `options`: fields of `EngineOptions` by name;
    `context_cache` may be a mapping. Raises BadInput and ModelFileError.
    """

    def __init__(
        self, model_dir: str | PathLike[str] | None = None, *, progress: Progress | None = None, **options: Any
    ) -> None:
        parts = open_parts(make_options(model_dir, options), progress)
        core = make_core(parts)
        core.start()
        super().__init__(
            core,
            parts.frontend,
            parts.options,
            parts.description(),
            default_sampling=parts.default_sampling,
            on_close=parts.device.close,
        )


def make_options(model_dir: str | PathLike[str] | None, given: Mapping[str, Any]) -> EngineOptions:
    """Options by name. Raises BadInput for a name that does not exist."""
    for name in given:
        if name not in _OPTION_NAMES:
            raise BadInput(f"{name} is not an option of an engine", param=name, code="unknown_parameter")
    cache = given.get("context_cache")
    chosen = dict(given)
    if isinstance(cache, Mapping):
        chosen["context_cache"] = ContextCacheOptions(**cache)
    return EngineOptions(BUNDLED_MODEL_DIR if model_dir is None else Path(model_dir), **chosen)
