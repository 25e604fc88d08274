"""NInfer: an inference engine for hybrid language models, with exact restore points."""

from __future__ import annotations

__version__ = "0.1.0"
