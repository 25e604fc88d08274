"""One tool call being written, line by line, with the text behind it until it is decided.

In the template's form every tag stands on a line of its own, so a value ends at a `</parameter>` line that is followed
by the next tag of the structure, and nowhere else (TOOL-01). A call that looks complete stays undecided until what
follows it rules out that its end was part of a value. Parameter lines inside a value are counted, so that a balanced
call written into a file stays in the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from ninfer.frontend.messages import ToolSpec
from ninfer.frontend.tool_calls import (
    CALL_CLOSE,
    CALL_OPEN,
    FUNCTION_CLOSE,
    FUNCTION_OPEN,
    HEAD,
    PARAMETER_CLOSE,
    PARAMETER_OPEN,
    WrittenCall,
    read_tolerantly,
)

_PARAMETER_LINE = re.compile(r"<parameter=([^>\n]{1,256})>[ \t]*")
_FUNCTION_LINE = re.compile(r"\s*<function=([^>\n]{1,256})>\s*")
_OPENERS_AT_END = re.compile(r"(?:<tool_call>\s{0,64}){1,8}(?:<function=([^>\n]{1,256})>)?\s*\Z")
_HEAD_OPENERS = re.compile(r"(?:<tool_call>\s{0,64}){1,8}")
_MAX_NAME_CHARS = 256


@dataclass(frozen=True, slots=True)
class Accepted:
    """The calls are certain. `text`: as they were written; `rest`: behind the last one, not looked at yet."""

    calls: tuple[WrittenCall, ...]
    text: str
    rest: str


@dataclass(frozen=True, slots=True)
class Refused:
    """This is no call. `rest`: text behind `plain`, to be looked at again."""

    plain: str
    rest: str


class Head(Enum):
    """What the beginning of a possible call can still become."""

    OPEN = auto()
    CALL = auto()
    TEXT = auto()


class _State(Enum):
    FUNCTION = auto()
    """Behind the head: a parameter or the end of the function must follow."""
    VALUE = auto()
    VALUE_CLOSED = auto()
    """A `</parameter>` line was seen; what follows tells whether it was the value's end."""
    FUNCTION_CLOSED = auto()
    COMPLETE = auto()
    """Everything is closed; the text behind decides."""
    NEXT_OPENED = auto()
    """Complete, and an opener stands behind."""
    TOLERANT = auto()
    """Not in the template's form: read as a whole at the end."""


def look_at_head(text: str) -> Head:
    """Judge text that starts with `<tool_call>`. Once it is not OPEN, more text does not change the answer.

    Whether the tool is declared does not count here: an undeclared call is read to its end as well, so that a call
    written inside one of its values is not taken for a call.
    """
    openers = _HEAD_OPENERS.match(text)
    assert openers is not None
    rest = text[openers.end() : openers.end() + len(FUNCTION_OPEN) + _MAX_NAME_CHARS + 1]
    if CALL_OPEN.startswith(rest) or FUNCTION_OPEN.startswith(rest):
        return Head.OPEN
    if not rest.startswith(FUNCTION_OPEN):
        return Head.TEXT
    name, closed, _ = rest[len(FUNCTION_OPEN) :].partition(">")
    if "\n" in name or not name or len(name) > _MAX_NAME_CHARS:
        return Head.TEXT
    return Head.CALL if closed else Head.OPEN


class CallRegion:
    """Holds back the text from one call's head on. Every character fed comes out again, in a call or as text."""

    def __init__(self, head: str, tools: Mapping[str, ToolSpec]) -> None:
        """`head`: what HEAD matched. What stands behind it is fed. A call of no tool in `tools` comes out as text."""
        found = HEAD.fullmatch(head)
        assert found is not None
        self._tools = tools
        self._name = found.group(1).strip()
        self._head = head
        self._lines: list[str] = []
        self._partial: list[str] = []
        self._state = _State.FUNCTION
        self._parameters: list[tuple[str, int, int]] = []  # key, first and last + 1 line of the value
        self._key = ""
        self._value_start = 0
        self._value_end = 0
        self._depth = 0
        self._end = (0, 0)  # line and column behind the call's last tag
        self._openers = 0  # repeated openers whose ends may still follow the call
        self._text_behind = False

    def feed(self, text: str) -> Accepted | Refused | None:
        """Take more text; None: not decided yet."""
        while True:
            line, newline, text = text.partition("\n")
            self._partial.append(line)
            if not newline:
                return None
            verdict = self._take_line("".join(self._partial) + "\n")
            self._partial = []
            if verdict is not None:
                return self._with_rest(verdict, text)

    def finish(self, *, truncated: bool) -> Accepted | Refused:
        """The output ends here. `truncated`: not by the model's own stop token, so nothing open may be completed."""
        if any(self._partial):
            verdict = self._take_line("".join(self._partial))
            self._partial = []
            if verdict is not None:
                return verdict
        whole = self._whole()
        if self._state in (_State.COMPLETE, _State.NEXT_OPENED):
            if truncated and self._value_start and not self._begins_next(self._text_from(self._end)):
                return Refused(whole, "")
            return self._accept()
        if truncated:
            return Refused(whole, "")
        if self._state is _State.FUNCTION_CLOSED:
            self._end = (len(self._lines), 0)
            return self._accept()
        found = read_tolerantly(whole, self._tools)
        if found is None:
            return Refused(whole, "")
        calls, rest = found
        return Accepted(tuple(calls), whole[: len(whole) - len(rest)], rest)

    def _take_line(self, line: str) -> Accepted | Refused | None:
        self._lines.append(line)
        match self._state:
            case _State.FUNCTION:
                return self._in_function(line)
            case _State.VALUE:
                self._in_value(line)
            case _State.VALUE_CLOSED:
                self._behind_value(line)
            case _State.FUNCTION_CLOSED:
                return self._behind_function(line)
            case _State.COMPLETE:
                return self._behind_call(line, 0)
            case _State.NEXT_OPENED:
                return self._behind_opener(line)
            case _State.TOLERANT:
                pass
        return None

    def _in_function(self, line: str) -> Refused | None:
        word = line.strip()
        if not word:
            return None
        if len(self._lines) > 1 and _PARAMETER_LINE.fullmatch(line.rstrip("\n")):
            self._open_value(line)
        elif len(self._lines) > 1 and word == FUNCTION_CLOSE:
            self._state = _State.FUNCTION_CLOSED
        elif word.startswith((PARAMETER_OPEN, FUNCTION_CLOSE)):
            self._state = _State.TOLERANT
        else:  # no value has begun, so whatever stands in here may be looked at again
            return Refused(CALL_OPEN, self._whole()[len(CALL_OPEN) :])
        return None

    def _open_value(self, line: str) -> None:
        self._state = _State.VALUE
        self._key = line.strip()[len(PARAMETER_OPEN) : -1].strip()
        self._value_start = len(self._lines)
        self._depth = 0

    def _in_value(self, line: str) -> None:
        word = line.rstrip("\n")
        if word == PARAMETER_CLOSE:
            if self._depth:
                self._depth -= 1
            else:
                self._state = _State.VALUE_CLOSED
                self._value_end = len(self._lines) - 1
        elif _PARAMETER_LINE.fullmatch(word):
            self._depth += 1

    def _behind_value(self, line: str) -> None:
        if not line.strip():
            return
        if _PARAMETER_LINE.fullmatch(line.rstrip("\n")):
            self._parameters.append((self._key, self._value_start, self._value_end))
            self._open_value(line)
        elif line.strip() == FUNCTION_CLOSE:
            self._state = _State.FUNCTION_CLOSED
        else:
            self._resume_value(line)

    def _resume_value(self, line: str) -> None:
        """That `</parameter>` line was part of the value, and so is everything since."""
        self._state = _State.VALUE
        self._in_value(line)

    def _behind_function(self, line: str) -> Accepted | Refused | None:
        if not line.strip():
            return None
        column = len(line) - len(line.lstrip())
        if line.startswith(CALL_CLOSE, column):
            self._complete(column + len(CALL_CLOSE))
            return self._behind_call(line, column + len(CALL_CLOSE))
        if self._value_start:
            self._resume_value(line)
        else:
            self._state = _State.TOLERANT
        return None

    def _complete(self, column: int) -> None:
        self._state = _State.COMPLETE
        self._end = (len(self._lines) - 1, column)
        self._depth = 0
        self._openers = self._head.count(CALL_OPEN) - 1
        self._text_behind = False

    def _behind_call(self, line: str, column: int) -> Accepted | Refused | None:
        tail = line[column:]
        word = tail.strip()
        if not word:
            return None
        if self._openers and not self._text_behind and word == CALL_CLOSE:
            self._openers -= 1
            self._end = (len(self._lines) - 1, column + tail.index(CALL_CLOSE) + len(CALL_CLOSE))
            return None
        opened = _OPENERS_AT_END.search(tail)
        if opened is not None:
            if opened.group(1) is None:
                self._state = _State.NEXT_OPENED
                return None
            return self._accept()
        self._text_behind = True
        if tail.rstrip("\n") == PARAMETER_CLOSE and not column:
            if self._depth:
                self._depth -= 1
            elif self._value_start:  # a stray end: the call's end was part of the value
                self._resume_value(line)
        elif _PARAMETER_LINE.fullmatch(tail.rstrip("\n")):
            self._depth += 1
        return None

    def _behind_opener(self, line: str) -> Accepted | Refused | None:
        if not line.strip():
            return None
        if _FUNCTION_LINE.fullmatch(line):
            return self._accept()
        self._state = _State.COMPLETE
        self._text_behind = True
        return self._behind_call(line, 0)

    def _accept(self) -> Accepted | Refused:
        rest, whole = self._text_from(self._end), self._whole()
        text = whole[: len(whole) - len(rest)]
        if self._name not in self._tools:
            return Refused(text, rest)
        return Accepted((self._written(),), text, rest)

    def _begins_next(self, rest: str) -> bool:
        """Whether only space, or the beginning of another call, stands behind a complete one."""
        word = rest.lstrip()
        return (
            not word
            or CALL_OPEN.startswith(word)
            or (word.startswith(CALL_OPEN) and look_at_head(word) is not Head.TEXT)
        )

    def _written(self) -> WrittenCall:
        spans = list(self._parameters)
        if self._value_start:
            spans.append((self._key, self._value_start, self._value_end))
        values = ((key, "".join(self._lines[first:last]).removesuffix("\n")) for key, first, last in spans)
        return WrittenCall(self._name, tuple(values))

    def _whole(self) -> str:
        return self._head + "".join(self._lines)

    def _text_from(self, place: tuple[int, int]) -> str:
        line, column = place
        return "".join(self._lines[line:])[column:]

    @staticmethod
    def _with_rest(verdict: Accepted | Refused, text: str) -> Accepted | Refused:
        if isinstance(verdict, Accepted):
            return Accepted(verdict.calls, verdict.text, verdict.rest + text)
        return Refused(verdict.plain, verdict.rest + text)
