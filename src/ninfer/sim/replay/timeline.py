"""The order of arrivals, starts and finishes that every policy sees: nominal service times, at most so many running.

A turn arrives at its parent's finish and its think time (closed loop), or as recorded; first come, first served.
Service takes 0.25 s + 10 us a prompt token + 10 ms a reply token, whatever was reused.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from .trace import TraceRequest

START_S = 0.25
PROMPT_TOKEN_S = 1e-5
REPLY_TOKEN_S = 1e-2


class What(Enum):
    """What happens to a request. At one instant arrivals come first."""

    ARRIVAL = "arrival"
    START = "start"
    FINISH = "finish"


@dataclass(frozen=True, slots=True)
class Moment:
    """One event of the nominal order. `index`: of the request in its trace."""

    at_s: float
    what: What
    index: int


def nominal_order(requests: Sequence[TraceRequest], lanes: int) -> list[Moment]:
    """Everything that happens, in order."""
    children: dict[int, list[int]] = {}
    ready: list[tuple[float, int]] = []
    for request in requests:
        if request.parent is None:
            heapq.heappush(ready, (request.arrival_s, request.index))
        else:
            children.setdefault(request.parent, []).append(request.index)
    running: list[tuple[float, int]] = []
    arrivals = [Moment(at_s, What.ARRIVAL, index) for at_s, index in ready]
    moments: list[Moment] = []
    now_s = 0.0
    while ready or running:
        starts = ready and len(running) < lanes and (not running or max(now_s, ready[0][0]) <= running[0][0])
        at_s, index = heapq.heappop(ready if starts else running)
        now_s = max(now_s, at_s)
        if starts:
            moments.append(Moment(now_s, What.START, index))
            heapq.heappush(running, (now_s + _service_s(requests[index]), index))
            continue
        moments.append(Moment(now_s, What.FINISH, index))
        for child in children.get(index, ()):
            arrival_s = now_s + requests[child].think_s
            arrivals.append(Moment(arrival_s, What.ARRIVAL, child))
            heapq.heappush(ready, (arrival_s, child))
    arrivals.sort(key=lambda moment: (moment.at_s, moment.index))
    return list(heapq.merge(arrivals, moments, key=lambda moment: moment.at_s))


def _service_s(request: TraceRequest) -> float:
    return START_S + PROMPT_TOKEN_S * request.prompt_tokens + REPLY_TOKEN_S * request.reply_tokens
