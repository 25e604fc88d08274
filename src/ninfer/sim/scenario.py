"""A world with a script instead of dice: who asks what, and when; told event by event (requirements M).

Every check of a seeded world holds here too: tokens in closed form, audits after each cycle, turns and order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ninfer.base.events import Ended, TraceEvent
from ninfer.base.pools import PAGE_TOKENS, Pool

from .device import SIM_PAGE_BYTES, SIM_STATE_BYTES
from .faults import FaultPlan
from .spec import WorldSpec
from .workload import HEADER, Ask, Kind, WorkloadSpec
from .world import World

_TURN_END = 904
_LONGEST_CYCLES = 4000


@dataclass(slots=True)
class Said:
    """What has been asked and answered so far, for scripts that build on it: by the name of a step."""

    asks: dict[str, Ask] = field(default_factory=dict)
    replies: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def history_of(self, name: str) -> tuple[int, ...]:
        """The prompt of a step with its reply, as the client that echoes it sends it back."""
        return (*self.asks[name].prompt, *self.replies[name], _TURN_END)


@dataclass(frozen=True, slots=True)
class Step:
    """One request, or how it follows from what was said. It comes when all of `after` have ended, from `cycle` on."""

    name: str
    ask: Ask | Callable[[Said], Ask]
    after: tuple[str, ...] = ()
    cycle: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the design's scenario table. `promise`: what it says must happen."""

    name: str
    promise: str
    steps: tuple[Step, ...]
    lanes: int = 2
    slots: int = 4
    pages: int = 64
    max_context: int = 1024
    chunk_tokens: int = 128
    host_states: int = 0
    host_pages: int = 0

    def spec(self) -> WorldSpec:
        """The world it is played in: no faults, nobody gives up."""
        return WorldSpec(
            seed=0,
            cycles=_LONGEST_CYCLES,
            lanes=self.lanes,
            slots=self.slots,
            pages={Pool.MAIN_KV: self.pages},
            max_context=self.max_context,
            chunk_tokens=self.chunk_tokens,
            longest_run=1,
            host_bytes=self.host_states * SIM_STATE_BYTES + self.host_pages * SIM_PAGE_BYTES,
            max_queue=64,
            keeps_points=True,
            check_every=1,
            audit_every=1,
            workload=WorkloadSpec(0, 0, 0, PAGE_TOKENS, 1, self.max_context, {}, 0, 0, 0, 0, 0, 0),
            faults=FaultPlan(),
        )


class Script:
    """The callers of a scenario; takes the place of a seeded workload."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.said = Said()
        self._waiting = list(steps)

    @property
    def is_over(self) -> bool:
        """Nobody will ask for anything any more."""
        return not self._waiting

    def close(self) -> None:
        """No further step."""
        self._waiting.clear()

    def next_asks(self, cycle: int) -> list[Ask]:
        """Steps whose time has come, in the order of the script."""
        due = [step for step in self._waiting if step.cycle <= cycle and set(step.after) <= set(self.said.replies)]
        for step in due:
            self._waiting.remove(step)
            self.said.asks[step.name] = step.ask if isinstance(step.ask, Ask) else step.ask(self.said)
        return [self.said.asks[step.name] for step in due]

    def note_end(self, ask: Ask, accepted: Sequence[int], _cycle: int, /) -> None:
        """The reply to a step."""
        name = next(name for name, asked in self.said.asks.items() if asked is ask)
        self.said.replies[name] = tuple(accepted)


@dataclass(frozen=True, slots=True)
class Standing:
    """Restore points kept when a request had ended, by the class of their owners (H3)."""

    ticket: int
    reused: int
    ordinary: int


@dataclass(slots=True)
class Played:
    """What happened: events with their cycles, what was said, and what was kept after each request."""

    events: list[tuple[int, TraceEvent]]
    said: Said
    world: World
    standings: list[Standing]


def play(scenario: Scenario) -> Played:
    """From the first step to the last answer. Raises WorldFailure."""
    events: list[tuple[int, TraceEvent]] = []
    standings: list[Standing] = []
    script = Script(scenario.steps)

    def listen(cycle: int, event: TraceEvent) -> None:
        events.append((cycle, event))
        if isinstance(event, Ended):
            standings.append(Standing(event.ticket, *world.count_points()))

    world = World(scenario.spec(), listen, workload=script)
    world.run()
    return Played(events, script.said, world, standings)


def filler(count: int, seed: int) -> tuple[int, ...]:
    """Tokens of some text; another text for another seed."""
    return tuple((seed * 7919 + index * 31 + (index * index) % 97) % 900 for index in range(count))


def chat(body: Sequence[int], max_tokens: int, *markers: int) -> Ask:
    """A turn of a chat or an agent: the input point lies before the assistant header. `markers`: shared, ascending."""
    cuts = tuple(sorted({len(body), *markers}))
    return Ask(Kind.CHAT, (*body, *HEADER), len(body), cuts, max_tokens, markers=markers)


def raw(count: int, seed: int, max_tokens: int) -> Ask:
    """Raw input: its point is its end."""
    return Ask(Kind.RAW, filler(count, seed), count, (), max_tokens)


def long_input(count: int, seed: int, max_tokens: int) -> Ask:
    """A long input without a point of its own."""
    return Ask(Kind.LONG, filler(count, seed), 0, (), max_tokens)
