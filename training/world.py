"""Facts of the little world: who or what they are about, how they are told and asked, and the one canonical answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from training import words as W
from training.source import Source

Forms = Mapping[str, str]
USER_SELF: Forms = {
    "I": "I",
    "my": "my",
    "me": "me",
    "am": "am",
    "was": "was",
    "have": "have",
    "do": "do",
    "s": "",
    "es": "",
    "ies": "y",
}
ANSWER_SELF: Forms = {
    "I": "you",
    "my": "your",
    "me": "you",
    "am": "are",
    "was": "were",
    "have": "have",
    "do": "do",
    "s": "",
    "es": "",
    "ies": "y",
}


def forms_of(subject: str) -> Forms:
    """Markers for a third person."""
    return {
        "I": subject,
        "my": subject + "'s",
        "me": subject,
        "am": "is",
        "was": "was",
        "have": "has",
        "do": "does",
        "s": "s",
        "es": "es",
        "ies": "ies",
    }


SAME_KIN = {"mum": "mother", "mom": "mother", "dad": "father"}


def draw(source: Source, kind: str) -> str:
    """A value of one kind as text."""
    s = source
    match kind:
        case "name":
            return f"{s.name()} {s.name()}" if s.chance(0.08) else s.name()
        case "place":
            return s.place()
        case "code":
            return s.code()
        case "phone":
            return s.phone()
        case "number" | "room":
            return str(s.number(1, 999) if s.chance(0.7) else s.number(1, 30))
        case "age":
            return str(s.number(2, 99))
        case "price":
            if not s.held_out and s.chance(0.35):
                cents = f".{s.number(10, 99)}" if s.chance(0.5) else ""
                return s.pick(("${}", "{} euros", "\u20ac{}", "{} euro", "{} dollars")).format(
                    f"{s.number(1, 900)}{cents}"
                )
            coin = "thalers" if s.held_out else s.pick(("coins", "euros", "dollars", "pounds", "crowns"))
            return f"{s.number(1, 400)} {coin}"
        case "street":
            return f"{s.number(1, 200)} {s.name()} {s.cased(s.pick(('Street', 'Road', 'Lane', 'Avenue', 'Square')))}"
        case "email":
            who = s.invented(False) + s.pick((".", "_", "")) + s.invented(False)
            return f"{who}@{s.pick(('mail', 'post', 'web', s.invented(False)))}.{s.pick(('com', 'org', 'net', 'de'))}"
        case "time":
            return s.time()
        case "date":
            return s.date()
        case "title":
            return s.title()
        case "carkind":
            return s.word(W.COLOURS, 0.5) + " " + s.pick(("car", "van", "truck", "jeep", "bus", "motorbike"))
        case "liking":
            return s.word(s.pick(_LIKINGS))
        case _:
            return s.word(_LISTS[kind], 0.62)


_LIKINGS = (W.FOODS, W.WILD, W.HOBBIES, W.SPORTS, W.FLOWERS, W.DRINKS, W.COLOURS)
_LISTS: dict[str, tuple[str, ...]] = {
    "colour": W.COLOURS,
    "food": W.FOODS,
    "drink": W.DRINKS,
    "wild": W.WILD,
    "sport": W.SPORTS,
    "season": W.SEASONS,
    "flower": W.FLOWERS,
    "day": W.DAYS,
    "month": W.MONTHS,
    "word": W.COMMON,
    "job": W.JOBS,
    "hobby": W.HOBBIES,
    "instrument": W.INSTRUMENTS,
    "language": W.LANGUAGES,
    "spot": W.SPOTS,
    "thing": W.OBJECTS,
}


AS_IS = "\x01"  # in front of a sentence that starts with a lower-case value; `typed` takes it away


def capital(text: str) -> str:
    """The text with its first letter raised, unless it starts with a value that has none."""
    return text if text.startswith(AS_IS) else text[:1].upper() + text[1:]


_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])")


def article(text: str) -> str:
    """ "a apple" -> "an apple"."""
    return _ARTICLE.sub(r"\1n ", text)


@dataclass(slots=True)
class Fact:
    """One thing that was told. `answer_text` is the canonical sentence; everything else is a way to talk about it."""

    key: tuple[str, ...]
    kind: str
    value: str
    answer: str
    tell: tuple[str, ...]
    ask: tuple[str, ...]
    check: tuple[str, ...] = ()
    who: tuple[str, ...] = ()
    change: tuple[str, ...] = ()
    user: Forms = field(default_factory=dict)
    reply: Forms = field(default_factory=dict)
    extra: Forms = field(default_factory=dict)

    def say(self, template: str, **more: str) -> str:
        """A user's sentence about the fact, first letter as written."""
        text = article(template.format_map({**self.user, **self.extra, "v": self.value, **more}))
        return AS_IS + text if template.startswith("{v}") and text[:1].islower() else text

    def answer_text(self) -> str:
        """The canonical answer without capital and full stop."""
        return article(self.answer.format_map({**self.reply, **self.extra, "v": self.value}))

    def sentence(self) -> str:
        """The canonical answer as a sentence."""
        return capital(self.answer_text()) + "."
