"""Whole conversations, decided by a seed: which episodes follow each other."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from training import words as W
from training.fact_episodes import FactEpisodes
from training.facts import any_noun, relation
from training.phrases.held_out import Unwritable
from training.source import SYLLABLES_TRAIN, Source
from training.tool_episodes import ToolEpisodes
from training.world import forms_of


class Dialogue(FactEpisodes, ToolEpisodes):
    """One conversation being written. Episodes append turns; `facts` is what the model may be asked later."""


Episode = Callable[[Dialogue], None]
_TALKING: tuple[tuple[float, Episode], ...] = (
    (0.26, Dialogue.tell),
    (0.02, Dialogue.tell_event),
    (0.03, Dialogue.tell_and_ask),
    (0.32, Dialogue.ask),
    (0.04, Dialogue.ask_two),
    (0.05, Dialogue.ask_unknown),
    (0.08, Dialogue.change),
    (0.08, Dialogue.small_talk),
    (0.04, Dialogue.outside),
    (0.04, Dialogue.identity),
    (0.03, Dialogue.about),
    (0.03, Dialogue.copy),
    (0.01, Dialogue.no_tools),
)


LATE = 0.6  # behind this share of a conversation more is asked than told: far facts are the hard ones
_ANOTHER = 10**12  # between a seed and what is drawn in its place


def conversation(seed: int, chars: int, *, held_out: bool = False) -> Dialogue:
    """One conversation of about `chars` characters, decided by the seed alone.

    A draw with a value that no training sentence may hold is thrown away whole, and another one takes its place.
    """
    for again in itertools.count(0, _ANOTHER):
        try:
            return _written(Source(seed + again, held_out=held_out), chars)
        except Unwritable:
            continue
    raise AssertionError


def _written(s: Source, chars: int) -> Dialogue:
    s.lower = s.chance(0.15)
    s.careless = s.chance(0.2)
    if s.chance(0.5):
        s.theme = tuple(s.word(W.COMMON, 0.6) for _ in range(2 + s.below(3)))
    if s.chance(0.5):
        s.syllables = tuple(s.pick(SYLLABLES_TRAIN) for _ in range(8 + s.below(50)))
    if s.chance(0.5):
        s.nouns = tuple(any_noun(s) for _ in range(4 + s.below(16)))
    if s.chance(0.5):
        s.relations = tuple(relation(s) for _ in range(2 + s.below(7)))
    thinking = 1.0 if s.chance(0.15) else 0.3 if s.chance(0.1) else 0.0
    most = 1 if chars < 1200 else 3 if chars < 3000 else 4
    talk = Dialogue(s, most_tools=most if s.chance(0.4) else 0, thinking=thinking)
    if not talk.order and s.chance(0.7):
        s.pick((Dialogue.tell, Dialogue.tell, Dialogue.small_talk, Dialogue.identity))(talk)
    while talk.chars < chars:
        if not s.held_out and talk.chars > LATE * chars and s.chance(0.4):
            Dialogue.ask(talk)
            continue
        if talk.tools and s.chance(0.4):
            (Dialogue.unrelated if s.chance(0.12) else Dialogue.use_tool)(talk)
            continue
        r, episode = s.random(), Dialogue.ask
        for share, candidate in _TALKING:
            r -= share
            if r < 0:
                episode = candidate
                break
        if episode is Dialogue.no_tools and talk.tools:
            continue
        episode(talk)
    return talk


def plain_text(seed: int, chars: int) -> str:
    """Sentences without any chat marks, for raw continuation."""
    s = Source(seed)
    talk = Dialogue(s, most_tools=0, thinking=0.0)
    names = [forms_of(s.name()) for _ in range(3)]
    out: list[str] = []
    while sum(map(len, out)) < chars:
        forms = s.pick(names)
        out.append(talk.new_fact((forms["I"], forms, forms)).sentence())
    return " ".join(out)
