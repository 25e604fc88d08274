"""One interpreter for control thread, event loop and text work: what it must be told so that none waits long for it.

Settings of the whole process, so they are the server's to make and not the library's.
"""

from __future__ import annotations

import gc
import sys

SWITCH_INTERVAL_S = 0.0005
"""How long a thread may keep the interpreter from others that ask: a decode step is a few milliseconds, and its thread
asks several times."""


def share_interpreter() -> None:
    """Threads that compute give way soon: rendering a long prompt must not hold up those who decode."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)


def settle_heap() -> None:
    """What is loaded by now stays: no full collection walks through it again, with every thread stopped meanwhile."""
    gc.collect()
    gc.freeze()
