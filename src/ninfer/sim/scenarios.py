"""The scenario table of the design (requirements M), each row as a script small enough to read its whole trace."""

from __future__ import annotations

from .scenario import Said, Scenario, Step, chat, filler, long_input
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

SCENARIOS = (M1, M5_SNAPSHOT, M5_REPLAY, M6, M7, M8)
