"""One generation for a command that waits for it: events from the control thread, taken on the main thread."""

from __future__ import annotations

import queue
from collections.abc import Iterator

from ninfer.engine.facade import Engine
from ninfer.frontend.plan import InputPlan
from ninfer.ports.output import Event, Failed, Finished
from ninfer.ports.sampling import SamplingParams

_POLL_S = 0.1
"""How long a wait may keep Ctrl+C from being seen."""


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

    Raises Overloaded, BadInput.
    """
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    submission = engine.submit_plan(
        plan, params, max_tokens=max_tokens, stop=stop, ignore_eos=ignore_eos, sink=events.put
    )
    try:
        while True:
            try:
                event = events.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            except KeyboardInterrupt:
                submission.cancel()
                continue
            yield event
            if isinstance(event, (Finished, Failed)):
                return
    finally:
        submission.cancel()
