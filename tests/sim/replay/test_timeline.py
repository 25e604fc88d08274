"""The nominal order against a plain second reading of its rules."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer.sim.replay.timeline import Moment, What, nominal_order
from ninfer.sim.replay.trace import Role, Segment, TraceRequest, read_trace

DATA = Path(__file__).resolve().parents[2] / "data" / "replay"


def request(index: int, parent: int | None, arrival_s: float, think_s: float, tokens: int) -> TraceRequest:
    prompt, reply = (Segment(Role.CTX, 1, 0, tokens),), (Segment(Role.ASSISTANT, 2, 0, 10 + tokens % 50),)
    return TraceRequest(index, index, f"s{index}", 0, parent, arrival_s, think_s, "", prompt, reply)


@st.composite
def traces(draw: st.DrawFn) -> list[TraceRequest]:
    requests: list[TraceRequest] = []
    for index in range(draw(st.integers(1, 12))):
        parent = draw(st.none() | st.integers(0, index - 1)) if index else None
        times = draw(st.tuples(st.integers(0, 5), st.integers(0, 3)))
        requests.append(request(index, parent, float(times[0]), float(times[1]), draw(st.integers(1, 60_000))))
    return requests


def check(requests: list[TraceRequest], lanes: int) -> list[Moment]:
    moments = nominal_order(requests, lanes)
    at = {(moment.what, moment.index): (place, moment.at_s) for place, moment in enumerate(moments)}
    assert len(at) == len(moments) == 3 * len(requests)
    assert [moment.at_s for moment in moments] == sorted(moment.at_s for moment in moments)
    running, waiting = 0, Counter[int]()
    for moment in moments:
        running += {What.START: 1, What.FINISH: -1, What.ARRIVAL: 0}[moment.what]
        assert 0 <= running <= lanes
        waiting[moment.index] += {What.ARRIVAL: 1, What.START: -1, What.FINISH: 0}[moment.what]
    for one in requests:
        arrived, started, finished = (at[what, one.index] for what in (What.ARRIVAL, What.START, What.FINISH))
        assert arrived[0] < started[0] < finished[0]
        if one.parent is None:
            assert arrived[1] == one.arrival_s
        else:
            assert arrived[1] == at[What.FINISH, one.parent][1] + one.think_s
    starts = [moment.index for moment in moments if moment.what is What.START]
    assert starts == sorted(starts, key=lambda index: (at[What.ARRIVAL, index][1], index))
    return moments


@settings(derandomize=True, max_examples=60, deadline=None)
@given(traces(), st.integers(1, 3))
def test_first_come_first_served_over_the_lanes(requests: list[TraceRequest], lanes: int) -> None:
    check(requests, lanes)


def test_a_real_trace_keeps_the_rules() -> None:
    check(list(read_trace(DATA / "agents.jsonl").requests), 8)
