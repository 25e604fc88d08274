"""Seeded values for both worlds: training draws from syllable set A, evaluation (`held_out`) from the disjoint set B.

The two sets share nothing that has to be remembered: invented names are built from disjoint syllables, numbers fall
into disjoint residue classes, ordinary words belong to training alone.
"""

from __future__ import annotations

import json
import random
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from training import words as W
from training.phrases import held_out as H

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
_HOURS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_RUDE = re.compile("fuk|fuc|shit|nig|cunt|rap[ei]|coc|dic|naz|fag|nude|slut|whor")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MIXED = W.COMMON + W.OBJECTS
_SPLITTABLE = tuple(
    word.lower()
    for words in (
        *(W.COMMON, W.OBJECTS, W.PEOPLE, W.PLACES, W.FOODS, W.JOBS, W.HOBBIES, W.WILD, W.RESULT_KEYS, W.THINGS),
        *(W.KIN, W.ANIMALS),
    )
    for word in words
    if word.isalpha()
)
_ENDINGS = tuple(
    """ties ness ment ship ton mit able ible tion sion ing ers land hood ful less ism ity ies ous ive age ance ence ward
    wise dom ette ling ster ock ark ord ine ure ate ish ant ent ory ary ical ally ton ham ley ford house berry wood
    stone field line board book work light""".split()  # noqa: SIM905
)
_TOKENIZER = Path(__file__).parents[1] / "src/ninfer/bundled_model/tokenizer.json"
_PIECES = tuple(  # what a word is cut into behind its first piece
    sorted(
        piece
        for piece in json.loads(_TOKENIZER.read_text())["model"]["vocab"]
        if 1 < len(piece) < 9 and piece.isascii() and piece.isalpha() and piece.islower() and piece not in H.WORDS
    )
)
_GROUP = re.compile(r"\(([^()]*)\)")
_OF_THE_OTHER_SIDE = re.compile(
    f"(?:{'|'.join(sorted(SYLLABLES_HELD_OUT, key=len, reverse=True))})+(?:{'|'.join(_CODAS)})"
)


def _refused(word: str) -> bool:
    return bool(_RUDE.search(word) or word in H.WORDS or _OF_THE_OTHER_SIDE.fullmatch(word))


RESIDUE = 5  # numbers with n % 8 == 5 belong to the evaluation


class Source:
    """One stream of choices. `held_out` picks the evaluation's side of every split."""

    def __init__(self, seed: int, *, held_out: bool = False) -> None:
        self.rng = random.Random(seed)
        self.random = self.rng.random
        self.held_out = held_out
        self.lower = False
        self.careless = False  # typed in a hurry: no apostrophes, short forms
        self.theme: tuple[str, ...] = ()  # words that nouns of this conversation share
        # this conversation's own few syllables, nouns (with their kinds) and relations; empty: all there are
        self.syllables: tuple[str, ...] = ()
        self.nouns: tuple[tuple[str, str], ...] = ()
        self.relations: tuple[str, ...] = ()

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
        pool = SYLLABLES_HELD_OUT if self.held_out else self.syllables or SYLLABLES_TRAIN
        word = "".join(self.pick(pool) for _ in range(2 + self.chance(0.3))) + self.pick(_CODAS)
        if _RUDE.search(word):
            return self.invented(capital)
        return self.cased(word.capitalize() if capital else word)

    def fragments(self, capital: bool = True) -> str:
        """A made-up word that copying must not foresee: parts of ordinary words glued together, or plain letters.

        Training only, so that every piece of the vocabulary is copied at the head, in the middle and at the end of
        values. Words that the evaluation could draw are refused.
        """
        while True:
            if self.random() < 0.12:
                word = "".join(self.pick(_LETTERS) for _ in range(3 + self.below(6)))
            else:
                word = "".join(self._piece() for _ in range(2 + (self.random() < 0.45)))
                if self.random() < 0.12:  # a single letter is a rare first piece
                    word = self.pick(_LETTERS) + word
                if self.random() < 0.3:
                    word += self.pick(_SPLITTABLE)[-1 - self.below(4) :]
            if 2 < len(word) < 15 and not _refused(word):
                return self.cased(word.capitalize() if capital else word)

    def glued(self, first: Sequence[str], second: Sequence[str]) -> str:
        """Two words as one, "stepson": the second is then copied without the space that it mostly has."""
        while True:
            word = self.pick(first).replace("-", "") + self.pick(second).replace("-", "")
            if not _refused(word):
                return self.cased(word)

    def _piece(self) -> str:
        """A piece of the vocabulary, or a part of two to four letters, rarer a longer one, an ending, a whole word."""
        if self.random() < 0.35:
            return self.pick(_PIECES)
        r, word = self.random(), self.pick(_SPLITTABLE)
        if r < 0.12:
            return self.pick(_ENDINGS)
        if r < 0.27:
            return word[:7]
        at = 0 if self.random() < 0.6 else self.below(len(word) - 1)
        return word[at : at + 2 + self.below(3 if r < 0.85 else 5)]

    def expand(self, pattern: str) -> str:
        """One sentence of a pattern with choices such as (a|b)."""
        return _GROUP.sub(lambda found: self.pick(found.group(1).split("|")), pattern)

    def name(self) -> str:
        """A person's or animal's name."""
        if self.held_out:
            return self.invented()
        r = self.random()
        if r < 0.35:
            return self.invented()
        if r < 0.58:
            return self.cased(self.pick(W.PEOPLE))
        return self.cased(self.pick(W.COMMON).capitalize()) if r < 0.64 else self.fragments()

    def place(self) -> str:
        """A town or country."""
        if self.held_out:
            return self.invented()
        r = self.random()
        if r < 0.3:
            return self.invented()
        if r < 0.6:
            return self.cased(self.pick(W.PLACES))
        if r < 0.92:
            return self.fragments()
        return self.cased(f"{self.pick(('New', 'Port', 'Upper', 'Saint', 'Old', 'North'))} {self.fragments()}")

    def word(self, ordinary: Sequence[str], share: float = 0.6) -> str:
        """A lower-case word: from the ordinary list in training for `share` of the draws, else made up."""
        if self.held_out:
            return self.invented(False)
        r = self.random()
        if r < share * 0.75:
            return self.cased(self.pick(ordinary).replace("-", " "))
        r = self.random()
        return self.invented(False) if r < 0.3 else self.fragments(False) if r < 0.85 else self.pick(_MIXED)

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
            letter, second = self.pick(_LETTERS).upper(), self.pick(_LETTERS).upper()
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
                        f"{letter}{second}-{n}-{m}",
                        f"{n}{letter}{second}{m}",
                        f"{letter.lower()}{n}{second.lower()}{m}",
                        f"{n}/{m}",
                        f"{n}.{m}.{self.number(10, 99)}",
                        "".join(self.pick(_LETTERS) for _ in range(3 + self.below(4))).upper(),
                        self.invented() + str(n),
                        self.fragments(False) + str(m),
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
        spoken = self.pick(_HOURS)
        if self.random() < 0.5:
            said = (f"half past {spoken}", f"quarter to {spoken}", f"quarter past {hour}", f"{spoken} o'clock")
        else:
            said = (f"{hour} am", f"{hour} pm", f"{hour}pm", f"{hour}am")
        return self.pick((*said, f"{hour} o'clock", str(hour), "noon", "midnight"))

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
        if r < 0.25:
            return self.cased(f"{self.pick(W.ADJECTIVES).capitalize()} {self.pick(W.OBJECTS).capitalize()}")
        if r < 0.4:
            return self.cased(f"The {self.pick(W.COMMON).capitalize()} of {self.place()}")
        if r < 0.55:
            return self.cased(f"{self.name()} {self.pick(('and', 'of', 'the', 'in', 'for'))} {self.fragments()}")
        if r < 0.65:
            return f"{self.fragments()} {self.invented()} {self.fragments()}"
        if r < 0.72:
            return self.cased(self.pick(W.COMMON).capitalize())
        return f"{self.invented()} {self.invented()}" if r < 0.82 else f"{self.fragments()} {self.fragments()}"
