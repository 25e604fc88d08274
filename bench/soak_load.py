"""What a soak asks and how: requests with one right answer each, asked by clients that may leave at any moment.

In float64 the answer of a request does not depend on what runs beside it, on reuse or on pauses. So it is asked once
alone, and every later answer, whole or cut short by its client, is compared with that.
"""

from __future__ import annotations

import json
import random
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from http.client import HTTPConnection, HTTPException, HTTPResponse
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

from demo.words import invent

HANG_S = 120.0
CHAT_PATH = "/v1/chat/completions"


class Manner(Enum):
    """What a client does with its answer."""

    READ = "reads"
    WHOLE = "takes it whole"
    LEAVE = "leaves amid the answer"
    LEAVE_AT_ONCE = "leaves at once"


class Ending(Enum):
    """What became of one request, as its client saw it."""

    RIGHT = "right"
    LEFT = "left by its client"
    REFUSED = "refused: queue full"
    WRONG = "wrong"
    HUNG = "hung"
    FAILED = "failed"


@dataclass(slots=True)
class Task:
    """A request and its one right answer: text, calls and finish, as one string."""

    body: dict[str, Any]
    answer: str = ""


@dataclass(slots=True)
class Visit:
    """One request of the load."""

    request_id: str
    manner: Manner
    ending: Ending = Ending.FAILED
    detail: str = ""
    seen: str = ""
    gaps_s: list[float] = field(default_factory=list)


TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def draw_bodies(seed: int, count: int) -> list[list[dict[str, Any]]]:
    """Conversations as lists of bodies; the messages of later turns lack the answers before them, see `learn`."""
    source = random.Random(seed)
    return [_draw_conversation(source, number) for number in range(count)]


def _draw_conversation(source: random.Random, number: int) -> list[dict[str, Any]]:
    name, town, pet = (invent(source) for _ in range(3))
    turns = [
        f"Hello! My name is {name}. I live in {town}. My dog is called {pet}.",
        "Where do I live?",
        "What is the name of my dog?",
    ][: source.randint(1, 3)]
    sampling: dict[str, Any] = {"temperature": 0} if number % 2 else {"temperature": 0.9, "top_p": 0.95}
    sampling |= {"seed": number, "max_tokens": source.choice((24, 60, 120)), "model": ""}
    if number % 3 == 0:
        sampling |= {"ignore_eos": True, "presence_penalty": 0.4}
    if number % 5 == 0:
        sampling["stop"] = [" dog", "zzz"]
    if number % 7 == 3:
        sampling["tools"] = [TOOL]
        turns.append(f"Please get the weather in {town}.")
    return [{**sampling, "messages": [{"role": "user", "content": text}]} for text in turns]


def learn(url: str, conversations: list[list[dict[str, Any]]]) -> list[Task]:
    """Ask everything once, alone, each turn behind the answers before it. Raises RuntimeError if one fails."""
    tasks = []
    for conversation in conversations:
        history: list[dict[str, Any]] = []
        for body in conversation:
            messages = [*history, *body["messages"]]
            task = Task({**body, "messages": messages})
            visit = call(url, task, Visit("learn", Manner.WHOLE), random.Random(0))
            if visit.ending in (Ending.FAILED, Ending.HUNG, Ending.REFUSED):
                raise RuntimeError(f"alone, a request {visit.ending.value}: {visit.detail}")
            task.answer = visit.seen
            tasks.append(task)
            history = [*messages, json.loads(visit.seen)["message"]]
    return tasks


def call(url: str, task: Task, visit: Visit, chance: random.Random) -> Visit:
    """Make one request in the visit's manner and judge what came."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=HANG_S)
    body = {**task.body, "stream": visit.manner is not Manner.WHOLE}
    headers = {"content-type": "application/json", "x-request-id": visit.request_id}
    try:
        connection.request("POST", CHAT_PATH, json.dumps(body), headers)
        if visit.manner is Manner.LEAVE_AT_ONCE:
            _leave(connection, chance)
            visit.ending = Ending.LEFT
            return visit
        response = connection.getresponse()
        if response.status != 200:
            _note_refusal(visit, response)
        elif visit.manner is Manner.WHOLE:
            visit.seen = _canonical(json.loads(response.read())["choices"][0])
            visit.ending = Ending.RIGHT if visit.seen == task.answer else Ending.WRONG
        else:
            _read_stream(connection, response, task, visit, chance)
    except TimeoutError:
        visit.ending, visit.detail = Ending.HUNG, f"nothing for {HANG_S:.0f} s"
    except (OSError, HTTPException, ValueError) as error:
        visit.detail = f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    return visit


def _read_stream(
    connection: HTTPConnection, response: HTTPResponse, task: Task, visit: Visit, chance: random.Random
) -> None:
    patience = chance.randrange(1, 30) if visit.manner is Manner.LEAVE else None
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: list[dict[str, Any]] = []
    finish, last = None, perf_counter()
    for pieces, event in enumerate(_list_events(response)):
        if "error" in event:
            visit.detail = str(event["error"])
            return
        visit.gaps_s.append(perf_counter() - last)
        last = perf_counter()
        for choice in event["choices"]:
            _fold(choice["delta"], message, calls)
            finish = choice["finish_reason"] or finish
        if patience is not None and pieces >= patience and finish is None:
            _leave(connection, chance)
            right = json.loads(task.answer)["message"]["content"].startswith(message["content"])
            visit.ending = Ending.LEFT if right else Ending.WRONG
            visit.seen = message["content"]
            return
    if finish is None:
        visit.detail = "the stream ended without a finish"
        return
    if calls:
        message["tool_calls"] = calls
    visit.seen = _canonical({"message": message, "finish_reason": finish})
    visit.ending = Ending.RIGHT if visit.seen == task.answer else Ending.WRONG


def _list_events(response: HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in response:
        if line.startswith(b"data: {"):
            yield json.loads(line[len(b"data: ") :])


def _fold(delta: dict[str, Any], message: dict[str, Any], calls: list[dict[str, Any]]) -> None:
    message["content"] += delta.get("content") or ""
    if delta.get("reasoning_content"):
        message["reasoning_content"] = message.get("reasoning_content", "") + delta["reasoning_content"]
    for piece in delta.get("tool_calls", ()):
        if piece["index"] == len(calls):
            calls.append({"type": "function", "function": {"name": piece["function"]["name"], "arguments": ""}})
        calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]


def _canonical(choice: dict[str, Any]) -> str:
    """What must be equal: ids of calls are drawn anew each time."""
    message = dict(choice["message"])
    message["tool_calls"] = [
        {"type": "function", "function": call["function"]} for call in message.get("tool_calls") or ()
    ]
    if not message["tool_calls"]:
        del message["tool_calls"]
    return json.dumps({"message": message, "finish": choice["finish_reason"]}, sort_keys=True)


def _note_refusal(visit: Visit, response: HTTPResponse) -> None:
    code = json.loads(response.read())["error"]["code"]
    visit.detail = f"{response.status} {code}"
    if response.status == 429 and int(response.headers["retry-after"]) >= 1:
        visit.ending = Ending.REFUSED


def _leave(connection: HTTPConnection, chance: random.Random) -> None:
    """With a goodbye, or with a reset."""
    if connection.sock is not None and chance.random() < 0.5:
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
