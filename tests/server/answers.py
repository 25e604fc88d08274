"""Runs one scripted text through the real server at every split, streaming and not, and gives the one answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .clients import Api, fold_chat
from .scripted import Script, ScriptedEngine, all_splits
from .simulated import Speaker


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer without ids and times. `calls`: name and parsed arguments."""

    content: str
    reasoning: str | None
    calls: tuple[tuple[str, str], ...]
    finish: str

    def arguments(self, index: int = 0) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.calls[index][1])
        return parsed


def declare(name: str, *parameters: str, **types: str) -> dict[str, Any]:
    """A tool with string parameters, or of the types given."""
    properties = {**{key: {"type": "string"} for key in parameters}, **{k: {"type": v} for k, v in types.items()}}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": "A tool.", "parameters": schema}}


def write_call(name: str, **parameters: str) -> str:
    """A call as the model writes it."""
    body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters.items())
    return f"<tool_call>\n<function={name}>\n{body}</function>\n</tool_call>"


def see_script(api: Api, engine: Speaker, script: Script, **fields: Any) -> Seen:
    """One way of cutting: stream and body must agree."""
    engine.script = script
    folded = fold_chat(api.stream(**fields))
    (choice,) = api.ask(**fields)["choices"]
    seen = [_read(choice), _read(folded)]
    assert seen[0] == seen[1], "the stream differs from the body"
    return seen[0]


def see_all(api: Api, engine: Speaker, text: str, **fields: Any) -> Seen:
    """Every way of cutting; all must agree."""
    answers = {see_script(api, engine, script, **fields) for script in speaker_splits(engine, text)}
    assert len(answers) == 1, f"the split changes the answer: {answers}"
    return answers.pop()


def speaker_splits(engine: Speaker, text: str) -> list[Script]:
    """Every split; the simulated device, which is slower, gets every seventh."""
    return all_splits(text, 1 if isinstance(engine, ScriptedEngine) else 7)


def _read(choice: dict[str, Any]) -> Seen:
    message = choice["message"]
    calls = message.get("tool_calls", [])
    ids = [call["id"] for call in calls]
    assert len(set(ids)) == len(ids), "ids are unique (TOOL-08)"
    assert all(call["type"] == "function" for call in calls)
    functions = tuple((call["function"]["name"], call["function"]["arguments"]) for call in calls)
    return Seen(message["content"], message.get("reasoning_content"), functions, choice["finish_reason"])
