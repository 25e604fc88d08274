"""NInfer: an inference engine for hybrid language models, with exact restore points.

`Engine` is loaded on first use: importing this package is cheap and brings no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ninfer.build.opening import Engine

__version__ = "0.1.0"
__all__ = ["Engine", "__version__"]


def __getattr__(name: str) -> object:
    if name == "Engine":
        from ninfer.build.opening import Engine

        return Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
