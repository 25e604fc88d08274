"""What a written tool call means: parameter text to JSON arguments, by the tool's schema.

Also the tolerant reading of a call whose tags are not where the template puts them (TOOL-02). Knows no streaming.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ninfer.frontend.escape import replace_surrogates
from ninfer.frontend.messages import ToolSpec

CALL_OPEN = "<tool_call>"
CALL_CLOSE = "</tool_call>"
FUNCTION_OPEN = "<function="
FUNCTION_CLOSE = "</function>"
PARAMETER_OPEN = "<parameter="
PARAMETER_CLOSE = "</parameter>"

HEAD = re.compile(r"(?:<tool_call>\s{0,64}){1,8}<function=([^>\n]{1,256})>")
"""How a call begins; a repeated opener counts as one. Bounded, so that a beginning is judged in constant time."""

_TAG = re.compile(
    r"<tool_call>|</tool_call>|<function=[^>\n]{1,256}>|</function>|<parameter=[^>\n]{1,256}>|</parameter>"
)
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}
_MAX_REFERENCES = 16


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call as text: name, and parameters in the order written."""

    name: str
    parameters: tuple[tuple[str, str], ...]


def call_arguments(tool: ToolSpec, written: WrittenCall) -> str | None:
    """JSON text of the arguments, "{}" when there are none (TOOL-05). None: a parameter is given twice."""
    properties = tool.parameters.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    arguments: dict[str, object] = {}
    for key, text in written.parameters:
        if key in arguments:
            return None
        arguments[key] = _value(text, known[key], tool.parameters) if key in known else text
    return replace_surrogates(json.dumps(arguments, ensure_ascii=False))


def read_tolerantly(text: str, tools: Mapping[str, ToolSpec]) -> tuple[list[WrittenCall], str] | None:
    """Calls at the front of a finished output, and the plain text behind them.

    Tags may share lines; a value may miss its closing tag before `</function>`, or before a parameter that the tool
    requires and that would otherwise be missing; the last `</tool_call>` may be missing. No value may contain a tag:
    then it would be a guess where it ends, and the answer is None.
    """
    calls: list[WrittenCall] = []
    position = 0
    while True:
        head = HEAD.match(text, position)
        if head is None or head.group(1).strip() not in tools:
            break
        found = _read_body(text, head.end(), tools[head.group(1).strip()])
        if found is None:
            return None
        call, position = found
        calls.append(call)
        behind = len(text) - len(text[position:].lstrip())
        if not text.startswith(CALL_OPEN, behind):
            break
        position = behind
    return None if not calls or _TAG.search(text, position) else (calls, text[position:])


def _read_body(text: str, position: int, tool: ToolSpec) -> tuple[WrittenCall, int] | None:
    """One call from behind its head; returns it and where it ends."""
    parameters: list[tuple[str, str]] = []
    tag = _next_tag(text, position)
    while tag is not None and not text[position : tag.start()].strip():
        word, position = tag.group(), tag.end()
        if word == FUNCTION_CLOSE:
            return _close_call(text, position, WrittenCall(tool.name, tuple(parameters)))
        if not word.startswith(PARAMETER_OPEN):
            return None
        key, tag = word[len(PARAMETER_OPEN) : -1].strip(), _next_tag(text, position)
        if tag is None:
            return None
        parameters.append((key, _trim_lines(text[position : tag.start()])))
        if tag.group() == PARAMETER_CLOSE:
            position = tag.end()
            tag = _next_tag(text, position)
        elif tag.group() == FUNCTION_CLOSE or _must_follow(tag.group(), tool, text[tag.end() :]):
            position = tag.start()
        else:
            return None
    return None


def _close_call(text: str, position: int, call: WrittenCall) -> tuple[WrittenCall, int] | None:
    rest = text[position:].lstrip()
    behind = len(text) - len(rest)
    if rest.startswith(CALL_CLOSE):
        return call, behind + len(CALL_CLOSE)
    return (call, behind) if not rest or rest.startswith(CALL_OPEN) else None


def _must_follow(word: str, tool: ToolSpec, rest: str) -> bool:
    """Whether this tag opens a parameter that the tool requires and that is not opened again later."""
    required = tool.parameters.get("required")
    key = word[len(PARAMETER_OPEN) : -1].strip() if word.startswith(PARAMETER_OPEN) else ""
    return isinstance(required, Sequence) and key in required and word not in rest.partition(CALL_CLOSE)[0]


def _next_tag(text: str, position: int) -> re.Match[str] | None:
    return _TAG.search(text, position)


def _trim_lines(value: str) -> str:
    return value.removeprefix("\n").removesuffix("\n")


def _value(text: str, schema: object, root: Mapping[str, object]) -> object:
    """A string where the schema says string; otherwise JSON of a type the schema allows; otherwise a string."""
    types = _list_types(schema, root, _MAX_REFERENCES)
    if types == {"string"}:
        return text
    body = text.strip()
    body = _PYTHON_WORDS.get(body, body)
    try:
        value: object = json.loads(body)
        json.dumps([[value]], allow_nan=False)  # no NaN, no infinity; one level deeper than the arguments will be
    except (ValueError, RecursionError):
        return text
    kinds = _json_types(value)
    if types is None:
        return text if isinstance(value, str) else value
    return value if not kinds.isdisjoint(types - {"string"}) else text


def _json_types(value: object) -> frozenset[str]:
    match value:
        case None:
            return frozenset({"null"})
        case bool():
            return frozenset({"boolean"})
        case int():
            return frozenset({"integer", "number"})
        case float():
            return frozenset({"integer", "number"} if value.is_integer() else {"number"})
        case str():
            return frozenset({"string"})
        case list():
            return frozenset({"array"})
        case _:
            return frozenset({"object"})


def _list_types(schema: object, root: Mapping[str, object], references: int) -> set[str] | None:
    """JSON types a schema allows; None: it does not say."""
    if not isinstance(schema, Mapping) or not references:
        return None
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return {item for item in kind if isinstance(item, str)}
    if "$ref" in schema:
        return _list_types(_find_reference(str(schema["$ref"]), root), root, references - 1)
    if isinstance(schema.get("enum"), list):
        return _union(_json_types(item) for item in schema["enum"])
    if "const" in schema:
        return set(_json_types(schema["const"]))
    for word in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(word)
        if isinstance(branches, list) and branches:
            found = [_list_types(branch, root, references - 1) for branch in branches]
            told = [types for types in found if types is not None]
            return _union(told) if len(told) == len(found) or (told and word == "allOf") else None
    return None


def _union(sets: Iterable[Iterable[str]]) -> set[str]:
    return {item for types in sets for item in types}


def _find_reference(reference: str, root: Mapping[str, object]) -> object:
    """The schema that a local `#/...` reference names; None when there is none."""
    found: object = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if reference.startswith("#/") else None
