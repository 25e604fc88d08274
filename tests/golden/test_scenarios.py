"""The scenario table of the design as golden traces; `NINFER_WRITE_GOLDEN=1` writes them anew, reviewers read the diff.

Besides the trace, each row states what it promises, so that a trace that was written anew cannot promise less.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from ninfer.base.events import (
    Arrived,
    BoundSource,
    CaptureRefused,
    CaptureReserved,
    Committed,
    Demoted,
    Ended,
    Landed,
    Paused,
    Reclaimed,
    Revoked,
    Snapped,
    Started,
    Submitted,
    TraceEvent,
)
from ninfer.sim.scenario import Played, Scenario, play
from ninfer.sim.scenarios import SCENARIOS

FOLDER = Path(__file__).parent
Kind = TypeVar("Kind", bound=TraceEvent)


def find(played: Played, kind: type[Kind]) -> list[tuple[int, Kind]]:
    return [(cycle, event) for cycle, event in played.events if isinstance(event, kind)]


def started(played: Played) -> list[tuple[int, str]]:
    return [(event.cached_tokens, event.path) for _, event in find(played, Started)]


def check_m1(played: Played) -> None:
    """[M1]"""
    call, more = played.said.asks["call"], played.said.asks["call+"]
    end = len(call.prompt) + len(played.said.replies["call"]) - 1
    assert started(played) == [
        (0, "root"),
        (end, "generation_endpoint"),
        (more.recovery, "recovery_point"),
    ]
    hand_overs = [event.hand_over for _, event in find(played, BoundSource)]
    assert hand_overs == ["root", "fork", "fork"], "with slots to spare the old endpoint stays, the first to go"


def check_m2(played: Played) -> None:
    """[M2], [D11], [H1]"""
    asks, replies = played.said.asks, played.said.replies
    end, at = len(asks["chat"].prompt) + len(replies["chat"]) - 1, asks["chat"].recovery
    later = len(asks["chat+"].prompt) + len(replies["chat+"]) - 1
    assert started(played) == [
        (0, "root"),
        (end, "generation_endpoint"),
        (at, "shared_entry"),
        (later, "generation_endpoint"),
        (at, "shared_entry"),
    ]
    first = find(played, BoundSource)[0][1].sequence
    saved = [event.frontier for _, event in find(played, CaptureReserved) if event.sequence == first]
    assert saved == [at], "one state for both uses"
    assert played.standings[0].ordinary == 2, "the point before the answer and the one behind it"
    assert [standing.reused > 0 for standing in played.standings[:2]] == [False, True]


def check_m3(played: Played) -> None:
    """[M3], [D11], [E3]"""
    assert started(played) == [(0, "root"), (150, "shared_entry"), (250, "shared_entry")]
    sequences = [event.sequence for _, event in find(played, BoundSource)]
    places = [
        {event.frontier for _, event in find(played, CaptureReserved) if event.sequence == sequence}
        for sequence in sequences[:2]
    ]
    assert places == [{150, 250, 270}, {240, 260}], "each position once, and a is there already"


def check_m4(played: Played) -> None:
    """[M4], [H1], [H3]"""
    assert started(played) == [(0, "root"), *[(200, "shared_entry")] * 8]
    assert played.standings[0].reused == 0, "finishing heats nothing"
    most = (9 - 1) * 3 // 4  # the lane's own slot is no room for standing
    assert all(0 < standing.reused <= most for standing in played.standings[1:])
    assert all(standing.ordinary > 0 for standing in played.standings[-4:]), "older branches have fallen back"
    ended = {event.ticket: cycle for cycle, event in find(played, Ended)}
    gone = [point for cycle, event in find(played, Reclaimed) if cycle < max(ended.values()) for point in event.points]
    kept = find(played, Landed)
    captures = [point for _, event in kept for point in (event.captured or "").split()]
    assert gone, "there is pressure"
    assert captures[0] not in gone, "the hot predecessor stays"


def check_m9(played: Played) -> None:
    """[M9], [H2]"""
    numbers = {name: number for number, name in enumerate(played.said.asks)}
    starts = {event.ticket: (event.cached_tokens, event.path) for _, event in find(played, Started)}
    assert [starts[numbers[f"request {n}"]] for n in (1, 2, 3, 4)] == [(0, "root")] * 3 + [(200, "shared_entry")]
    standing = {one.ticket: one for one in played.standings}
    assert standing[numbers["request 1"]].reused == standing[numbers["request 2"]].reused == 0
    assert standing[numbers["request 3"]].reused > 0, "the save of what two had computed has standing at once"
    lost = [event.frontier for _, event in find(played, CaptureRefused)]
    assert lost.count(200) >= 2, "it was not kept the first two times"


def check_m5_snapshot(played: Played) -> None:
    """[M5], [K1], [J9]"""
    check_no_saves_by_chunk(played)
    assert [event.ticket for _, event in find(played, Paused)] == [1], "one pause, and no trial resumes"
    assert len(find(played, Snapped)) == 1
    assert not find(played, Revoked)
    resumed = find(played, BoundSource)[-1][1]
    assert resumed.frontier > 700, "it goes on where it stood"
    assert not any(event.replay for _, event in find(played, Submitted))


def check_m5_replay(played: Played) -> None:
    """[M5], [K1], [K4]"""
    check_no_saves_by_chunk(played)
    assert [event.ticket for _, event in find(played, Paused)] == [1]
    assert not find(played, Snapped)
    assert find(played, BoundSource)[-1][1].frontier == 0
    assert any(event.replay for _, event in find(played, Submitted))


def check_no_saves_by_chunk(played: Played) -> None:
    """E1: the long input has no point of its own, and its chunks are none."""
    long = find(played, BoundSource)[1][1].sequence
    chunks = [event for _, event in find(played, Submitted) if event.prefill == long]
    assert len(chunks) >= 5
    assert not any(event.sequence == long for _, event in find(played, CaptureReserved))


def check_m6(played: Played) -> None:
    """[M6], [I6]"""
    moved = [event for _, event in find(played, Demoted)]
    assert moved
    assert all(event.pool == "main_kv" for event in moved), "no state leaves for a few pages"
    assert started(played)[-1][1] == "generation_endpoint", "the one whose pages left is found again"
    before_the_end = find(played, Ended)[-1][0]
    assert not [event for cycle, event in find(played, Reclaimed) if cycle < before_the_end], "nothing is deleted"


def check_m7(played: Played) -> None:
    """[M7], [C9]"""
    assert find(played, CaptureRefused)
    assert [event.ticket for _, event in find(played, Paused)] == [1]
    assert len(find(played, Ended)) == 3
    assert any(event.replay for _, event in find(played, Submitted))


def check_m8(played: Played) -> None:
    """[M8], [J2], [J5]"""
    paused = find(played, Paused)
    assert [event.ticket for _, event in paused] == [1], "it waits alone and is not tried in vain"
    ended = {event.ticket: cycle for cycle, event in find(played, Ended)}
    shorts = [event.ticket for _, event in find(played, Arrived)][2:]
    assert all(paused[0][0] < ended[ticket] < ended[0] for ticket in shorts), "short ones enter and finish meanwhile"
    resumed = [cycle for cycle, event in find(played, BoundSource)][-1]
    assert resumed == ended[0], "it resumes when the older one ends"


PROMISES: dict[str, Callable[[Played], None]] = {
    "M1": check_m1,
    "M2": check_m2,
    "M3": check_m3,
    "M4": check_m4,
    "M5-snapshot": check_m5_snapshot,
    "M5-replay": check_m5_replay,
    "M6": check_m6,
    "M7": check_m7,
    "M8": check_m8,
    "M9": check_m9,
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_scenario_keeps_its_promise_and_its_trace(scenario: Scenario) -> None:
    """[M1], [M2], [M3], [M4], [M5], [M6], [M7], [M8], [M9]: see the check of each row."""
    played = play(scenario)
    PROMISES[scenario.name](played)
    lines = [f"{cycle} {event}" for cycle, event in played.events if not is_plain_decode(event)]
    text = "\n".join([f"# {scenario.name}: {scenario.promise}", *lines, ""])
    file = FOLDER / f"{scenario.name.lower()}.trace"
    if os.environ.get("NINFER_WRITE_GOLDEN"):
        file.write_text(text)
    assert text.splitlines() == file.read_text().splitlines()


def is_plain_decode(event: TraceEvent) -> bool:
    """Token after token, which says nothing."""
    if isinstance(event, Submitted):
        return event.prefill is None
    return isinstance(event, Committed) or (isinstance(event, Landed) and event.what == "run")
