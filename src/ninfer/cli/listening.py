"""One generation for a command that waits for it: events from the control thread, taken on the main thread."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from ninfer.engine.facade import Engine
from ninfer.frontend.plan import InputPlan
from ninfer.ports.output import Event, Failed, Finished
from ninfer.ports.sampling import SamplingParams

_POLL_S = 0.1
"""How long a wait may keep a signal from being seen."""


def listen(
    engine: Engine,
    plan: InputPlan,
    params: SamplingParams,
    *,
    max_tokens: int,
    stop: tuple[str, ...] = (),
    ignore_eos: bool = False,
) -> Iterator[Event]:
    """Submit and yield every event up to the last. Ctrl+C stops the answer: its last event still comes.

    Raises Overloaded, BadInput; KeyboardInterrupt at the second Ctrl+C.
    """
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    submission = engine.submit_plan(
        plan, params, max_tokens=max_tokens, stop=stop, ignore_eos=ignore_eos, sink=events.put
    )
    try:
        with _interrupts_to(submission.cancel):
            while True:
                try:
                    event = events.get(timeout=_POLL_S)
                except queue.Empty:
                    continue
                yield event
                if isinstance(event, (Finished, Failed)):
                    return
    finally:
        submission.cancel()


@contextmanager
def _interrupts_to(cancel: Callable[[], None]) -> Iterator[None]:
    """While inside, the first Ctrl+C calls `cancel` and the second one is a KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        cancel()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
