"""What tools answer: records, lists, sentences, bare values, errors, each with the one sentence that reports it."""

from __future__ import annotations

import json
from typing import Any

from training import words as W
from training.phrases import tool_texts as T
from training.source import Source
from training.tools import listed
from training.world import capital

Json = Any  # what json.dumps takes
_SENT = ("Done.", "ok", "Saved.", "Sent.", "success", "It worked.", "The order is placed.", "Booked.", "All set.")
_ERRORS = tuple(T.ERRORS.split("|"))
_LISTS = ("items", "names", "results", "titles", "list", "matches", "options", "entries", "rooms", "people")
_SAID = ("is", "was", "has", "takes", "needs", "shows", "costs", "gave", "will be", "can do", "holds")


def make_result(s: Source) -> tuple[str, str]:
    """(result as a tool would write it, the canonical answer)."""
    r = s.random()
    if r < 0.1:
        return _error(s)
    if r < 0.2:
        text = _sentence(s)
        return text + s.pick((".", "")), f"The tool says: {text}."
    if r < 0.26:
        value: Json = s.number(1, 9999) if s.chance(0.6) else s.place()
        return _dumped(s, value), f"The result is {value}."
    if r < 0.34:
        return _list(s)
    if r < 0.40 and not s.held_out:
        wrap = s.pick(({"status": "ok"}, {"ok": True}, {"success": True}, {"status": "success"}, {"result": "ok"}))
        return json.dumps(wrap), "Done."
    return _record(s)


def _dumped(s: Source, value: Json) -> str:
    """As most tools write JSON; in training sometimes without spaces or over several lines."""
    r = 1.0 if s.held_out else s.random()
    if r < 0.12:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(value, ensure_ascii=False, indent=2 if r < 0.18 else None)


def _error(s: Source) -> tuple[str, str]:
    if s.held_out:
        error = s.invented(False) + " " + s.invented(False)
    elif s.chance(0.4):
        error = s.pick(_ERRORS)
    else:
        error = " ".join(s.word(W.COMMON, 0.5) for _ in range(1 + s.below(4)))
    wrap = s.pick(
        (
            {"error": error},
            {"status": "error", "error": error},
            {"error": error, "code": s.number(400, 599)},
            "error: " + error,
            "Error: " + error,
        )
    )
    return (wrap if isinstance(wrap, str) else json.dumps(wrap)), f"That did not work: {error}."


def _sentence(s: Source) -> str:
    if s.held_out:
        return f"{s.invented()} {s.pick(('is', 'was', 'has', 'takes'))} {s.number(2, 900)} {s.invented(False)}"
    r = s.random()
    if r < 0.25:
        return s.pick(_SENT).rstrip(".")
    if r < 0.6:
        return f"{s.name()} {s.pick(_SAID)} {s.number(2, 900)} {s.word(W.COMMON, 0.4)}"
    said = [s.pick((s.name, s.place, s.code, lambda: s.word(W.COMMON, 0.6)))() for _ in range(2 + s.below(4))]
    return " ".join(said)


def _key(s: Source) -> str:
    if s.held_out:
        return s.invented(False)
    key = s.word(W.RESULT_KEYS if s.chance(0.75) else W.COMMON, 0.6)
    if s.chance(0.2):
        key += "_" + s.word(W.RESULT_KEYS, 0.8)
    return key.replace(" ", "_")


def _list(s: Source) -> tuple[str, str]:
    items = [s.name() if s.chance(0.5) else s.title() for _ in range(1 + s.below(3))]
    key = s.pick(_LISTS) if not s.held_out and s.chance(0.4) else _key(s)
    verb = "are" if len(items) > 1 else "is"
    return _dumped(s, {key: items}), f"The {key.replace('_', ' ')} {verb} {listed(items)}."


def _value(s: Source) -> Json:
    r = s.random()
    if r < 0.35:
        return s.number(0, 9999 if s.chance(0.3) else 100)
    if r < 0.42:
        return float(f"{s.number(0, 300)}.{s.number(1, 9)}")
    if r < 0.5:
        return s.chance(0.5)
    if r < 0.65:
        return s.invented(False) if s.held_out else s.word(W.RESULT_WORDS, 0.7)
    return s.pick((s.name, s.place, s.code, s.time, s.date, s.title))()


def _record(s: Source) -> tuple[str, str]:
    record: dict[str, Json] = {}
    for _ in range(s.pick((1, 1, 2, 2, 3)) + (not s.held_out and s.chance(0.1))):
        record.setdefault(_key(s), _value(s))
    said = []
    for key, value in record.items():
        shown = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
        said.append(f"the {key.replace('_', ' ')} is {shown}")
    return _dumped(s, record), capital(listed(said)) + "."
