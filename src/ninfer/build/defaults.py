"""What a model directory recommends for sampling: `generation_config.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ninfer.base.errors import BadInput, ModelFileError
from ninfer.engine.sampling import make_sampling
from ninfer.ports.sampling import SamplingParams

_FIELDS = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")


def read_default_sampling(model_dir: Path) -> SamplingParams:
    """The recommended parameters; plain sampling where the file is missing or silent. Raises ModelFileError."""
    path = model_dir / "generation_config.json"
    if not path.is_file():
        return SamplingParams()
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ModelFileError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise ModelFileError(f"{path} must hold a JSON object")
    given = {name: content[name] for name in _FIELDS if content.get(name) is not None}
    try:
        return make_sampling(SamplingParams(), given, seed=0)
    except BadInput as error:
        raise ModelFileError(f"{path}: {error}") from error
