"""What belongs to the evaluation alone, gathered, and the check that a training text contains none of its phrasings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from training.phrases import facts as F
from training.phrases import slots as S
from training.phrases import smalltalk as T
from training.phrases import tool_texts as TT

# noun phrase -> value kind
NOUNS: tuple[tuple[str, str], ...] = tuple(
    (noun, kind)
    for nouns, kind in (
        ("favourite herb|favourite liqueur|usual sandwich", "word"),
        ("garage code|voucher code|vault code|membership number|tracking number", "code"),
        ("favourite village|ski town", "place"),
        ("zither teacher|vet|fencing partner|sabre coach", "name"),
        ("choir|favourite opera", "title"),
        ("cabin number|lane number|favourite digit", "number"),
        ("check-in time|tea time", "time"),
    )
    for noun in nouns.split("|")
)
KIN = ("stepsister", "godfather", "janitor", "rooster", "pet crab", "butler")
_SHARED = frozenset("favourite usual code number town teacher partner coach time pet tea check in".split())  # noqa: SIM905
WORDS = (
    frozenset(
        word
        for text in (
            *(noun for noun, _ in NOUNS),
            *KIN,
            *TT.NOUNS_HELD_OUT,
            *(verb for verb, _, _ in TT.VERBS_HELD_OUT),
            *(p[0].replace("_", " ") for p in TT.PARAMS_HELD_OUT),
        )
        for word in re.split(r"[ -]", text)
    )
    - _SHARED
)


def sentences() -> tuple[str, ...]:
    """Every phrasing kept for the evaluation, with its markers."""
    return (
        *F.NOUN_TELL.held_out,
        *F.NOUN_ASK.held_out,
        *F.NOUN_CHECK.held_out,
        *F.NOUN_CHANGE.held_out,
        *S.KIN_TELL_HELD_OUT.split("|"),
        *S.KIN_ASK_HELD_OUT.split("|"),
        *(text for pair in S.SLOT_HELD_OUT.values() for part in pair for text in part.split("|")),
        *TT.REQUEST.held_out,
        *T.NAME_ASK_HELD_OUT.split("|"),
        *T.PERSONA_HELD_OUT.split("|"),
        *T.REMARKS_HELD_OUT.split("|"),
    )


_ENDING = "\u00a7"  # stands for the ending of a verb


def _patterns(texts: Iterable[str]) -> list[re.Pattern[str]]:
    """Any of the phrasings, any words of one clause for its markers; what precedes the first fixed word is free."""
    parts = set()
    for text in texts:
        runs = re.split(r"\{\w+\}", text.lower().rstrip(".?").replace("{s}", _ENDING))
        fixed = [re.escape(run.strip(" ")).replace(_ENDING, r"\w*") for run in runs]
        whole = r"\s[^.,;!?]{1,60}?".join(run for run in fixed if run)
        parts.add(whole + r"(?!\w)" if re.search(r"\w$", whole) else whole)  # "aged" is not in "agedo"
    words = sorted(part for part in parts if part[0].isalnum())
    others = sorted(parts.difference(words))
    return [re.compile(r"(?<!\w)(?:" + "|".join(words) + ")"), *map(re.compile, others)]  # alike heads are found fast


_ANY = _patterns(sentences())
_WAYS = frozenset(TT.EXPLICIT_HELD_OUT)


def is_kept(text: str) -> bool:
    """Whether a text contains a phrasing of the evaluation."""
    text = text.lower()
    return any(pattern.search(text) for pattern in _ANY)


class Unwritable(Exception):
    """Every phrasing of a thing is refused: it holds words of the evaluation itself (a made-up name "aged", say)."""


ATTEMPTS = 100  # so many refusals in a row say that another draw will not help


def allowed(make: Callable[[], str]) -> str:
    """What `make` writes, drawn again while it contains a phrasing of the evaluation; Unwritable if it always does."""
    for _ in range(ATTEMPTS):
        text = make()
        if not is_kept(text):
            return text
    raise Unwritable(text)


def is_kept_way(template: str) -> bool:
    """Whether the evaluation says tool arguments this way."""
    return template in _WAYS
