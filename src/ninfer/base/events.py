"""Trace events: what happened in a run, as small frozen values with a one-line text form.

Only stable facts: ids and amounts, no times and no addresses. They are built when somebody listens and never otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import dataclass_transform

_WORD_BREAK = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass_transform(frozen_default=True)
class TraceEvent:
    """One fact of a run. Each kind names its fields and nothing else: it is a frozen dataclass by being a subclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def __str__(self) -> str:
        """`name field=value ...`, fields in order of declaration; what is None or empty is left out."""
        words = [_WORD_BREAK.sub("-", type(self).__name__).lower()]
        for field in fields(self):  # type: ignore[arg-type]  # see __init_subclass__
            value = getattr(self, field.name)
            if value is None or value == ():
                continue
            words.append(f"{field.name}={','.join(map(str, value)) if isinstance(value, tuple) else value}")
        return " ".join(words)


TraceSink = Callable[[TraceEvent], None]


class Arrived(TraceEvent):
    """A request was submitted. `kind`: what the workload meant by it."""

    ticket: int
    kind: str
    prompt_tokens: int
    recovery_frontier: int
    max_tokens: int


class Refused(TraceEvent):
    """A request was not taken."""

    kind: str
    error: str


class Cancelled(TraceEvent):
    """Somebody asked for the end of a request."""

    ticket: int
    phase: str


class Started(TraceEvent):
    """A request has its lane and its source for the first time."""

    ticket: int
    cached_tokens: int
    path: str


class Paused(TraceEvent):
    """A resident lost its lane. `times`: how often by now."""

    ticket: int
    times: int


class Ended(TraceEvent):
    """The last event of a request."""

    ticket: int
    how: str
    output_tokens: int


class BoundSource(TraceEvent):
    """A sequence took its source. `consumed`: points that ended by the hand-over."""

    sequence: str
    lane: int
    hand_over: str
    point: str | None
    frontier: int
    takes_over: bool
    carried: tuple[str, ...]
    consumed: tuple[str, ...]


class BindLacked(TraceEvent):
    """A bind found too little room and changed nothing."""

    lane: int
    point: str | None
    pool: str
    need: int
    free: int


class UnitLacked(TraceEvent):
    """A sequence found no room for its next unit."""

    sequence: str
    pool: str
    need: int
    free: int


class CaptureReserved(TraceEvent):
    """A capture has its destination. `retires`: the outdated point that ended for it."""

    sequence: str
    frontier: int
    retires: str | None


class CaptureRefused(TraceEvent):
    """A capture found no room. `planted`: the refusal is a fault, the room was there."""

    sequence: str
    frontier: int
    planted: bool


class Submitted(TraceEvent):
    """Units went to the device: the compact set of `draws`, and a chunk of `prefill`.

    Behind a sequence: `*` draws without feeding, `!7` says token 7, `~` feeds all but the last committed token.
    """

    draws: tuple[str, ...]
    prefill: str | None
    tokens: int
    replay: bool


class Landed(TraceEvent):
    """Something of a sequence is complete. `tokens`: the frontier of a chunk, or the length of a drawn run."""

    what: str
    sequence: str
    tokens: int | None = None
    captured: str | None = None


class Committed(TraceEvent):
    """The accepted prefix of a run joined the ledger."""

    sequence: str
    accepted: int


class Froze(TraceEvent):
    """A sequence ended and left its state as a point."""

    sequence: str
    point: str


class Released(TraceEvent):
    """A sequence ended without a point."""

    sequence: str
    was_in_flight: bool


class Reclaimed(TraceEvent):
    """Points ended to make room."""

    points: tuple[str, ...]
    freed: tuple[str, ...]


class Demoted(TraceEvent):
    """Content leaves the device for the host. `pages`: of its group; None: a StateImage. `keeps_device`: it stays."""

    points: tuple[str, ...]
    pool: str
    pages: int | None
    keeps_device: bool


class Snapped(TraceEvent):
    """A sequence became the snapshot that its paused request goes on from."""

    sequence: str
    snapshot: str


class Revoked(TraceEvent):
    """A snapshot ended before its request resumed, or with it."""

    snapshot: str


class TransactionEnded(TraceEvent):
    """A capture on the host, a demotion or a pause has its copies, or a transaction failed."""

    kind: str
    failed: bool
    subject: str | None


class DeviceFailed(TraceEvent):
    """The device reported an error: the engine ends."""

    message: str
