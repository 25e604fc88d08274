"""Points in a stream's work: recorded, asked for, waited for. On a CPU, where all is done at once, they are no-ops.

That second form lets everything above run, and be tested, without a GPU.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


class Mark:
    """What was submitted to a stream before it is done once `is_done`."""

    __slots__ = ("_event",)

    def __init__(self, event: torch.cuda.Event | None = None) -> None:
        self._event = event

    def is_done(self) -> bool:
        """Never blocks. Raises what the work raised."""
        return self._event is None or self._event.query()

    def wait(self) -> None:
        """Block this thread until it is done."""
        if self._event is not None:
            self._event.synchronize()

    def hold(self, line: Timeline) -> None:
        """Later work of that stream starts after it; this thread goes on."""
        if self._event is not None and line.stream is not None:
            line.stream.wait_event(self._event)


class Timeline:
    """One stream of a device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def mark(self) -> Mark:
        """The end of what was submitted so far."""
        return Mark() if self.stream is None else Mark(self.stream.record_event(torch.cuda.Event()))

    def use(self) -> AbstractContextManager[Any]:
        """Work inside goes to this stream."""
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)


def pinned(count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Host memory that the device can reach by itself."""
    return torch.empty(count, dtype=dtype, pin_memory=device.type == "cuda")
