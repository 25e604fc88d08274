"""From the engine's control thread to the event loop, many events at a time.

Knows threads and queues; does not know what the events mean. A sink call costs the control thread an append and, at
most once per wake-up of the loop, one `call_soon_threadsafe`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ninfer.ports.output import Event, OutputDelta, OutputSink

_EVENT_BYTES = 64
_LOGPROB_BYTES = 48


class Inbox:
    """Events of one request that its task has not taken yet, with their size. Lives on the event loop."""

    __slots__ = ("_drops_output", "_events", "_limit_bytes", "_on_overflow", "_wake", "unread_bytes")

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._wake = asyncio.Event()
        self._drops_output = False
        self._limit_bytes: int | None = None
        self._on_overflow: Callable[[], None] | None = None
        self.unread_bytes = 0

    def limit(self, unread_bytes: int, on_overflow: Callable[[], None]) -> None:
        """Call `on_overflow` with every event that comes while more than `unread_bytes` wait (LIFE-06)."""
        self._limit_bytes, self._on_overflow = unread_bytes, on_overflow

    def drop_output(self) -> None:
        """Nobody will read: output that waits or comes is let go. What tells the end is kept."""
        self._drops_output = True
        self._events = [event for event in self._events if not isinstance(event, OutputDelta)]
        self.unread_bytes = sum(map(_count_bytes, self._events))

    def put(self, event: Event) -> None:
        """Add one event."""
        if self._drops_output and isinstance(event, OutputDelta):
            return
        self._events.append(event)
        self.unread_bytes += _count_bytes(event)
        self._wake.set()
        if self._on_overflow is not None and self._limit_bytes is not None and self.unread_bytes > self._limit_bytes:
            self._on_overflow()

    def wake(self) -> None:
        """Make `wait` return although nothing may wait."""
        self._wake.set()

    def take(self) -> list[Event]:
        """Everything that waits, in order; may be empty."""
        events, self._events = self._events, []
        self.unread_bytes = 0
        self._wake.clear()
        return events

    async def wait(self) -> None:
        """Until something waits."""
        await self._wake.wait()


def _count_bytes(event: Event) -> int:
    if not isinstance(event, OutputDelta):
        return _EVENT_BYTES
    alternatives = sum(1 + len(token.logprobs.top) for token in event.tokens if token.logprobs is not None)
    return _EVENT_BYTES * (1 + len(event.tokens)) + len(event.text) + _LOGPROB_BYTES * alternatives


class EventBridge:
    """One for a server: makes sinks for the control thread, delivers to inboxes on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pending: deque[tuple[Inbox, Event]] = deque()
        self._wake_asked = False

    def make_sink(self, inbox: Inbox) -> OutputSink:
        """A sink that may be called on any thread, returns at once and never raises."""

        def sink(event: Event) -> None:
            self._pending.append((inbox, event))
            # Read after the append: when the flag still stands, the delivery that clears it comes later and sees
            # this event.
            if not self._wake_asked:
                self._wake_asked = True
                try:
                    self._loop.call_soon_threadsafe(self._deliver)
                except RuntimeError:  # the loop is closed: the process is going down, nobody reads
                    self._pending.clear()

        return sink

    def _deliver(self) -> None:
        self._wake_asked = False
        while self._pending:
            inbox, event = self._pending.popleft()
            inbox.put(event)
