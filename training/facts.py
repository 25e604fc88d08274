"""Makers of facts: nouns, verbs, relatives, things, counts, lists, each with its value and its phrasings."""

from __future__ import annotations

from training import words as W
from training.phrases import facts as F
from training.phrases import held_out as H
from training.phrases import slots as S
from training.source import Source
from training.world import SAME_KIN, Fact, Forms, article, capital, draw

# noun phrase -> value kind; "a|b" means several nouns of one kind
NOUNS: tuple[tuple[str, str], ...] = tuple(
    (noun, kind)
    for nouns, kind in (
        ("favourite colour|favourite color|car colour|bike colour|hair colour|team colour|eye colour", "colour"),
        ("favourite food|favourite snack|favourite dessert|usual breakfast|favourite fruit", "food"),
        ("favourite drink|usual drink|usual order", "drink"),
        ("favourite animal|spirit animal", "wild"),
        ("favourite sport", "sport"),
        ("favourite season", "season"),
        ("favourite flower", "flower"),
        ("favourite day|day off|gym day|laundry day|market day", "day"),
        ("favourite month", "month"),
        (
            "favourite word|secret word|password|magic word|username|nickname|code word|passphrase|wifi password|login"
            "|safe word|handle|motto",
            "word",
        ),
        (
            "locker code|door code|pin|alarm code|gate code|customer number|order number|ticket number|booking code"
            "|access code|invoice number"
            "|flight number|licence plate|plate number|member number|account number|id number|parcel number|wifi code"
            "|case number|key code|student number"
            "|safe code|bike lock code|secret code|reference number",
            "code",
        ),
        ("phone number|office number|home number", "phone"),
        ("email|email address|work email", "email"),
        ("address|home address|work address", "street"),
        (
            "favourite number|lucky number|house number|room number|seat number|shirt number|bus line|gate|table number"
            "|platform|parking spot|desk number"
            "|secret number|flat number|score|queue number|hotel room|jersey number",
            "number",
        ),
        ("shoe size|height in cm|weight in kilos|budget in coins|rent|salary|high score|grade", "number"),
        ("favourite city|favourite place|favourite country|holiday place|next stop", "place"),
        (
            "surname|middle name|hero|favourite singer"
            "|favourite author|favourite actor|tutor|lawyer|running partner|flatmate|lab partner|pen name",
            "name",
        ),
        (
            "favourite book|favourite song|favourite film|favourite band|band|team|favourite game|project|school|hotel"
            "|street|bank|favourite show"
            "|book club|boat|shop|club|ship|favourite poem|university|restaurant|favourite team",
            "title",
        ),
        ("wedding day|exam date|start date|anniversary|holiday date|deadline|moving day|due date", "date"),
        ("wake-up time|alarm time|bedtime|departure time|arrival time|start time", "time"),
        ("favourite hobby", "hobby"),
        ("favourite instrument", "instrument"),
        ("mother tongue|first language|favourite language", "language"),
        ("dream job|old job|first job", "job"),
    )
    for noun in nouns.split("|")
)
HELD_OUT_NOUNS = H.NOUNS


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split("|")) if text else ()


_SLOTS = tuple(
    (key, kind, answer, _split(t), _split(a), _split(c), _split(w)) for key, kind, answer, t, a, c, w in S.SLOT_TEXTS
)
_THINGS = tuple((key, kind, answer, _split(t), _split(a), _split(c)) for key, kind, answer, t, a, c in S.THING_TEXTS)
_EVAL_SLOTS = tuple(
    (key, kind, answer, _split(S.SLOT_HELD_OUT[key][0]), _split(S.SLOT_HELD_OUT[key][1]), check, who)
    for key, kind, answer, _, _, check, who in _SLOTS
    if key in S.SLOT_HELD_OUT
)
_KIN = tuple(k.replace("-", " ") for k in W.KIN)
_PETS = tuple(k.replace("-", " ") for k in W.ANIMALS)
_LIST_NAMES = ("shopping", "to-do", "packing", "wish", "guest", "reading", "grocery", "party", "menu")


def verb_fact(s: Source, subject: tuple[str, Forms, Forms]) -> Fact:
    """A fact with a verb of its own: lives in, is N years old, plays the ..."""
    slots = _EVAL_SLOTS if s.held_out else _SLOTS
    key, kind, answer, tell, ask, check, who = s.pick(slots)
    while key == "name" and subject[0] != "":
        key, kind, answer, tell, ask, check, who = s.pick(slots)
    return Fact((subject[0], key), kind, draw(s, kind), answer, tell, ask, check, who, (), subject[1], subject[2])


_HEADS: tuple[tuple[str, str], ...] = (
    ("code", "code"),
    ("number", "number"),
    ("number", "code"),
    ("name", "name"),
    ("colour", "colour"),
    ("time", "time"),
    ("day", "day"),
    ("date", "date"),
    ("place", "place"),
    ("town", "place"),
    ("word", "word"),
    ("partner", "name"),
    ("teacher", "name"),
    ("coach", "name"),
    ("friend", "name"),
    ("price", "price"),
    ("size", "number"),
    ("card", "code"),
    ("team", "title"),
    ("group", "title"),
    ("password", "code"),
    ("password", "word"),
    ("shop", "title"),
    ("limit", "number"),
    ("drink", "drink"),
    ("food", "food"),
    ("song", "title"),
    ("address", "street"),
    ("key", "code"),
    ("club", "title"),
    ("score", "number"),
    ("id", "code"),
)
_BEFORE = (
    "favourite",
    "favourite",
    "favourite",
    "usual",
    "best",
    "own",
    "last",
    "next",
    "first",
    "second",
    "old",
    "new",
)
_HYPHENED = ("up", "out", "on", "off", "by", "over", "back", "down", "to", "away", "through", "end", "side", "half")
_LASTS = (*W.OBJECTS, *W.JOBS, *W.SPOTS, *W.KIN)
_ANY_KIND = ("word", "title", "name", "place", "code", "food", "number", "colour")


def _noun_word(s: Source) -> str:
    if s.theme and s.chance(0.6):
        return s.pick(s.theme)
    return s.word(s.pick((W.COMMON, W.OBJECTS, W.EVENTS, W.HOBBIES, W.FOODS, W.JOBS)), 0.7)


def odd_noun(s: Source) -> tuple[str, str]:
    """A noun nobody foresaw, of one to three words, ordinary or made up; nouns of one conversation share words."""
    word, second = _noun_word(s), _noun_word(s)
    if s.chance(0.15):
        word = (
            f"{word}-{s.pick(_HYPHENED) if s.chance(0.5) else second}" if s.chance(0.5) else s.glued(W.COMMON, _LASTS)
        )
    r = s.random()
    if r < 0.5:
        head, kind = s.pick(_HEADS)
        if r < 0.1:
            word = f"{word} {second}"
        return f"{word} {head}", kind
    kind = s.pick(_ANY_KIND)
    if r < 0.65:
        return f"{s.pick(_BEFORE)} {word}", kind
    if r < 0.8:
        return f"{word} {second}", kind
    return (word, kind) if r < 0.93 else (f"{s.pick(W.ADJECTIVES)} {word}", kind)


def any_noun(s: Source) -> tuple[str, str]:
    """A noun of training and its value kind: one of this conversation's own, or any."""
    if s.nouns and s.chance(0.75):
        return s.pick(s.nouns)
    return odd_noun(s) if s.chance(0.6) else s.pick(NOUNS)


def noun_fact(s: Source, subject: tuple[str, Forms, Forms], like: Fact | None = None) -> Fact:
    """ "My locker code is ...": one of many nouns, all told and asked in the same ways; `like` gives the noun."""
    if like:
        noun, kind = like.key[1], like.kind
    else:
        noun, kind = s.pick(HELD_OUT_NOUNS) if s.held_out else any_noun(s)
        if kind == "word" and s.chance(0.3):
            kind = "code"
        elif not s.held_out and s.chance(0.06):
            kind = s.pick(_ANY_KIND)
    spelled = noun.replace("favourite", "favorite").replace("colour", "color") if s.chance(0.25) else noun
    h = s.held_out
    return Fact(
        (subject[0], noun),
        kind,
        draw(s, kind),
        "{my} {np} is {v}",
        F.NOUN_TELL.of(h),
        F.NOUN_ASK.of(h),
        F.NOUN_CHECK.of(h),
        (),
        F.NOUN_CHANGE.of(h),
        subject[1],
        subject[2],
        {"np": spelled},
    )


_KIN_PARTS = (_split(S.KIN_TELL), _split(S.KIN_ASK), _split(S.KIN_CHECK), _split(S.KIN_WHO))
_KIN_PARTS_HELD_OUT = (_split(S.KIN_TELL_HELD_OUT), _split(S.KIN_ASK_HELD_OUT), _split(S.KIN_CHECK), _split(S.KIN_WHO))
_KIN_CHANGE = (
    "actually, {my} {k} is called {v}.",
    "sorry, {my} {k} is called {v}, not {old}.",
    "{my} {k} has a new name now: {v}.",
    "correction: {my} {k} is called {v}.",
    "I renamed {my} {k} to {v}.",
    "{my} {k} is now called {v}.",
)


def relation(s: Source) -> str:
    """A relative, a pet or a job-holder of training: one of this conversation's own, or any, mostly unheard of."""
    if s.relations and s.chance(0.75):
        return s.pick(s.relations)
    r = s.random()
    if r < 0.12:
        return s.glued(W.COMMON if s.chance(0.6) else W.ADJECTIVES, _LASTS if s.chance(0.3) else W.KIN)
    if r < 0.45:
        return s.word(s.pick((W.JOBS, W.OBJECTS, W.WILD, W.COMMON)), 0.5)
    if r < 0.52:
        return f"{_noun_word(s)} {s.word(s.pick((W.OBJECTS, W.WILD, W.JOBS)), 0.5)}"
    if r < 0.62:
        return f"{_noun_word(s)} {s.pick(_KIN if s.chance(0.4) else _PETS if s.chance(0.5) else W.WILD)}"
    return s.pick(_KIN if r < 0.8 else _PETS)


def kin_fact(s: Source, subject: tuple[str, Forms, Forms], kin: str = "") -> Fact:
    """The name of a relative or a pet."""
    k = kin or (s.pick(H.KIN) if s.held_out else relation(s))
    tell, ask, check, who = _KIN_PARTS_HELD_OUT if s.held_out else _KIN_PARTS
    return Fact(
        (subject[0], "kin", SAME_KIN.get(k, k)),
        "name",
        draw(s, "name"),
        S.KIN_ANSWER,
        tell,
        ask,
        check,
        who,
        _KIN_CHANGE,
        subject[1],
        subject[2],
        {"k": k},
    )


def thing_fact(s: Source, only: str = "", about: str = "") -> Fact:
    """Where, when, how dear, which colour: facts about a thing."""
    key, kind, answer, tell, ask, check = next(t for t in _THINGS if t[0] == only) if only else s.pick(_THINGS)
    if about:
        thing = about
    elif key in ("when", "date", "room"):
        thing = s.pick(W.EVENTS)
    else:
        thing = s.word(W.THINGS if s.chance(0.6) else W.OBJECTS, 0.85)
        if s.chance(0.15):
            thing = s.pick(W.ADJECTIVES) + " " + thing
    plural = thing.rsplit(" ", 1)[-1] in W.PLURAL_THINGS
    extra = {
        "t": thing,
        "is": "are" if plural else "is",
        "t_s": "" if plural else "s",
        "have": "have" if plural else "has",
    }
    return Fact((key, thing), kind, draw(s, kind), answer, tell, ask, check, (), (), {}, {}, extra)


_COUNT_PARTS = (_split(S.COUNT_TELL), _split(S.COUNT_ASK), (S.COUNT_CHECK,), (S.COUNT_WHO,))


_NUMBER_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "twenty")


def count_fact(s: Source, subject: tuple[str, Forms, Forms]) -> Fact:
    """How many of something somebody has."""
    thing = s.pick(W.COUNTED)
    tell, ask, check, who = _COUNT_PARTS
    value = s.pick(_NUMBER_WORDS) if s.chance(0.25) else str(s.number(2, 20) if s.chance(0.6) else s.number(2, 400))
    return Fact(
        ("count", subject[0], thing),
        "number",
        value,
        S.COUNT_ANSWER,
        tell,
        ask,
        check,
        who,
        (),
        subject[1],
        subject[2],
        {"t": thing},
    )


_BARE = ("number", "word", "code", "name", "colour", "date", "time", "place", "phrase", "password", "city")
_BARE_KINDS = {"phrase": "title", "password": "code", "city": "place"}
_BARE_TELL = (
    "remember the {np} {v}.",
    "please remember the {np} {v}.",
    "remember this {np}: {v}.",
    "the {np} is {v}.",
    "keep the {np} {v} in mind.",
    "the {np} to remember is {v}.",
    "I will ask you later, the {np} is {v}.",
    "memorise the {np} {v}.",
    "here is a {np} for you: {v}.",
    "can you remember the {np} {v}?",
    "note the {np} {v}.",
    "don't forget the {np} {v}.",
    "my {np} for you to remember: {v}.",
    "store the {np} {v}.",
)
_BARE_ASK = (
    "what is the {np}?",
    "what was the {np}?",
    "which {np} did I tell you?",
    "what {np} did I give you?",
    "what {np} did I ask you to remember?",
    "do you remember the {np}?",
    "tell me the {np}.",
    "what was the {np} again?",
    "which {np} should you remember?",
    "do you still know the {np}?",
    "can you tell me the {np} I gave you?",
    "the {np} please",
)


def bare_fact(s: Source) -> Fact:
    """ "Remember the number 4821." """
    noun = s.pick(_BARE)
    value = draw(s, _BARE_KINDS.get(noun, noun))
    return Fact(
        ("bare", noun),
        _BARE_KINDS.get(noun, noun),
        value,
        "the {np} is {v}",
        _BARE_TELL,
        _BARE_ASK,
        ("is the {np} {v}?",),
        extra={"np": noun},
    )


_MANY_TELL = (
    "my {k}s are called {v}.|I have {n} {k}s called {v}.|I have {n} {k}s, {v}.|I have {n} {k}s named {v}."
    "|my {k}s are {v}.|the names of my {k}s are {v}.|{v} are my {k}s.|my {n} {k}s are called {v}."
    "|I have {n} {k}s: {v}.|we have {n} {k}s, their names are {v}."
)
_MANY_ASK = (
    "what are my {k}s called?|what are the names of my {k}s?|who are my {k}s?|what are my {k}s' names?"
    "|tell me the names of my {k}s.|do you remember my {k}s?|how are my {k}s called?"
    "|what are my {k}s named?|do you know the names of my {k}s?"
)
_MANY_OF = (
    "cat",
    "dog",
    "sister",
    "brother",
    "daughter",
    "son",
    "friend",
    "rabbit",
    "hen",
    "cousin",
    "horse",
    "parrot",
    "kid",
    "neighbour",
    "goat",
    "boss",
    "teacher",
    "uncle",
    "aunt",
)


def many_fact(s: Source) -> Fact:
    """Several relatives or pets of one sort, named together."""
    k = s.pick(_MANY_OF).replace("boss", "colleague")
    n = 2 + s.chance(0.3)
    names = [s.name() for _ in range(n)]
    value = ", ".join(names[:-1]) + " and " + names[-1]
    extra = {"k": k, "n": s.pick((("two", "2"), ("three", "3"))[n - 2])}
    return Fact(("many", k), "list", value, "your {k}s are {v}", _split(_MANY_TELL), _split(_MANY_ASK), extra=extra)


def list_fact(s: Source) -> Fact:
    """A list of two to four entries."""
    name = s.pick(_LIST_NAMES)
    pool = W.FOODS if name in ("shopping", "grocery", "menu", "party") else W.OBJECTS
    if name == "guest":
        items = [s.name() for _ in range(2 + s.below(3))]
    else:
        items = list(dict.fromkeys(s.word(pool, 0.8) for _ in range(2 + s.below(3))))
    value = ", ".join(items[:-1]) + " and " + items[-1] if len(items) > 1 else items[0]
    return Fact(
        ("list", name),
        "list",
        value,
        S.LIST_ANSWER,
        _split(S.LIST_TELL),
        _split(S.LIST_ASK),
        (),
        (),
        (),
        {},
        {},
        {"np": name},
    )


def not_told(fact: Fact) -> str:
    """The answer to a question for a fact that was never told."""
    if fact.kind == "event":
        return F.NOT_TOLD
    if "t" in fact.extra:
        text = S.MISSING_THINGS[fact.key[0]]
    else:
        text = "" if fact.extra else S.MISSING_SLOTS.get(fact.key[-1], "")
    text = text or fact.answer.split("{v}")[0] + S.MISSING_VALUE
    return capital(article(text.format_map({**fact.reply, **fact.extra}))) + "."
