"""Texts of the recipes: filler of known length, messages, tools, and what a model writes to call them."""

from __future__ import annotations

import json
import random
from typing import Any

Message = dict[str, Any]

_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"


def filler(count: int, seed: int) -> str:
    """About `count` tokens of numbered lines, no two alike, the same at each call.

    In capital letters and digits, which this tokenizer never merges: a character is a token.
    """
    rng = random.Random(seed)
    lines: list[str] = []
    length = 0
    while length <= count:
        words = ("".join(rng.choices(_LETTERS, k=rng.randint(3, 7))) for _ in range(6))
        lines.append(f"{len(lines)}. {' '.join(words)}")
        length += len(lines[-1]) + 1
    return "\n".join(lines)[:count].rstrip()


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def result(call: Message, text: str) -> Message:
    """What a client sends back for one call of an answer."""
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


def tool(name: str, *parameters: str, words: int = 0) -> dict[str, Any]:
    """A declared tool with text parameters and a description of about `words` tokens."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": filler(words, sum(map(ord, name))) or name,
            "parameters": {
                "type": "object",
                "properties": {parameter: {"type": "string"} for parameter in parameters},
                "required": list(parameters),
            },
        },
    }


def call_text(name: str, **arguments: str) -> str:
    """A call as the template prints it."""
    values = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>"


def without_reasoning(message: Message) -> Message:
    """A client that drops the reasoning of earlier turns."""
    return {key: value for key, value in message.items() if key != "reasoning_content"}


def with_arguments(message: Message, change: Any) -> Message:
    """A client that prints the arguments of a call again in its own way; `change` maps one object to JSON text."""
    calls = [
        {**call, "function": {**call["function"], "arguments": change(json.loads(call["function"]["arguments"]))}}
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}
