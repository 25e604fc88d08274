"""Paraphrases by composition: a lead, a core, a tail, fillers in between. Evaluation keeps its own plain lists."""

from __future__ import annotations

from training import words as W
from training.phrases import facts as F
from training.phrases import frames as P
from training.phrases import grammar as G
from training.phrases.held_out import allowed
from training.source import Source
from training.world import AS_IS, Fact, capital

_EMBED = (
    "do you know ",
    "tell me ",
    "can you tell me ",
    "do you remember ",
    "do you still know ",
    "could you tell me ",
    "please tell me ",
    "and tell me ",
)
COMPOSED = 0.65
LIKE_A_NOUN = 0.35  # relatives told in the words for nouns
BY_GRAMMAR = 0.45
VALUE_FIRST = 0.15  # more of the nouns that stand behind their value: the way back is the longer one
_VALUE_FIRST = tuple(p for p in G.NOUN_TELL if 0 <= p.find("{v}") < p.find("{my} {np}"))
ODD = 0.08  # told or asked in words that mean nothing: noun and value side by side are enough
_ODD_TELL = (
    "{my} {np} {o} {v}",
    "{o} {my} {np} {o} {v}",
    "{o} {v} {o} {my} {np}",
    "{v} {o} {my} {np} {o}",
    "{o} {my} {np}{p} {o}{p} {v}",
    "{my} {np} {o}: {v}",
)
_ODD_TELL_ANY = ("{o} {my} {np} {o}: {v}", "{my} {np} {o}: {v}", "{my} {np}, {o}: {v}", "{o}: {v}, {my} {np}")
_PLAIN_TO_SEE = frozenset(("name", "place", "code", "number", "phone", "time", "date", "price", "street"))
_ODD_ASK = ("{o} {my} {np}", "{my} {np} {o}", "{o} {my} {np} {o}", "{o}, {o} {my} {np}", "{o} what {my} {np} is")
_ODD_KIN_ASK = (
    "{o} the name of {my} {k}",
    "{o} {my} {k}'s name",
    "{o} what {my} {k} is called",
    "{o} name {o} {my} {k}",
    "{o} the name of {my} {k} {o}",
    "{o} {my} {k}'s name {o}",
    "{o}, {o} {my} {k} is called",
)


def _odd_words(s: Source) -> str:
    return " ".join(s.word(W.COMMON, 0.8) for _ in range(1 + s.below(3)))


def _lead(s: Source) -> str:
    r = s.random()
    if r < 0.5:
        return ""
    return (_odd_words(s) + s.pick((", ", ": ", " ", " - "))) if r < 0.56 else s.pick(P.LEADS) + " "


def sprinkle(s: Source, template: str, share: float = 0.2) -> str:
    """A filler word or two between the words of a template, never inside a marker."""
    while s.chance(share):
        words = template.split(" ")
        at = s.below(len(words))
        words.insert(at, s.pick(P.FILLERS) if s.chance(0.85) else s.pick(W.COMMON))
        template = " ".join(words)
    return template


def _fill(s: Source, core: str) -> str:
    return core.replace("{link}", s.pick(P.LINKS)).replace("{fill}", s.pick(P.FILLERS))


def _patterns(fact: Fact, asked: bool) -> tuple[str, ...]:
    """The grammar's ways to tell or ask this fact; none for facts with few ways."""
    if "np" in fact.extra and fact.change:
        return G.NOUN_ASK if asked else G.NOUN_TELL
    if "k" in fact.extra and fact.change:
        return G.KIN_ASK if asked else G.KIN_TELL
    return () if fact.extra else G.SLOTS.get(fact.key[-1], ((), ()))[asked]


def tell(s: Source, fact: Fact) -> str:
    """A sentence that tells the fact."""
    if s.held_out:
        return fact.say(s.pick(fact.tell))
    return allowed(lambda: _tell(s, fact))


def _oddly(s: Source, patterns: tuple[str, ...]) -> str:
    """A pattern whose {o} become one to three words of no matter, {p} a mark."""
    parts = s.pick(patterns).split("{o}")
    text = parts[0] + "".join(_odd_words(s).replace("{", "") + part for part in parts[1:])
    return text.replace("{p}", s.pick((",", "", " -", ",")))


def _told_as(s: Source, fact: Fact) -> str:
    if fact.change and ("np" in fact.extra or "k" in fact.extra) and s.chance(ODD):
        text = _oddly(s, _ODD_TELL if fact.kind in _PLAIN_TO_SEE else _ODD_TELL_ANY) + "."
        return text if "np" in fact.extra else text.replace("{np}", "{k}")
    if "k" in fact.extra and fact.change and s.chance(LIKE_A_NOUN):
        plain = s.pick(F.NOUN_TELL.train) if s.chance(0.4) else s.expand(s.pick(G.NOUN_TELL)) + "."
        return plain.replace("{np}", "{k}")
    if "np" in fact.extra and fact.change and s.chance(VALUE_FIRST):
        return s.expand(s.pick(_VALUE_FIRST)) + "."
    patterns = _patterns(fact, asked=False)
    if patterns and s.chance(BY_GRAMMAR):
        return s.expand(s.pick(patterns)) + "."
    if "np" in fact.extra and fact.change and s.chance(COMPOSED):
        return _fill(s, s.pick(P.NOUN_CORES)) + "."
    if "k" in fact.extra and fact.change and s.chance(COMPOSED):
        return _fill(s, s.pick(P.KIN_CORES)) + "."
    return s.pick(fact.tell)


def _tell(s: Source, fact: Fact) -> str:
    template = _told_as(s, fact)
    if not s.chance(COMPOSED):
        return fact.say(template)
    end = template[-1] if template[-1] in ".?" else ""
    tail = s.pick((" ", ", ")) + s.pick(P.TAILS) if s.chance(0.25) else ""
    lead, core = _lead(s), sprinkle(s, template.rstrip(".?"))
    text = fact.say(core + tail + (end if not tail.endswith("?") else ""))
    return lead + text.removeprefix(AS_IS) if lead else text


def change(s: Source, new: Fact, old: str) -> str:
    """A correction of something told before."""
    if s.held_out:
        return new.say(s.pick(new.change if "np" in new.extra else new.tell), old=old)
    return allowed(lambda: _change(s, new, old))


def _change(s: Source, new: Fact, old: str) -> str:
    if new.change and s.chance(0.3):
        return new.say(s.pick(new.change), old=old)
    if s.chance(0.3):
        return s.expand(s.pick(G.CHANGE_LEADS)) + new.say(_told_as(s, new)).removeprefix(AS_IS)
    core = _told_as(s, new).rstrip(".?")
    text = new.say(sprinkle(s, core) + s.pick(P.CHANGE_TAILS), old=old).removeprefix(AS_IS) + "."
    return f"{s.pick(P.CHANGE_LEADS)} {text}"


def _embedded(s: Source, fact: Fact) -> str:
    if "np" in fact.extra and fact.change:
        core = s.pick(P.ASK_CORES)
        if fact.key[0] == "":
            return core.replace("{mine}", "mine").replace("{me2}", "mine")
        return core.replace("{mine}", "{my}").replace("{me2}", "{me}")
    if "k" in fact.extra and fact.change:
        return s.pick(P.KIN_ASK_CORES)
    for template in (s.pick(fact.ask) for _ in range(6)):
        for head in _EMBED:
            if template.startswith(head):
                return template.removeprefix(head).rstrip("?.")
    return ""


def ask(s: Source, fact: Fact) -> str:
    """A question for the fact."""
    if s.held_out:
        return fact.say(s.pick(fact.ask))
    return allowed(lambda: _ask(s, fact))


def _ask(s: Source, fact: Fact) -> str:
    if fact.change and ("np" in fact.extra or "k" in fact.extra) and s.chance(ODD):
        return fact.say(_oddly(s, _ODD_ASK if "np" in fact.extra else _ODD_KIN_ASK) + s.pick(("?", "?", ".", "")))
    patterns = _patterns(fact, asked=True)
    if patterns and s.chance(BY_GRAMMAR):
        text = fact.say(s.expand(s.pick(patterns)))
        return f"{s.pick(P.ASK_OPENERS)} {text}" if s.chance(0.15) else text
    if not s.chance(COMPOSED):
        return fact.say(s.pick(fact.ask))
    core = _embedded(s, fact) if s.chance(0.6) else ""
    if core:
        template = s.pick(P.ASK_LEADS) + " " + core + s.pick(("?", "?", ".", ""))
    elif "np" in fact.extra and fact.change and s.chance(0.5):
        template = s.pick(P.NOUN_ASK_DIRECT)
    elif "k" in fact.extra and fact.change and s.chance(0.5):
        template = s.pick(P.KIN_ASK_DIRECT)
    else:
        template = s.pick(fact.ask)
    text = fact.say(sprinkle(s, template, 0.15)).removeprefix(AS_IS)
    if s.chance(0.2):
        end = text[-1] if text[-1:] in "?." else ""
        text = text.rstrip("?.") + s.pick((" ", ", ")) + s.pick(P.ASK_TAILS) + end
    r = s.random()
    if r < 0.2:
        return f"{s.pick(P.ASK_OPENERS)} {text}"
    return f"{_odd_words(s)}{s.pick((', ', ': ', ' '))}{text}" if r < 0.23 else text


def persona(s: Source, plain: tuple[str, ...]) -> str:
    """A system sentence that gives a name, with its marker."""
    return allowed(lambda: _persona(s, plain))


def _persona(s: Source, plain: tuple[str, ...]) -> str:
    if s.chance(0.3):
        return s.pick(plain)
    if s.chance(0.5):
        return capital(s.expand(s.pick(G.PERSONA)))
    text = sprinkle(s, s.pick(P.PERSONA_MORE), 0.1)
    if s.chance(0.1) and not text.startswith("{"):
        return capital(s.pick(P.LEADS) + " " + text[0].lower() + text[1:])
    return capital(text)


def name_question(s: Source, plain: tuple[str, ...]) -> str:
    """A question for the model's name."""
    return allowed(lambda: _name_question(s, plain))


def _name_question(s: Source, plain: tuple[str, ...]) -> str:
    if s.chance(0.4):
        return s.expand(s.pick(G.NAME_ASK))
    text = sprinkle(s, s.pick(P.NAME_ASK_MORE) if s.chance(0.6) else s.pick(plain), 0.1)
    return f"{s.pick(P.ASK_OPENERS)} {text}" if s.chance(0.15) else text
