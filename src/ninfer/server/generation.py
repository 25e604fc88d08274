"""One request at the engine, seen from the event loop: its inbox, its answer events, its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from ninfer.ports.output import Event, Failed, Finished, GenerationStart
from ninfer.server.answer import AnswerAssembler, AnswerEvent, Broken, Ended
from ninfer.server.bridge import Inbox
from ninfer.server.journal import RequestRecord

_SETTLE_S = 2.0


class Submission(Protocol):
    """What the engine gives back for a submitted request."""

    def cancel(self) -> None:
        """End it as soon as possible. May be called on any thread, any number of times."""
        ...


class Generation:
    """Lives from submission to the last event. Whoever stops listening earlier must call `abandon`."""

    def __init__(
        self,
        inbox: Inbox,
        assembler: AnswerAssembler,
        record: RequestRecord,
        *,
        on_end: Callable[[Generation], None],
    ) -> None:
        self._inbox = inbox
        self._assembler = assembler
        self._record = record
        self._on_end = on_end
        self._submission: Submission | None = None
        self.abandoned = False
        """Nobody listens any more."""
        self.ended = False
        """The last event was taken."""

    @property
    def request_id(self) -> str:
        """What the client and the log call it."""
        return self._record.id

    def attach(self, submission: Submission) -> None:
        """The engine has taken the request."""
        self._submission = submission

    def abandon(self, reason: str) -> None:
        """The client is gone or does not read: stop the work (LIFE-01, LIFE-02, LIFE-03, LIFE-06)."""
        if self.abandoned or self.ended:
            return
        self.abandoned = True
        self._record.finish, self._record.error = "cancelled", reason
        self.stop()
        self._inbox.drop_output()
        self._inbox.wake()
        self._on_end(self)

    def stop(self) -> None:
        """Ask the engine to end it; the listener gets its last event."""
        if self._submission is not None:
            self._submission.cancel()

    def limit_unread(self, limit_bytes: int, on_overflow: Callable[[], None]) -> None:
        """Call `on_overflow` whenever the engine is that far ahead of the listener."""
        self._inbox.limit(limit_bytes, on_overflow)

    async def next_events(self, timeout_s: float | None) -> list[AnswerEvent]:
        """What was decided since the last call; waits for the first event. Empty: the time is over, or abandoned."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._inbox.wait()
        except TimeoutError:
            return []
        events: list[AnswerEvent] = []
        for event in self._inbox.take():
            self._note(event)
            events.extend(self._assembler.push(event))
        for answer in events:
            self._note_finish(answer)
        return events

    async def settle(self) -> None:
        """After `abandon`: wait a moment for the engine's last word, so that the record says what was computed."""
        try:
            async with asyncio.timeout(_SETTLE_S):
                while self.abandoned and not self.ended:
                    await self._inbox.wait()
                    for event in self._inbox.take():
                        self._note(event)
        except TimeoutError:
            return

    def _note(self, event: Event) -> None:
        match event:
            case GenerationStart():
                self._record.note_start(event)
            case Finished():
                self._record.note_end(event.usage, event.timings)
                self._end()
            case Failed():
                self._record.note_end(event.usage, event.timings)
                self._end()
            case _:
                return

    def _end(self) -> None:
        self.ended = True
        self._on_end(self)

    def _note_finish(self, answer: AnswerEvent) -> None:
        match answer:
            case Ended():
                self._record.finish = answer.finish.value
            case Broken() if not self.abandoned:
                self._record.finish, self._record.error = "error", answer.error.code
            case _:
                return
