"""Notices an engine that makes no progress, and says once where its control thread stands (V-16, OPS-01).

Knows phases and threads. Ends nothing: a stalled engine may come back, and whether to restart is a supervisor's choice,
who sees it in /health.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback

from ninfer.engine.core import THREAD_NAME
from ninfer.server.service import Phase, Service

_LOG = logging.getLogger("ninfer.server")


class Watchdog:
    """Looks when told to."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._is_stalled = False

    def look(self) -> None:
        """Tell the log when a stall begins and when it is over. Cheap: may be called many times a second."""
        phase, reason = self._service.find_phase()
        is_stalled = phase is Phase.STALLED
        if is_stalled and not self._is_stalled:
            self._service.stalls += 1
            _LOG.error("the engine makes no progress: %s\n%s", reason, "".join(find_stack(THREAD_NAME)))
        elif self._is_stalled and not is_stalled:
            _LOG.warning("the engine is %s again", phase.value)
        self._is_stalled = is_stalled


def find_stack(thread_name: str) -> list[str]:
    """Where threads of that name stand (several: a process with several engines), as lines of code without values."""
    frames = sys._current_frames()
    named = [thread.ident for thread in threading.enumerate() if thread.name == thread_name and thread.ident in frames]
    return [line for ident in named if ident is not None for line in traceback.format_stack(frames[ident])]
