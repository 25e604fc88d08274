"""The scenario table of the design (requirements M), each row as a script small enough to read its whole trace."""

from __future__ import annotations

from .scenario import Said, Scenario, Step, chat, filler, long_input, raw
from .workload import HEADER, Ask


def _again(name: str, more: tuple[int, ...], max_tokens: int) -> Step:
    """The next turn of a conversation: everything echoed, `more` behind it."""
    return Step(f"{name}+", lambda said: chat((*said.history_of(name), *more), max_tokens), after=(name,))


def _rewritten_last(said: Said) -> Ask:
    """The reply to `call+` comes back with other tokens; all before its header is as it was."""
    before = said.asks["call+"]
    return chat((*before.prompt[: before.recovery], *HEADER, *filler(9, 7), 904, *filler(20, 3)), 6)


M1 = Scenario(
    "M1",
    "an agent goes on from E; when the client has rewritten the last reply, from the recovery point before it",
    (
        Step("call", chat(filler(200, 1), 12)),
        _again("call", filler(30, 2), 8),
        Step("rewritten", _rewritten_last, after=("call+",)),
    ),
)

_QUESTION = filler(200, 1)

M2 = Scenario(
    "M2",
    "recovery point and marker at one place: one state, two uses; the private one moves on, the public one lives on",
    (
        Step("chat", chat(_QUESTION, 10, 200)),
        _again("chat", filler(30, 2), 8),
        Step("stranger", chat((*_QUESTION, *filler(40, 3)), 6), after=("chat+",)),
        Step("chat++", lambda said: chat((*said.history_of("chat+"), *filler(20, 4)), 6), after=("stranger",)),
        Step("another", chat((*_QUESTION, *filler(40, 5)), 6), after=("chat++",)),
    ),
    lanes=1,
    slots=12,
)

_A, _B, _C = filler(150, 1), filler(100, 2), filler(90, 3)

M3 = Scenario(
    "M3",
    "prefixes a and a+b both marked, later a+c: both positions had their chance, and a is a complete source",
    (
        Step("a+b", chat((*_A, *_B, *filler(20, 9)), 6, 150, 250)),
        Step("a+c", chat((*_A, *_C, *filler(20, 8)), 6, 150, 240), after=("a+b",)),
        Step("a+b+c", chat((*_A, *_B, *_C), 6), after=("a+c",)),
    ),
    lanes=1,
    slots=12,
)

_HOT = filler(200, 1)

M4 = Scenario(
    "M4",
    "a hot predecessor has many one-off branches: each carries its adoption, finishing heats nothing, older ones fall",
    (
        Step("first", chat((*_HOT, *filler(30, 2)), 6, 200)),
        *(
            Step(
                f"branch {n}", chat((*_HOT, *filler(40, 10 + n)), 6, 200), after=(f"branch {n - 1}" if n else "first",)
            )
            for n in range(8)
        ),
    ),
    lanes=1,
    slots=9,
)

M5_SNAPSHOT = Scenario(
    "M5-snapshot",
    "a long input gives way chunk by chunk and saves nothing; under pressure it is paused by Snapshot and goes on",
    (
        Step("chat", chat(filler(150, 1), 420)),
        Step("long", long_input(700, 2, 200), cycle=2),
    ),
    pages=17,
    host_states=4,
    host_pages=32,
)

M5_REPLAY = Scenario(
    "M5-replay",
    "the same without a host: it is paused destructively and rebuilt by Replay, and publishes nothing twice",
    M5_SNAPSHOT.steps,
    pages=17,
)

M6 = Scenario(
    "M6",
    "only a few pages are short: page groups of optional content leave for the host, states and the rest stay",
    (
        Step("one", chat(filler(400, 1), 10)),
        Step("two", chat(filler(300, 2), 10), after=("one",)),
        Step("new", chat(filler(250, 3), 10), after=("two",)),
        Step("one+", lambda said: chat((*said.history_of("one"), *filler(20, 4)), 10), after=("new",)),
    ),
    pages=16,
    slots=8,
    host_states=8,
    host_pages=64,
)

M7 = Scenario(
    "M7",
    "no host and no state to spare: saves fail, work goes on, a paused request is rebuilt under the full permit",
    (
        Step("one", chat(filler(250, 1), 300)),
        Step("two", chat(filler(250, 2), 300)),
        Step("after", chat(filler(60, 3), 10), after=("one", "two")),
    ),
    slots=2,
    pages=16,
)

M8 = Scenario(
    "M8",
    "a long request paused behind an older resident waits alone: short ones enter, and it resumes when that one ends",
    (
        Step("older", chat(filler(300, 1), 500)),
        Step("long", long_input(500, 2, 400), cycle=1),
        *(Step(f"short-{n}", chat(filler(40, 3 + n), 6), cycle=200 + 60 * n) for n in range(4)),
    ),
    pages=18,
    slots=8,
)

M9 = Scenario(
    "M9",
    "requests compute one candidate that was never kept: that proves demand, a later save is reused, no hit before",
    (
        Step("holder 1", raw(300, 8, 60)),
        Step("holder 2", raw(300, 9, 60)),
        Step("request 1", chat((*_HOT, *filler(20, 2)), 4, 200), cycle=10),
        Step("request 2", chat((*_HOT, *filler(20, 3)), 4, 200), after=("request 1",)),
        Step("request 3", chat((*_HOT, *filler(20, 4)), 4, 200), after=("holder 1", "holder 2")),
        Step("request 4", chat((*_HOT, *filler(20, 5)), 4, 200), after=("request 3",)),
    ),
    lanes=3,
    slots=5,
)

SCENARIOS = (M1, M2, M3, M4, M5_SNAPSHOT, M5_REPLAY, M6, M7, M8, M9)
