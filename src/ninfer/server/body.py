"""Request bodies: bounded in size and time, then JSON. Knows bytes; the fields are the protocols' business.

Limits (LIMIT-04): a Content-Length above the limit is refused before a byte is read, a body without length is counted
while it arrives, and a body that arrives too slowly ends the request.
"""

from __future__ import annotations

import asyncio
import re
from typing import TypeVar

import msgspec
from starlette.types import Receive, Scope

from ninfer.base.clock import Clock
from ninfer.server.errors import ApiError, invalid, unsupported
from ninfer.server.wire import find_header

SLOWEST_BYTES_PER_S = 64 * 1024
"""A body has its timeout plus the time this rate needs: a large body over a slow line passes, one byte a second not."""

MAX_DEPTH = 128
"""Nesting of free-form JSON (tool schemas, metadata)."""

T = TypeVar("T")

_SURROGATES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair: kept
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"  # a lone half: replaced
    rb"|\\."  # any other escape, so that an escaped backslash never starts one
)
_MAY_HOLD_SURROGATES = re.compile(rb"\\u[dD][89a-fA-F]")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_WRONG_TYPE = re.compile(r"Expected `(?P<types>[a-z |]+)`")
_TYPE_WORDS = {
    "float": "a number",
    "int": "a whole number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
"""The decoder's type names in the words of a person who writes JSON."""
_SHOWN_CHARACTERS = 200
_PATH = re.compile(r"^(?P<rule>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)


class ClientGone(Exception):
    """The peer closed the connection before the request was complete; nobody is left to answer."""


async def read_body(scope: Scope, receive: Receive, *, limit_bytes: int, timeout_s: float, clock: Clock) -> bytes:
    """The whole body. Raises ApiError (413, 415, 400, 408) or ClientGone."""
    encoding = find_header(scope, b"content-encoding")
    if encoding not in (None, "", "identity"):
        raise ApiError(415, "Compressed bodies are not accepted.", param=None, code="unsupported_encoding")
    announced = find_header(scope, b"content-length")
    if announced is not None and announced.isdigit() and int(announced) > limit_bytes:
        raise _too_large(limit_bytes)
    parts: list[bytes] = []
    received, start = 0, clock.now()
    while True:
        allowed_s = start + timeout_s + received / SLOWEST_BYTES_PER_S - clock.now()
        try:
            message = await asyncio.wait_for(receive(), max(allowed_s, 0.0))
        except TimeoutError:
            raise ApiError(408, "The request body arrived too slowly.", code="request_timeout") from None
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        received += len(part)
        if received > limit_bytes:
            raise _too_large(limit_bytes)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _too_large(limit_bytes: int) -> ApiError:
    message = f"The request body is larger than the limit of {limit_bytes} bytes."
    return ApiError(413, message, code="request_too_large")


def clean_json_text(body: bytes) -> bytes:
    """Valid UTF-8 JSON text: BOM dropped, lone surrogate escapes replaced by U+FFFD (LIMIT-03). Raises ApiError."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid(f"The body is not valid UTF-8 (byte {error.start}).", code="invalid_json") from None
    body = body.removeprefix(b"\xef\xbb\xbf")
    if _MAY_HOLD_SURROGATES.search(body):
        body = _SURROGATES.sub(lambda found: b"\\ufffd" if found.group(1) else found.group(), body)
    return body


def decode_fields(body: bytes) -> dict[str, msgspec.Raw]:
    """The top-level fields, undecoded; fields that are null are left out. Raises ApiError."""
    fields = _decode(clean_json_text(body), dict[str, msgspec.Raw])
    return {name: raw for name, raw in fields.items() if bytes(raw).strip() != b"null"}


def decode_struct(fields: dict[str, msgspec.Raw], kind: type[T]) -> T:
    """The fields as a typed request. Raises ApiError whose `param` is the path of the first wrong field."""
    return _decode(msgspec.json.encode(fields), kind)


def convert_struct(value: object, kind: type[T], path: str) -> T:
    """Decoded JSON as a typed value. Raises ApiError whose `param` starts with `path`."""
    try:
        return msgspec.convert(value, type=kind)
    except msgspec.ValidationError as error:
        raise _field_error(str(error), path) from None


def _decode(text: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise _field_error(str(error)) from None
    except msgspec.DecodeError as error:
        raise invalid(f"The body is not valid JSON: {error}", code="invalid_json") from None
    except RecursionError:
        raise invalid("The body is nested too deeply.", code="invalid_json") from None


def _field_error(text: str, prefix: str = "") -> ApiError:
    found = _PATH.match(text)
    assert found is not None
    rule, path = found["rule"], (prefix + (found["path"] or "$").removeprefix("$")).removeprefix(".")
    missing = re.search(r"missing required field `([^`]*)`", rule)
    if missing:
        path = f"{path}.{missing[1]}" if path else missing[1]
        return invalid(f"{path} is missing.", param=path, code="missing_field")
    unknown = _UNKNOWN.match(rule)
    if unknown:
        path = f"{path}.{unknown['name'][:_SHOWN_CHARACTERS]}"
        return unsupported(path, f"{path} is not supported by this server.")
    field = path.removesuffix("[...]")  # a value of an object with free keys: the decoder does not say which
    subject = f"Every value of {field}" if field != path else field or "The body"
    wrong = _WRONG_TYPE.match(rule)
    rule = f"must be {_say_types(wrong['types'])}" if wrong else f"is wrong: {rule}"
    return invalid(f"{subject} {rule}.", param=field or None, code="invalid_type")


def _say_types(types: str) -> str:
    words = [_TYPE_WORDS[name] for name in types.split(" | ") if name != "null"]
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def check_depth(value: object, param: str) -> None:
    """Refuse free-form JSON nested deeper than MAX_DEPTH, before anything recursive sees it."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        deeper: list[object] = []
        for item in level:
            if isinstance(item, dict):
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
        if not deeper:
            return
        level = deeper
    raise invalid(f"{param} is nested deeper than {MAX_DEPTH} levels.", param=param)
