"""Seeded names, words and numbers. What the model must repeat cannot be guessed, only read."""

from __future__ import annotations

import random
from dataclasses import dataclass

_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "dr", "kr", "tr", "st")
_VOWELS = ("a", "e", "i", "o", "u")
_CODAS = ("", "", "n", "l", "r", "s", "m", "k")


@dataclass(frozen=True, slots=True)
class Words:
    """Everything one run of the demo draws from its seed."""

    user: str
    pet: str
    town: str
    friend: str
    code: int
    other_user: str
    other_food: str
    locker: int


def invent(random_source: random.Random, syllables: int = 2) -> str:
    """A capitalised word of open syllables, such as `Tarvik`."""
    word = "".join(random_source.choice(_ONSETS) + random_source.choice(_VOWELS) for _ in range(syllables))
    return (word + random_source.choice(_CODAS)).capitalize()


def draw_words(seed: int) -> Words:
    """The words of one run; no two names of a run are equal."""
    source = random.Random(seed)
    names: list[str] = []
    while len(names) < 5:
        name = invent(source)
        if name not in names:
            names.append(name)
    user, pet, town, friend, other_user = names
    return Words(
        user=user,
        pet=pet,
        town=town,
        friend=friend,
        code=source.randint(1000, 9999),
        other_user=other_user,
        other_food=source.choice(("soup", "rice", "bread", "pasta", "cake", "salad")),
        locker=source.randint(10, 99),
    )
