"""Seeded values for both worlds: training draws from syllable set A, evaluation (`held_out`) from the disjoint set B.

The two sets share nothing that has to be remembered: invented names are built from disjoint syllables, numbers fall
into disjoint residue classes, ordinary words belong to training alone.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Sequence
from typing import TypeVar

from training import words as W

T = TypeVar("T")
_ONSETS = [
    "b",
    "d",
    "f",
    "g",
    "h",
    "j",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "v",
    "w",
    "y",
    "z",
    "br",
    "dr",
    "tr",
    "st",
    "kr",
    "pl",
    "gr",
    "fl",
    "sh",
    "ch",
    "th",
    "qu",
    "sk",
    "cl",
    "gl",
    "pr",
    "sn",
]
_VOWELS = ["a", "e", "i", "o", "u", "ai", "ou", "ee"]
_CODAS = ("", "", "", "n", "r", "l", "s", "x", "m", "th", "lt", "nd")
_ALL = [onset + vowel for onset in _ONSETS for vowel in _VOWELS]
SYLLABLES_HELD_OUT = tuple(s for s in _ALL if zlib.crc32(s.encode()) % 4 == 1)
SYLLABLES_TRAIN = tuple(s for s in _ALL if zlib.crc32(s.encode()) % 4 != 1)
_MINUTES_TRAIN = ("00", "10", "15", "20", "30", "40", "45", "50", "55")
_MINUTES_HELD_OUT = ("05", "25", "35", "12", "48")
_RUDE = re.compile("fuk|fuc|shit|nig|cunt|rap[ei]|coc|dic|naz|fag|nude|slut|whor")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MIXED = W.COMMON + W.OBJECTS
RESIDUE = 5  # numbers with n % 8 == 5 belong to the evaluation


class Source:
    """One stream of choices. `held_out` picks the evaluation's side of every split."""

    def __init__(self, seed: int, *, held_out: bool = False) -> None:
        self.rng = random.Random(seed)
        self.random = self.rng.random
        self.held_out = held_out
        self.lower = False

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, evenly."""
        return options[int(self.random() * len(options))]

    def chance(self, p: float) -> bool:
        """True with probability p."""
        return self.random() < p

    def below(self, n: int) -> int:
        """A whole number in [0, n)."""
        return int(self.random() * n)

    def cased(self, text: str) -> str:
        """The text as this conversation writes values: as it is, or all in lower case."""
        return text.lower() if self.lower else text

    def invented(self, capital: bool = True) -> str:
        """A made-up word of two or three syllables from this side's set."""
        pool = SYLLABLES_HELD_OUT if self.held_out else SYLLABLES_TRAIN
        word = "".join(self.pick(pool) for _ in range(2 + self.chance(0.3))) + self.pick(_CODAS)
        if _RUDE.search(word):
            return self.invented(capital)
        return self.cased(word.capitalize() if capital else word)

    def _letters(self, capital: bool) -> str:
        word = "".join(self.pick(_LETTERS) for _ in range(3 + self.below(6)))
        return self.cased(word.capitalize() if capital else word)

    def name(self) -> str:
        """A person's or animal's name."""
        if self.held_out:
            return self.invented()
        r = self.random()
        if r < 0.55:
            return self.invented()
        if r < 0.88:
            return self.cased(self.pick(W.PEOPLE))
        return self.cased(self.pick(W.COMMON).capitalize()) if r < 0.94 else self._letters(True)

    def place(self) -> str:
        """A town or country."""
        if self.held_out:
            return self.invented()
        r = self.random()
        if r < 0.55:
            return self.invented()
        if r < 0.9:
            return self.cased(self.pick(W.PLACES))
        return self.cased(("New " if r < 0.93 else "Port " if r < 0.96 else "Upper ") + self.invented().capitalize())

    def word(self, ordinary: Sequence[str], share: float = 0.6) -> str:
        """A lower-case word: from the ordinary list in training for `share` of the draws, else made up."""
        if self.held_out:
            return self.invented(False)
        r = self.random()
        if r < share:
            return self.cased(self.pick(ordinary).replace("-", " "))
        return self.invented(False) if r < share + (1 - share) * 0.6 else self.pick(_MIXED)

    def number(self, low: int, high: int) -> int:
        """A whole number of [low, high] in this side's residue class."""
        while True:
            n = low + self.below(high - low + 1)
            if (n % 8 == RESIDUE) == self.held_out:
                return n

    def code(self) -> str:
        """A code of digits, or of letters and digits; its digit part is in this side's class."""
        r = self.below(6 if self.held_out else 8)
        if r < 3:
            return str(self.number(10 ** (2 + r), 10 ** (3 + r) - 1))
        if r > 5:
            letter = self.pick(_LETTERS).upper()
            n, m = self.number(1, 99), self.number(10, 99)
            return self.cased(
                self.pick(
                    (
                        f"{letter}{n}",
                        f"{n}{letter}",
                        f"{n}-{m}",
                        f"#{n}{m}",
                        f"{letter}{n}{self.pick(_LETTERS).upper()}{m}",
                        f"{n}-{m}-{letter}",
                    )
                )
            )
        digits = str(self.number(10, 9999))
        letters = "".join(self.pick(_LETTERS) for _ in range(1 + self.below(3)))
        letters = letters if self.lower or r == 5 else letters.upper()
        return (letters + "-" + digits) if r == 3 else (letters + digits)

    def phone(self) -> str:
        """A telephone number in a few common groupings."""
        first, last = self.number(100, 999), self.number(100, 9999)
        return self.pick(("{} {}", "{}-{}", "0{} {}", "{}{}", "+{} {}")).format(first, last)

    def time(self) -> str:
        """A time of day."""
        minutes = self.pick(_MINUTES_HELD_OUT if self.held_out else _MINUTES_TRAIN)
        r = self.below(10)
        if r < 5:
            gap = " " if self.held_out or self.chance(0.7) else ""
            return f"{1 + self.below(12)}:{minutes}{gap}{self.pick(('am', 'pm'))}"
        if r < 9 or self.held_out:
            return f"{self.below(24):02d}:{minutes}" if r < 7 else f"{1 + self.below(23)}:{minutes}"
        hour = 1 + self.below(12)
        return self.pick((f"{hour} am", f"{hour} pm", f"{hour} o'clock", f"{hour}pm", f"{hour}am", "noon"))

    def date(self) -> str:
        """A day of the year, or in training also a day of the week."""
        if not self.held_out and self.chance(0.3):
            return self.cased(self.pick(W.DAYS))
        day, month = self.number(1, 30), self.cased(self.pick(W.MONTHS))
        suffix = "th" if 10 < day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
        return self.pick(
            (f"{day} {month}", f"{month} {day}", f"the {day}{suffix} of {month}", f"{month} {day}{suffix}")
        )

    def title(self) -> str:
        """Two or three words, for books, songs, teams and projects."""
        if self.held_out:
            return f"{self.invented()} {self.invented()}"
        r = self.random()
        if r < 0.5:
            return self.cased(f"{self.pick(W.ADJECTIVES).capitalize()} {self.pick(W.OBJECTS).capitalize()}")
        if r < 0.75:
            return self.cased(f"The {self.pick(W.COMMON).capitalize()} of {self.invented()}")
        return f"{self.invented()} {self.invented()}"
