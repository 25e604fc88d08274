"""How a user types: joined sentences, pronouns, openers, missing capitals, slips, and remarks about nothing."""
# ruff: noqa: SIM905

from __future__ import annotations

import re

from training import words as W
from training.phrases import facts as F
from training.phrases import smalltalk as T
from training.phrases.held_out import is_kept
from training.source import Source
from training.world import AS_IS, Fact, capital, forms_of

_REMARK_SUBJECTS, _REMARK_VERBS, REMARK_TIMES = (
    tuple(x.split("|")) for x in (T.REMARK_SUBJECTS, T.REMARK_VERBS, T.REMARK_TIMES)
)
PRONOUNS = tuple({**forms_of(word), "my": own} for word, own in (("he", "his"), ("she", "her")))


def remark(s: Source) -> str:
    """A small sentence about nothing in particular."""
    words = {
        "o": s.word(W.OBJECTS, 0.9),
        "j": s.pick(W.ADJECTIVES),
        "w": s.pick(W.WILD),
        "k": s.pick(W.KIN).replace("-", " "),
    }
    return s.pick(_REMARK_SUBJECTS).format_map(words) + " " + s.pick(_REMARK_VERBS)


def joined(s: Source, said: list[str]) -> str:
    """Sentences of one message: full stops, or an "and" between two."""
    text = _joined(s, said)
    if len(said) > 1 and not s.held_out and is_kept(text):  # only over the seam
        return " ".join(capital(one).rstrip(".?") + "." for one in said)
    return text


def _joined(s: Source, said: list[str]) -> str:
    if len(said) == 2 and s.chance(0.4) and said[0].endswith("."):
        return said[0][:-1] + s.pick((" and ", " and ", ", and ", ", ", " but ")) + said[1]
    if len(said) > 2 and s.chance(0.35):
        bare = [text.rstrip(".") for text in said]
        return ", ".join(bare[:-1]) + s.pick((" and ", ", and ", ", ")) + bare[-1] + "."
    return " ".join(capital(text) if i else text for i, text in enumerate(said))


def pronoun_form(s: Source, fact: Fact) -> str:
    """The fact told with he or she; only after its person was named in the same message."""
    named = Fact(
        fact.key, fact.kind, fact.value, fact.answer, fact.tell, fact.ask, user=s.pick(PRONOUNS), extra=fact.extra
    )
    return named.say(s.pick(fact.tell))


_CARRIERS = frozenset(
    """what where which when remember please tell know because don't called name have that this number does live
    like want would could favourite favorite forgot told there about again should think listen thanks alright
    anyway happens lives there's minutes people""".split()
) - frozenset((*W.COMMON, *W.OBJECTS))


def _slip(s: Source, text: str) -> str:
    """One swapped or lost letter in a word that carries no value."""
    words = text.split(" ")
    at = s.below(len(words))
    word = words[at]
    if word.lower() in _CARRIERS:
        i = 1 + s.below(len(word) - 2)
        words[at] = word[:i] + word[i + 1] + word[i] + word[i + 2 :] if s.chance(0.5) else word[:i] + word[i + 1 :]
    return " ".join(words)


_SHORT = {
    "you": "u",
    "your": "ur",
    "are": "r",
    "please": "pls",
    "thanks": "thx",
    "going to": "gonna",
    "want to": "wanna",
    **{
        word: word.replace("'", "")
        for word in "what's it's I'm that's don't can't who's name's I've I'd he's she's".split()
    },
}
_SHORT_WORD = re.compile(rf"(?<![\w'])({'|'.join(sorted(map(re.escape, _SHORT), key=len, reverse=True))})(?![\w'])")


def hurried(s: Source, text: str) -> str:
    """Short forms and lost apostrophes, as in messages typed on a phone."""
    return _SHORT_WORD.sub(lambda m: _SHORT[m.group(1)] if s.chance(0.6) else m.group(1), text)


def typed(s: Source, text: str, *, slips: bool = True) -> str:
    """Openers, missing capitals and full stops, rare slips, as people type."""
    r = s.random()
    if r < 0.2:
        text = f"{s.pick(F.OPENERS.of(s.held_out))} {text.removeprefix(AS_IS)}"
    elif r < 0.24 and text.endswith("?"):
        text = text[:-1] + s.pick((", please?", " please?", " please", ", do you know?"))
    r = s.random()
    if r < 0.12 and text[-1:] in ".?":
        text = text[:-1]
    elif r < 0.15:
        text += s.pick(("!", "!!", "??", "...", " :)", " thanks", " Thank you."))
    if slips and s.chance(0.05) and not s.held_out:
        text = _slip(s, text)
    if slips and s.careless:
        text = hurried(s, text)
    if s.lower:
        return (text.lower() if s.chance(0.8) else text).replace(AS_IS, "")
    return (capital(text) if s.chance(0.8) else text).replace(AS_IS, "")
