"""Seeded callers: conversations, agents, retries, branches and raw prompts, as exact token requests over time.

Knows how callers behave and what was answered. Knows no engine: `next_asks` says what is submitted in a cycle, and
`note_end` tells a conversation what became of its request.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from ninfer.engine.control import Closing
from ninfer.engine.draws import uniform
from ninfer.frontend.plan import MOST_MARKERS, ThoughtEnd
from ninfer.ports.sampling import SamplingParams

from .chain import expected_tokens

VOCAB_TOKENS = 1000
HEADER = (901, 902, 903)
"""What opens an assistant message; the input point of a chat lies before it."""
_TURN_END = 904
REMEMBERED_ASKS = 8
"""Retries and branches are of one of so many last requests."""


class Kind(Enum):
    """What a caller does with its request."""

    CHAT = "chat"
    """The next turn echoes the reply."""
    AGENT = "agent"
    """The next step has the reply normalised: its history differs behind the assistant header."""
    CLOSURE = "closure"
    """Steps of a turn echo; the next turn drops what was said in between, from the first assistant message on."""
    RAW = "raw"
    """One prompt, sent again exactly, and sometimes with more behind it."""
    LONG = "long"
    """A long input without a point."""
    BRANCH = "branch"
    """Starts inside another caller's prompt, which may be running."""


@dataclass(frozen=True, slots=True)
class CancelPlan:
    """Cancel `after_cycles` cycles after the request was first seen in `phase` (None: after it was submitted)."""

    phase: str | None
    after_cycles: int


@dataclass(frozen=True, slots=True)
class Ask:
    """One request as it is submitted. `cuts`: execution frontiers, with recovery frontier, markers and anchors, but for
    the prompt's end. `markers`: where others may start too. `anchors`: where this history may be kept.
    """

    kind: Kind
    prompt: tuple[int, ...]
    recovery: int
    cuts: tuple[int, ...]
    max_tokens: int
    min_tokens: int = 0
    stop_ids: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    params: SamplingParams = field(default_factory=SamplingParams)
    session: str | None = None
    logprobs: int | None = None
    cancel: CancelPlan | None = None
    markers: tuple[int, ...] = ()
    anchors: tuple[int, ...] = ()
    closing: Closing | None = None
    """What is said for the model when it has not said so itself in time."""
    deaf_after: int | None = None
    """The caller's sink raises at this event, as none should."""
    owner: int = -1
    """The caller that waits for the reply."""


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """How busy a world is. `mean_` values are tokens; `kinds` are event weights."""

    requests: int
    callers: int
    """Conversations at a time; with so many, requests mostly continue one."""
    arrival_cycles: int
    mean_prompt_tokens: int
    mean_output_tokens: int
    max_context: int
    kinds: dict[Kind, float]
    retry_share: float
    branch_share: float
    think_cycles: int
    sampled_share: float
    cancelled_share: float
    burst: float
    deaf_share: float = 0.0
    marked_share: float = 0.0
    """Of the requests: they mark the prefix that they share with others, and more."""
    anchored_share: float = 0.0


@dataclass(slots=True)
class _Caller:
    """One conversation. `closed`: all that will stand in front of every later turn."""

    serial: int
    kind: Kind
    closed: list[int]
    turn_start: int = 0
    ready_at: int = 0
    waits: bool = False
    last: Ask | None = None


class Callers(Protocol):
    """Who asks in a world: seeded callers, or a script."""

    @property
    def is_over(self) -> bool: ...

    def close(self) -> None: ...

    def next_asks(self, cycle: int) -> list[Ask]: ...

    def note_end(self, ask: Ask, accepted: Sequence[int], cycle: int, /) -> None: ...


class Workload:
    """All callers of one world."""

    def __init__(self, spec: WorkloadSpec, chance: random.Random) -> None:
        self._spec = spec
        self._chance = chance
        self._left = spec.requests
        self._next_arrival = 0
        self._is_postponed = False
        self._callers: list[_Caller] = []
        self._asked: list[Ask] = []
        self._closings = random.Random(f"closings {spec}")
        self._closes = self._closings.random() < 0.3
        self._prefixes = [self._filler(self._length(0.6)) for _ in range(chance.randint(1, 3))]

    @property
    def is_over(self) -> bool:
        """Nobody will ask for anything any more."""
        return self._left == 0

    def close(self) -> None:
        """Nobody comes any more."""
        self._left = 0

    def next_asks(self, cycle: int) -> list[Ask]:
        """What arrives in this cycle."""
        asks: list[Ask] = []
        while self._left and self._next_arrival <= cycle:
            ask = self._next_ask(cycle)
            self._is_postponed = ask is None
            if ask is None:
                self._next_arrival = cycle + 1
                break
            asks.append(ask)
            self._left -= 1
            mean_gap = self._spec.arrival_cycles / self._spec.requests
            if self._chance.random() >= self._spec.burst:
                self._next_arrival += 1 + int(self._chance.expovariate(1 / mean_gap))
        return asks

    def note_end(self, ask: Ask, accepted: Sequence[int], cycle: int) -> None:
        """The reply of a caller's request, as far as it came; its next turn follows from it."""
        if ask.owner < 0:
            return
        caller = self._callers[ask.owner]
        caller.waits = False
        think = self._spec.think_cycles * (8 if self._chance.random() < 0.1 else 1)  # some are idle for long
        caller.ready_at = cycle + int(self._chance.expovariate(1 / think))
        if ask.kind is Kind.CHAT or ask.kind is Kind.CLOSURE:
            caller.closed = [*ask.prompt, *accepted]
        elif ask.kind is Kind.AGENT:
            caller.closed = [*ask.prompt, *self._normalise(accepted)]
        elif ask.kind is Kind.RAW and accepted and self._chance.random() < 0.4:
            caller.closed = [*ask.prompt, *accepted[: self._chance.randint(1, len(accepted))]]

    def _next_ask(self, cycle: int) -> Ask | None:
        """A retry, a branch, a caller that comes back, or a new caller. None: everybody waits or thinks."""
        chance, spec = self._chance, self._spec
        is_free = bool(self._asked) and not self._is_postponed
        if is_free and chance.random() < spec.retry_share:
            old = chance.choice(self._asked)
            return self._keep(self._finish(old.kind, list(old.prompt), old.recovery, old.cuts, -1))
        if is_free and chance.random() < spec.branch_share:
            return self._branch()
        active = [caller for caller in self._callers if len(caller.closed) < spec.max_context]
        ready = [caller for caller in active if not caller.waits and caller.ready_at <= cycle]
        if ready and (len(active) >= spec.callers or chance.random() < 0.5):
            ask = self._ask_of(chance.choice(ready))
            if ask is not None:
                return ask
        elif len(active) >= spec.callers:
            return None
        kind = chance.choices(list(spec.kinds), list(spec.kinds.values()))[0]
        caller = _Caller(len(self._callers), kind, self._opening(kind))
        caller.turn_start = len(caller.closed)
        self._callers.append(caller)
        ask = self._ask_of(caller)
        assert ask is not None, "an opening leaves room for a turn"
        return ask

    def _opening(self, kind: Kind) -> list[int]:
        chance = self._chance
        if kind is Kind.LONG and chance.random() < 0.15:  # all that there can be
            return self._filler(self._spec.max_context - chance.choice((1, 2, 30)))
        if kind is Kind.LONG:
            return self._filler(self._length(2.0))
        opening: list[int] = []
        if chance.random() < 0.6:
            opening += chance.choice(self._prefixes)
        if kind is Kind.RAW or not opening or chance.random() < 0.5:
            opening += self._filler(self._length(0.5))
        return opening[: self._spec.max_context // 2]

    def _ask_of(self, caller: _Caller) -> Ask | None:
        """The next turn of a caller; None when its context is used up."""
        spec, chance = self._spec, self._chance
        prompt = list(caller.closed)
        if caller.kind is Kind.RAW:
            recovery = len(prompt)
        elif caller.kind is Kind.LONG:
            prompt += self._filler(min(chance.randint(0, 40), spec.max_context - 1 - len(prompt)))
            recovery = 0
        else:
            closes = caller.kind is Kind.CLOSURE and chance.random() < 0.4
            if closes and caller.last is not None:
                prompt = prompt[: caller.turn_start] + self._filler(chance.randint(1, 30))
            prompt += [*self._filler(1 + self._length(0.2)), _TURN_END]
            if closes or caller.last is None:
                caller.turn_start = len(prompt)
            recovery = caller.turn_start if caller.kind is Kind.CLOSURE else len(prompt)
            prompt += HEADER
        if len(prompt) + 1 > spec.max_context:
            caller.closed = prompt
            return None
        recovery = min(recovery, len(prompt))
        cuts = {recovery} if 0 < recovery < len(prompt) else set()
        if chance.random() < 0.2:
            cuts.add(chance.randint(1, len(prompt)))
        ask = self._finish(caller.kind, prompt, recovery, tuple(sorted(cuts - {len(prompt)})), caller.serial)
        caller.waits, caller.last = True, ask
        return self._keep(ask)

    def _branch(self) -> Ask:
        """A prompt that leaves another one at its point, in its middle, or at its end."""
        chance = self._chance
        parent = chance.choice(self._asked[-6:])
        at = parent.recovery if chance.random() < 0.6 else chance.randint(0, len(parent.prompt))
        prompt = list(parent.prompt[: min(at, self._spec.max_context - 60)])
        prompt += self._filler(chance.randint(1, 40))
        recovery = chance.choice((len(prompt), max(0, len(prompt) - 3), min(at, len(prompt))))
        cuts = (recovery,) if 0 < recovery < len(prompt) else ()
        return self._keep(self._finish(Kind.BRANCH, prompt, recovery, cuts, -1))

    def _finish(self, kind: Kind, prompt: list[int], recovery: int, cuts: tuple[int, ...], owner: int) -> Ask:
        """The parts that do not depend on the history: budget, stops, sampling, cancel."""
        chance, spec = self._chance, self._spec
        room = spec.max_context - len(prompt)
        budget = min(room, 1 + int(chance.expovariate(1 / spec.mean_output_tokens)))
        if chance.random() < 0.06:
            budget = chance.choice((1, 1, room))
        params = SamplingParams(temperature=0.0)
        if chance.random() < spec.sampled_share:
            penalty = chance.choice((0.0, 0.5))
            params = SamplingParams(temperature=1.0, seed=chance.randrange(1 << 40), presence_penalty=penalty)
        strings: tuple[str, ...] = ()
        if chance.random() < 0.3:
            strings = tuple(letter(chance.randrange(VOCAB_TOKENS)) for _ in range(chance.randint(1, 12)))
            if chance.random() < 0.7:  # many beginnings, so that text is held back often
                starts = chance.sample(range(VOCAB_TOKENS), 400)
                strings += tuple(letter(start) + letter(chance.randrange(VOCAB_TOKENS)) for start in starts)
        markers = self._draw_markers(prompt) if chance.random() < spec.marked_share else ()
        anchors = self._draw_places(len(prompt)) if chance.random() < spec.anchored_share else ()
        return Ask(
            kind=kind,
            prompt=tuple(prompt),
            recovery=recovery,
            cuts=tuple(sorted({*cuts, *markers, *anchors} - {len(prompt)})),
            markers=markers,
            anchors=anchors,
            max_tokens=budget,
            min_tokens=chance.randint(1, budget) if chance.random() < 0.1 else 0,
            stop_ids=tuple(range(chance.choice((0, 0, 5, 20)))),
            stop_strings=strings,
            params=params,
            session=f"session {owner}" if owner >= 0 and chance.random() < 0.3 else None,
            logprobs=chance.randint(0, 3) if chance.random() < 0.1 else None,
            cancel=self._draw_cancel(),
            deaf_after=chance.randint(1, 6) if chance.random() < spec.deaf_share else None,
            owner=owner,
            closing=self._draw_closing(prompt, budget, params),
        )

    def _draw_closing(self, prompt: list[int], budget_tokens: int, params: SamplingParams) -> Closing | None:
        """One to four tokens; often the model says the one that counts by itself, in time or later."""
        chance = self._closings
        if not self._closes or chance.random() < 0.4:
            return None
        said = [chance.randrange(VOCAB_TOKENS) for _ in range(chance.randint(1, 4))]
        if chance.random() < 0.4:
            draws = None if params.is_greedy else lambda position: uniform(params.seed, position)
            drawn = chance.randint(1, min(budget_tokens, 20))
            said[-1] = expected_tokens(prompt, drawn, vocab_tokens=VOCAB_TOKENS, uniforms=draws)[-1]
        return Closing(chance.randrange(budget_tokens), ThoughtEnd(tuple(said), said[-1]))

    def _draw_markers(self, prompt: list[int]) -> tuple[int, ...]:
        """The end of the common prefix, as callers would mark it, and sometimes other places."""
        places = [len(prefix) for prefix in self._prefixes if prompt[: len(prefix)] == prefix]
        if not places or self._chance.random() < 0.3:
            places += self._draw_places(len(prompt))
        return tuple(sorted(set(places))[:MOST_MARKERS])

    def _draw_places(self, prompt_tokens: int) -> tuple[int, ...]:
        """One to MOST_MARKERS positions of a prompt."""
        count = self._chance.randint(1, MOST_MARKERS)
        return tuple(sorted({self._chance.randint(1, prompt_tokens) for _ in range(count)}))

    def _draw_cancel(self) -> CancelPlan | None:
        chance = self._chance
        if chance.random() >= self._spec.cancelled_share:
            return None
        phase = chance.choice((None, "queued", "binding", "prefill", "decode", "decode", "paused"))
        return CancelPlan(phase, int(chance.expovariate(1 / 6)) if chance.random() < 0.7 else 0)

    def _keep(self, ask: Ask) -> Ask:
        self._asked = [*self._asked[1 - REMEMBERED_ASKS :], ask]
        return ask

    def _normalise(self, accepted: Sequence[int]) -> list[int]:
        """A reply as a client writes it back: some token near its front is another one."""
        text = list(accepted)
        if text and self._chance.random() < 0.7:
            text[self._chance.randrange(min(4, len(text)))] = 905
        return text

    def _length(self, share: float) -> int:
        mean = self._spec.mean_prompt_tokens * share
        return max(1, min(int(self._chance.expovariate(1 / mean)), int(2 * mean), self._spec.max_context * 3 // 4))

    def _filler(self, count: int) -> list[int]:
        return [self._chance.randrange(VOCAB_TOKENS) for _ in range(count)]


def letter(token_id: int) -> str:
    """The text of a token: one character."""
    return chr(0x4E00 + token_id)


def draw_workload(
    chance: random.Random,
    *,
    lanes: int,
    pool_tokens: int,
    max_context: int,
    cycles: int,
    units: float,
    mean_run: float,
    cancelled_share: float,
) -> WorkloadSpec:
    """A workload that crowds the pool: residents together want about as much as there is, or more.

    `units`: how many the device may be asked for, about half of them prefill. `mean_run`: tokens of a draw.
    """
    requests = min(chance.randint(5, 60), max(5, int(units / 2)))
    crowding = chance.choice((0.5, 1.0, 1.5, 2.0, 3.0)) * chance.uniform(0.8, 1.2)
    share = min(pool_tokens * crowding / lanes, 0.8 * max_context)
    most_output = max(4.0, mean_run * units * min(lanes, requests) / requests)
    mean_output = min(share * chance.uniform(0.2, 0.8), most_output, 400.0)
    most_prompt = max(8.0, 0.5 * units * 512 / requests)
    return WorkloadSpec(
        requests=requests,
        callers=chance.randint(lanes, 3 * lanes),
        arrival_cycles=int(cycles * chance.uniform(0.05, 0.6)),
        mean_prompt_tokens=max(8, int(min(share - mean_output, most_prompt))),
        mean_output_tokens=max(2, int(mean_output)),
        max_context=max_context,
        kinds={kind: chance.choice((0.1, 0.5, 2.0)) for kind in Kind if kind is not Kind.BRANCH},
        retry_share=chance.choice((0.0, 0.1, 0.3)),
        branch_share=chance.choice((0.0, 0.1, 0.3)),
        think_cycles=chance.choice((2, 10, 60)),
        sampled_share=chance.choice((0.0, 0.4, 1.0)),
        cancelled_share=cancelled_share,
        deaf_share=chance.choice((0.0, 0.0, 0.0, 0.1)),
        marked_share=chance.choice((0.0, 0.5, 1.0)),
        anchored_share=chance.choice((0.0, 0.0, 0.3)),
        burst=chance.choice((0.0, 0.3, 0.8)),
    )
