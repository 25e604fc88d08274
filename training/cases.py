"""The evaluation's cases: seeded, pure, made from held-out names, values, nouns, tools and phrasings only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from training.dialogues import Dialogue
from training.facts import kin_fact, noun_fact, verb_fact
from training.phrases import facts as F
from training.phrases import smalltalk as T
from training.render import Message, render
from training.source import Source
from training.tools import make_tool
from training.world import ANSWER_SELF, USER_SELF, Fact

CountTokens = Callable[[str], int]
DISTANCES = (256, 1024, 2048, 4096)
_SEED = 700_000_000
_SELF = ("", USER_SELF, ANSWER_SELF)


@dataclass(frozen=True, slots=True)
class Case:
    """A conversation up to a question, and what must come next."""

    row: str
    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...]
    answer: Message
    value: str = ""
    kind: str = ""  # of the fact, in recall rows

    def dicts(self) -> list[dict[str, Any]]:
        """The messages as chat interfaces take them."""
        return [m.as_dict() for m in self.messages]

    def exact(self, content: str, calls: list[tuple[str, dict[str, Any]]]) -> bool:
        """Same text, same calls with the same JSON arguments."""
        return content.strip() == self.answer.content and calls == self.answer.calls

    def passes(self, content: str, calls: list[tuple[str, dict[str, Any]]]) -> bool:
        """Recall rows ask for the value as a whole word in the answer, the others for the exact answer."""
        if not self.value:
            return self.exact(content, calls)
        return re.search(rf"(?<!\w){re.escape(self.value)}(?!\w)", content) is not None


def _target(s: Source, known: dict[tuple[str, ...], Fact]) -> Fact:
    while True:
        fact = s.pick((noun_fact, noun_fact, kin_fact, verb_fact))(s, _SELF)
        if fact.key not in known:
            return fact


def _neutral(talk: Dialogue) -> None:
    talk.messages.append(Message("assistant", talk.s.pick(F.NEUTRAL_ACK)))


def recall_case(index: int, distance: int, count: CountTokens) -> Case:
    """One fact, `distance` tokens of other talk, then the question."""
    s = Source(_SEED + distance * 100_000 + index, held_out=True)
    talk = Dialogue(s, most_tools=0, thinking=0.0)
    fact = _target(s, talk.facts)
    talk.user(fact.say(s.pick(fact.tell)))
    talk.facts[fact.key] = fact  # taken, so that no later fact uses its key; never asked by the filler
    _neutral(talk)
    behind, done = 0, len(talk.messages)
    while behind < distance:
        r = s.random()
        (Dialogue.tell if r < 0.5 or not talk.order else Dialogue.ask if r < 0.75 else Dialogue.small_talk)(talk)
        behind += count(render(talk.messages[done:]))
        done = len(talk.messages)
    talk.user(fact.say(s.pick(fact.ask)))
    wanted = Message("assistant", talk.answer_to(fact))
    kind = "relative" if "k" in fact.extra else "noun" if "np" in fact.extra else "verb"
    return Case(f"recall at {distance}", tuple(talk.messages), (), wanted, fact.value, kind)


def _tool_talk(s: Source) -> Dialogue:
    talk = Dialogue(s, most_tools=4, thinking=0.0)
    while not talk.tools:
        talk.tools = [make_tool(s)]
    for _ in range(s.below(3)):
        s.pick((Dialogue.tell, Dialogue.small_talk))(talk)
    return talk


def call_case(index: int) -> Case:
    """A request in words; the call, or two, must match exactly."""
    s = Source(_SEED + 900_000 + index, held_out=True)
    talk = _tool_talk(s)
    calls = talk.request_calls(s.pick(talk.tools))
    wanted = Message("assistant", "", "", [(c.name, c.arguments) for c in calls])
    return Case("tool call", tuple(talk.messages), tuple(t.schema for t in talk.tools), wanted)


def result_case(index: int) -> Case:
    """A call and its result; the answer must report the result."""
    s = Source(_SEED + 910_000 + index, held_out=True)
    talk = _tool_talk(s)
    calls = talk.request_calls(s.pick(talk.tools))
    talk.messages.append(Message("assistant", "", "", [(c.name, c.arguments) for c in calls]))
    said = " ".join(talk.add_result() for _ in calls)
    return Case(
        "answer from result", tuple(talk.messages), tuple(t.schema for t in talk.tools), Message("assistant", said)
    )


def unknown_case(index: int) -> Case:
    """A question about something that was never told."""
    s = Source(_SEED + 920_000 + index, held_out=True)
    talk = Dialogue(s, most_tools=0, thinking=0.0)
    for _ in range(2 + s.below(6)):
        talk.tell()
    fact = _target(s, talk.facts)
    talk.user(fact.say(s.pick(fact.ask)))
    return Case("says it was not told", tuple(talk.messages), (), Message("assistant", talk.answer_unknown(fact)))


def persona_case(index: int) -> Case:
    """The name a system prompt gave."""
    s = Source(_SEED + 930_000 + index, held_out=True)
    talk = Dialogue(s, most_tools=0, thinking=0.0)
    name = s.name()
    system = s.pick(tuple(T.PERSONA_HELD_OUT.split("|"))).format(name=name)
    talk.messages, talk.facts, talk.order = [Message("system", system)], {}, []
    for _ in range(s.below(4)):
        s.pick((Dialogue.tell, Dialogue.small_talk))(talk)
    talk.user(s.pick(tuple(T.NAME_ASK_HELD_OUT.split("|"))))
    return Case("persona name", tuple(talk.messages), (), Message("assistant", f"My name is {name}."), name)


def change_case(index: int) -> Case:
    """A fact told, later corrected, then asked: the newest word must win."""
    s = Source(_SEED + 940_000 + index, held_out=True)
    talk = Dialogue(s, most_tools=0, thinking=0.0)
    fact = noun_fact(s, _SELF)
    while fact.key in talk.facts:
        fact = noun_fact(s, _SELF)
    newer = noun_fact(s, _SELF)
    while newer.key != fact.key or newer.value == fact.value:
        newer = noun_fact(s, _SELF)
    talk.facts[fact.key] = newer
    talk.user(fact.say(s.pick(fact.tell)))
    _neutral(talk)
    for _ in range(1 + s.below(3)):
        talk.tell()
    talk.user(newer.say(s.pick(newer.change), old=fact.value))
    _neutral(talk)
    for _ in range(1 + s.below(3)):
        talk.tell()
    talk.user(newer.say(s.pick(newer.ask)))
    return Case("corrected fact", tuple(talk.messages), (), Message("assistant", talk.answer_to(newer)), newer.value)


TRIAL = 5000  # first case of those that are looked at while training is worked on; the report has others


def all_cases(count: CountTokens, each: int = 200, first: int = 0) -> Iterator[Case]:
    """Every row, `each` cases a row from number `first` on."""
    for distance in DISTANCES:
        for i in range(first, first + each):
            yield recall_case(i, distance, count)
    for make in (call_case, result_case, unknown_case, persona_case, change_case):
        for i in range(first, first + each):
            yield make(i)
