"""The tools of the agent scene: one drawn by the seed, with its request, its result and what must be answered."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from demo.words import invent


@dataclass(frozen=True, slots=True)
class Errand:
    """One tool call as a story: who asks what, what must be called, what comes back, what must be said."""

    tools: list[dict[str, Any]]
    request: str
    name: str
    arguments: dict[str, Any]
    result: dict[str, Any]
    must_say: str


def declare(name: str, about: str, /, **parameters: str) -> dict[str, Any]:
    """A function tool whose parameters are all required; `parameters` gives their JSON types."""
    properties = {key: {"type": kind, "description": f"The {key}"} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}


def _weather(source: random.Random) -> Errand:
    city, degrees = invent(source), source.randint(3, 38)
    return Errand(
        [
            declare("get_weather", "Get the weather.", city="string"),
            declare("play_song", "Play a song.", title="string"),
        ],
        f"Please get the weather in {city}.",
        "get_weather",
        {"city": city},
        {"temperature": degrees},
        str(degrees),
    )


def _parcel(source: random.Random) -> Errand:
    number, place = str(source.randint(1000, 9999)), invent(source)
    return Errand(
        [declare("find_parcel", "Find a parcel.", id="string"), declare("set_alarm", "Set an alarm.", time="string")],
        f"Please find the parcel with the id {number}.",
        "find_parcel",
        {"id": number},
        {"location": place},
        place,
    )


def _balance(source: random.Random) -> Errand:
    name, amount = invent(source), source.randint(100, 999)
    return Errand(
        [declare("check_balance", "Check the balance.", user="string"), declare("open_door", "Open a door.")],
        f"Please check the balance for the user {name}.",
        "check_balance",
        {"user": name},
        {"balance": amount},
        str(amount),
    )


def _table(source: random.Random) -> Errand:
    name, people, code = invent(source), source.randint(2, 9), str(source.randint(100, 999))
    return Errand(
        [declare("book_table", "Book a table.", name="string", people="integer")],
        f"Please book a table for {people} people with the name {name}.",
        "book_table",
        {"name": name, "people": people},
        {"code": code},
        code,
    )


_ERRANDS: tuple[Callable[[random.Random], Errand], ...] = (_weather, _parcel, _balance, _table)


def draw_errand(seed: int) -> Errand:
    """The errand of one run: another seed draws another tool, other names and numbers."""
    source = random.Random(f"errand {seed}")
    return source.choice(_ERRANDS)(source)
