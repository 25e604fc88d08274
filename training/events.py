"""Happenings: somebody did something to something, somewhere, some time. Told once, asked in parts."""

from __future__ import annotations

from training import words as W
from training.source import Source
from training.world import Fact, Forms

_VERBS = tuple(
    pair.split("/")
    for pair in [
        "bought/buy",
        "sold/sell",
        "found/find",
        "lost/lose",
        "saw/see",
        "painted/paint",
        "fixed/fix",
        "broke/break",
        "borrowed/borrow",
        "built/build",
        "cleaned/clean",
        "washed/wash",
        "carried/carry",
        "forgot/forget",
        "ordered/order",
        "made/make",
        "stole/steal",
        "won/win",
        "dropped/drop",
        "packed/pack",
        "sent/send",
        "brought/bring",
        "took/take",
        "got/get",
        "picked/pick",
        "repaired/repair",
        "rented/rent",
        "wanted/want",
        "used/use",
        "kept/keep",
        "chose/choose",
        "opened/open",
        "closed/close",
        "moved/move",
        "burned/burn",
        "collected/collect",
        "returned/return",
        "hid/hide",
        "drew/draw",
        "noticed/notice",
    ]
)
_EATEN = tuple(
    pair.split("/")
    for pair in [
        "ate/eat",
        "cooked/cook",
        "tasted/taste",
        "baked/bake",
        "ordered/order",
        "liked/like",
        "served/serve",
        "shared/share",
    ]
)
_MET = tuple(
    pair.split("/")
    for pair in [
        "met/meet",
        "called/call",
        "visited/visit",
        "helped/help",
        "saw/see",
        "invited/invite",
        "thanked/thank",
        "followed/follow",
    ]
)
_TIMES = (
    "yesterday",
    "today",
    "last week",
    "this morning",
    "last night",
    "on {day}",
    "last {day}",
    "in {month}",
    "at noon",
    "last year",
    "two days ago",
)
_SPOTS = (
    "market",
    "station",
    "school",
    "park",
    "beach",
    "office",
    "harbour",
    "library",
    "museum",
    "old bridge",
    "river",
    "shop",
    "airport",
    "zoo",
)
_WHAT = (
    "what did {I} {base}?",
    "do you know what {I} {past}?",
    "tell me what {I} {past}.",
    "what was it that {I} {past}?",
    "what did I say {I} {past}?",
    "do you remember what {I} {past}?",
    "which thing did {I} {base}?",
)
_WHOM = (
    "who did {I} {base}?",
    "whom did {I} {base}?",
    "do you know who {I} {past}?",
    "tell me who {I} {past}.",
    "do you remember who {I} {past}?",
)
_WHO = (
    "who {past} the {noun}?",
    "do you know who {past} the {noun}?",
    "tell me who {past} the {noun}.",
    "who was it that {past} the {noun}?",
)
_WHO_MET = ("who {past} {noun}?", "do you know who {past} {noun}?", "tell me who {past} {noun}.")
_WHERE = (
    "where did {I} {base} {the}{noun}?",
    "do you know where {I} {past} {the}{noun}?",
    "at which place did {I} {base} {the}{noun}?",
    "tell me where {I} {past} {the}{noun}.",
)
_MATE = (
    "who did {I} {base} {the}{noun} with?",
    "with whom did {I} {base} {the}{noun}?",
    "who was with {me} when {I} {past} {the}{noun}?",
)
_WHEN = (
    "when did {I} {base} {the}{noun}?",
    "do you know when {I} {past} {the}{noun}?",
    "tell me when {I} {past} {the}{noun}.",
)


def _object(s: Source) -> tuple[str, list[str], str, str]:
    """(object as told, verb pair, noun for questions, its article in questions)."""
    r = s.random()
    if r < 0.2:
        name = s.name()
        return name, s.pick(_MET), name, ""
    if r < 0.4:
        food = s.word(W.FOODS, 0.75)
        return s.pick(("", "some ")) + food, s.pick(_EATEN), food, "the "
    noun = s.word(W.OBJECTS, 0.8)
    adjective = (s.pick(W.COLOURS) if s.chance(0.5) else s.pick(W.ADJECTIVES)) + " " if s.chance(0.5) else ""
    return s.pick(("a ", "a ", "the ", "my ")) + adjective + noun, s.pick(_VERBS), noun, "the "


def event_fact(s: Source, subject: tuple[str, Forms, Forms]) -> Fact:
    """One happening; the answer to any question about it repeats the sentence from the listener's side."""
    told, (past, base), noun, the = _object(s)
    place = (f" in {s.place()}" if s.chance(0.5) else f" at the {s.pick(_SPOTS)}") if s.chance(0.5) else ""
    when = (
        " " + s.pick(_TIMES).format(day=s.cased(s.pick(W.DAYS)), month=s.cased(s.pick(W.MONTHS)))
        if s.chance(0.4)
        else ""
    )
    mate = s.name() if s.chance(0.2) else ""
    tail = (f" with {mate}" if mate else "") + place + when
    asks = list(_WHOM if not the else _WHAT) * 2 + list(_WHO if the else _WHO_MET) * 2
    asks += list(_WHERE) * 3 if place else []
    asks += list(_WHEN) * 3 if when else []
    asks += list(_MATE) * 3 if mate else []
    mine = told.replace("my ", "your ", 1) if told.startswith("my ") else told
    tell = (f"{{I}} {past} {told}{tail}.",)
    extra = {"past": past, "base": base, "noun": noun, "the": the}
    answer = f"{{I}} {past} {mine}{tail}"
    return Fact(
        ("event", subject[0], past), "event", mine, answer, tell, tuple(asks), (), (), (), subject[1], subject[2], extra
    )
