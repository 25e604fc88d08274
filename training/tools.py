"""Random tools, requests for them in words, the calls that follow and results with their one canonical answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from training import words as W
from training.phrases import frames as P
from training.phrases import grammar as G
from training.phrases import tool_texts as T
from training.phrases.held_out import allowed, is_kept_way
from training.source import Source
from training.world import article, capital

Json = Any  # what json.dumps takes


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a tool."""

    name: str
    kind: str
    description: str
    ways: tuple[str, ...]
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """One declared function and how a user names its deed."""

    name: str
    deed: str
    noun: str
    params: tuple[Param, ...]
    required: int
    schema: dict[str, Json]
    parts: tuple[tuple[str, str, str], str]  # verb in its three forms, and what it is done to


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the chat template wants it, and what the user would say to get it (a deed with its arguments)."""

    name: str
    arguments: dict[str, Json]
    deed: str
    asked: str
    label: str


_TYPES = {
    "int": "integer",
    "number": "number",
    "bool": "boolean",
    "names": "array",
    "words": "array",
    "numbers": "array",
}
_ASKABLE = frozenset(
    (
        "get",
        "find",
        "check",
        "show",
        "look_up",
        "lookup",
        "fetch",
        "calculate",
        "query",
        "read",
        "search",
        "list",
        "measure",
    )
)
_GROUPS = {
    "int": "amount",
    "number": "amount",
    "phrase": "text",
    "oneword": "text",
    "title": "text",
    "colour": "text",
    "time": "when",
    "date": "when",
    "weekday": "when",
    "symbol": "code",
    "names": "name",
    "words": "text",
    "numbers": "amount",
}
_TAILS = ("code", "id", "name", "number", "time", "date", "type", "list", "text", "count", "key", "limit")
_SIZES = ("small", "medium", "large", "tiny", "huge")
_UNITS = ("celsius", "fahrenheit", "km", "miles", "kilos", "pounds", "metres", "metric", "imperial")


def _schema(name: str, description: str, params: tuple[Param, ...], required: int) -> dict[str, Json]:
    properties: dict[str, Json] = {}
    for p in params:
        entry: dict[str, Json] = {"type": _TYPES.get(p.kind, "string")}
        if entry["type"] == "array":
            entry["items"] = {"type": "number" if p.kind == "numbers" else "string"}
        if p.choices:
            entry["enum"] = list(p.choices)
        if p.description:
            entry["description"] = p.description
        properties[p.name] = entry
    body: dict[str, Json] = {"name": name}
    if description:
        body["description"] = description
    body["parameters"] = {"type": "object", "properties": properties}
    if required:
        body["parameters"]["required"] = [p.name for p in params[:required]]
    return {"type": "function", "function": body}


def _odd_param(s: Source) -> tuple[str, str, tuple[str, ...]]:
    """Name, description and ways to say a parameter nobody foresaw."""
    name = s.word(W.COMMON if s.chance(0.5) else W.OBJECTS, 0.5)
    if s.chance(0.35):
        name += " " + (s.pick(_TAILS) if s.chance(0.6) else s.word(W.COMMON, 0.5))
    description = s.pick(("", f"The {name}", capital(name), f"Which {name}", f"{capital(name)} to use"))
    return name.replace(" ", "_"), description, tuple(way.replace("{p}", name) for way in T.ODD_WAYS)


def _words(s: Source) -> tuple[tuple[str, str, str], str]:
    """A verb (in a name, in a description, as said) and a noun."""
    h = s.held_out
    verb, told, said = s.pick(T.VERBS_HELD_OUT if h else T.VERBS)
    noun = s.pick(T.NOUNS_HELD_OUT if h else T.NOUNS)
    if not h and s.chance(0.5):
        noun = s.word(W.OBJECTS if s.chance(0.5) else W.COMMON, 0.5)
        if s.chance(0.25):
            noun += " " + s.word(W.COMMON, 0.5)
    if not h and s.chance(0.4):
        verb = said = s.word(W.COMMON, 0.5)
        told = capital(verb)
    return (verb, told, said), noun


def make_tool(s: Source, near: Tool | None = None) -> Tool:
    """A tool with 0 to 3 parameters; its name and its words fit each other. `near` lends its verb or its noun."""
    h = s.held_out
    parts = _words(s)
    if near:
        parts = (near.parts[0], parts[1]) if s.chance(0.5) else (parts[0], near.parts[1])
    (verb, told, said), noun = parts
    pool = T.PARAMS_HELD_OUT if h else T.PARAMS
    params: dict[str, Param] = {}
    for _ in range(s.pick((0, 1, 1, 1, 2, 2, 2, 3))):
        name, kind, description, ways = s.pick(pool)
        if not h and s.chance(0.5):
            name, description, ways = _odd_param(s)
        choices: tuple[str, ...] = ()
        if kind in ("unit", "size", "colour") and s.chance(0.5):
            lists = {"unit": _UNITS, "size": _SIZES, "colour": W.COLOURS}
            choices = tuple(dict.fromkeys(s.pick(lists[kind]) for _ in range(3)))
        params[name] = Param(name, kind, "" if s.chance(0.15) else description, ways, choices)
    found = tuple(params.values())
    required = len(found) if s.chance(0.6) else s.below(len(found) + 1)
    style = s.random()
    snake = f"{verb}_{noun}".replace(" ", "_")
    name = snake if style < 0.75 else snake.split("_")[0] + "".join(w.capitalize() for w in snake.split("_")[1:])
    if style > 0.92 and not h:
        name = noun.replace(" ", "_") + "_" + verb
    article_word = s.pick(("the ", "a ", "a "))
    description = "" if s.chance(0.05) else article(f"{told} {article_word}{noun}") + s.pick((".", "."))
    deed = article(f"{said} {s.pick(('the ', 'a ', article_word))}{noun}")
    noun = noun if verb in _ASKABLE else ""
    return Tool(name, deed, noun, found, required, _schema(name, description, found, required), parts)


def _phrase(s: Source) -> str:
    if s.held_out:
        return " ".join(s.invented(False) for _ in range(2 + s.below(2)))
    return s.pick(
        (
            lambda: " ".join(s.word(W.COMMON, 0.8) for _ in range(1 + s.below(4))),
            lambda: s.pick(
                (
                    "I will be late",
                    "call me back",
                    "see you at {t}",
                    "happy birthday {n}",
                    "dinner is ready",
                    "hello {n}",
                    "the {o} is here",
                    "meet me in {p}",
                    "do not forget the {o}",
                    "buy {f}",
                    "I am in {p}",
                    "where are you",
                    "good morning {n}",
                    "see you soon",
                    "bring the {o}",
                    "{f} and {f}",
                )
            ).format(t=s.time(), n=s.name(), o=s.pick(W.OBJECTS), p=s.place(), f=s.pick(W.FOODS)),
        )
    )()


def listed(values: list[str]) -> str:
    return values[0] if len(values) == 1 else ", ".join(values[:-1]) + " and " + values[-1]


def _value(s: Source, p: Param) -> tuple[Json, str]:
    """(JSON value, how the user writes it)."""
    if p.choices:
        v = s.pick(p.choices)
        return v, v
    simple = {
        "place": s.place,
        "name": s.name,
        "title": s.title,
        "code": s.code,
        "date": s.date,
        "time": s.time,
        "phrase": lambda: _phrase(s),
        "oneword": lambda: s.word(W.COMMON + W.FOODS + W.OBJECTS, 0.7),
        "symbol": lambda: "".join(s.pick("ABCDEFGHKLMNPRSTUVXZ") for _ in range(2 + s.below(3))),
        "weekday": lambda: s.pick(W.DAYS),
        "colour": lambda: s.word(W.COLOURS, 0.8),
        "size": lambda: s.pick(_SIZES),
        "unit": lambda: s.pick(_UNITS),
        "language": lambda: s.pick(W.LANGUAGES),
    }
    if p.kind in simple:
        text = s.cased(simple[p.kind]())
        return text, text
    if p.kind == "int":
        n = s.number(1, 12) if s.chance(0.4) else s.number(1, 500)
        return n, str(n)
    if p.kind == "number":
        n = s.number(1, 1000)
        if s.chance(0.3):
            x = float(f"{n}.{s.number(1, 9)}")
            return x, str(x)
        return n, str(n)
    if p.kind == "bool":
        flag = s.chance(0.5)
        return flag, "true" if flag else "false"
    if p.kind == "numbers":
        many = [s.number(1, 200) for _ in range(2 + s.below(3))]
        return many, listed([str(n) for n in many])
    texts = [s.name() if p.kind == "names" else s.word(W.OBJECTS + W.FOODS, 0.7) for _ in range(1 + s.below(3))]
    return texts, listed(texts)


def _group(p: Param) -> str:
    return _GROUPS.get(p.kind, p.kind)


def _way(s: Source, p: Param, clash: bool) -> str:
    """How the user says one argument. Parameters of like kind in one tool are told apart by name."""
    shown = p.name.replace("_", " ")
    if p.kind == "bool":
        return s.pick((f"and {shown} is {{v}}", f"with {shown} = {{v}}", f"{shown}: {{v}}", f"with {shown} {{v}}"))
    if s.held_out:
        return s.pick(T.EXPLICIT_HELD_OUT).replace("{p}", shown) if s.chance(0.25) else s.pick(p.ways)
    if not clash and s.chance(0.6):
        return s.pick(p.ways)
    way = s.pick(T.EXPLICIT if s.chance(0.4) else P.EXPLICIT_MORE)
    while is_kept_way(way) or s.chance(0.5):
        way = s.expand(s.pick(G.EXPLICIT))
    return way.replace("{p}", shown)


def make_call(s: Source, tool: Tool, leave_out: str = "") -> Call:
    """A call with right arguments and the words that ask for it; optional parameters may be left out."""
    groups = [_group(p) for p in tool.params]
    arguments: dict[str, Json] = {}
    said: list[str] = []
    label = ""
    for i, p in enumerate(tool.params):
        if p.name == leave_out or (i >= tool.required and s.chance(0.35)):
            continue
        value, text = _value(s, p)
        arguments[p.name] = value
        label = label or text
        way = _way(s, p, groups.count(_group(p)) > 1)
        if not s.held_out and s.chance(0.12):
            way = s.word(W.COMMON, 0.8) + " " + way
        said.append(way.replace("{v}", text))
    if len(said) > 1 and s.chance(0.3):
        said.reverse()
    parts = said[:1] + [
        (" and " if s.chance(0.3) and not w.startswith("and ") else " " if s.chance(0.7) else ", ") + w
        for w in said[1:]
    ]
    tail = (" " if parts else "") + "".join(parts)
    return Call(tool.name, arguments, tool.deed + tail, tool.noun + tail if tool.noun else "", label)


def request(s: Source, call: Call) -> str:
    """The user's sentence that asks for a call."""
    if call.asked and not s.held_out and s.chance(0.45):
        return s.pick(T.ASKED).replace("{what}", call.asked)
    return plain_request(s, call)


def plain_request(s: Source, call: Call) -> str:
    """A request that names the deed."""
    if s.held_out:
        return s.pick(T.REQUEST.held_out).replace("{do}", call.deed)
    return allowed(lambda: _request(s, call.deed))


def _request(s: Source, deed: str) -> str:
    r = s.random()
    if r < 0.3:
        return s.pick(T.REQUEST.train).replace("{do}", deed)
    text = (s.expand(s.pick(G.REQUEST)) if r < 0.65 else s.pick(P.REQUEST_MORE)).replace("{do}", deed)
    r = s.random()
    if r < 0.12:
        return s.pick(P.LEADS) + " " + text
    if r < 0.18:
        return " ".join(s.word(W.COMMON, 0.8) for _ in range(1 + s.below(2))) + s.pick((", ", ": ", " ")) + text
    return text
