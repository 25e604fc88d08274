"""Generated text to typed channels: reasoning, content, tool calls.

What comes out depends on the text alone, never on how it was cut into pieces. Nothing raises and nothing is lost: what
is no call by the rules below is content (or reasoning), to the letter. Only markers and the blank lines a template
writes around them are taken away.

- In an open think block, text is reasoning until `</think>`. With thinking off a leading lone `</think>` is removed,
  and `<think>` at the very start opens reasoning. Later markers are content.
- A call counts when its tool is declared and its structure is complete (call_region.py). It is held back until then.
- A declared call inside an open think block ends the thinking if the output ends with the block still open, or closed
  with nothing behind. If an answer follows `</think>`, the call was a draft: all of it is reasoning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from ninfer.frontend.call_region import Accepted, CallRegion, Head, Refused, look_at_head
from ninfer.frontend.messages import ToolSpec
from ninfer.frontend.tool_calls import CALL_OPEN, HEAD, call_arguments

THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ContentDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One complete call. `index` counts from 0 within the answer; `arguments` is JSON text of an object."""

    index: int
    id: str
    name: str
    arguments: str


ChannelEvent = ReasoningDelta | ContentDelta | ToolCall


class _Mode(Enum):
    START = auto()
    REASONING = auto()
    DRAFT_HEAD = auto()
    """In reasoning, at a possible call's head."""
    DRAFT = auto()
    """In reasoning, behind a call's head: held until `</think>` or the end decides."""
    DRAFT_CLOSED = auto()
    CONTENT = auto()
    HEAD = auto()
    CALL = auto()


class _Before(Enum):
    """What stands before the present stretch of content."""

    NOTHING = auto()
    THINKING = auto()
    CALL = auto()
    TEXT = auto()


class ChannelParser:
    """Parses one answer. `push` text as it comes, then `finish` once."""

    def __init__(self, tools: Sequence[ToolSpec], *, opens_thinking: bool, new_call_id: Callable[[], str]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._opens_thinking = opens_thinking
        self._new_call_id = new_call_id
        self._mode = _Mode.START
        self._before = _Before.NOTHING
        self._pending = ""
        self._gap = ""  # blank lines before a possible call
        self._region: CallRegion | None = None
        self._draft: list[str] = []
        self._calls = 0
        self._truncated = False
        self._events: list[ChannelEvent] = []

    def push(self, text: str) -> list[ChannelEvent]:
        """Take more text; returns what is certain by now."""
        self._pending += text
        return self._advance(final=False)

    def finish(self, truncated: bool) -> list[ChannelEvent]:
        """The output is over. `truncated`: it ended otherwise than by the model's stop token."""
        self._truncated = truncated
        return self._advance(final=True)

    def _advance(self, *, final: bool) -> list[ChannelEvent]:
        while self._step(final):
            pass
        assert not final or not self._pending
        events, self._events = self._events, []
        return events

    def _step(self, final: bool) -> bool:
        """One move; False when nothing more can be said yet."""
        match self._mode:
            case _Mode.START:
                return self._at_start(final)
            case _Mode.REASONING:
                return self._in_reasoning(final)
            case _Mode.DRAFT_HEAD:
                return self._at_head(final, _Mode.REASONING, _Mode.DRAFT)
            case _Mode.DRAFT:
                return self._in_draft(final)
            case _Mode.DRAFT_CLOSED:
                return self._behind_draft(final)
            case _Mode.CONTENT:
                return self._in_content(final)
            case _Mode.HEAD:
                return self._at_head(final, _Mode.CONTENT, _Mode.CALL)
            case _Mode.CALL:
                return self._in_call(final)

    def _at_start(self, final: bool) -> bool:
        body = self._pending.lstrip()
        for marker in (THINK_OPEN,) if self._opens_thinking else (THINK_OPEN, THINK_CLOSE):
            if body.startswith(marker):
                self._pending = body[len(marker) :]
                self._mode = _Mode.REASONING if marker == THINK_OPEN else _Mode.CONTENT
                self._before = _Before.NOTHING if marker == THINK_OPEN else _Before.THINKING
                return True
            if not final and marker.startswith(body):
                return False
        self._mode = _Mode.REASONING if self._opens_thinking else _Mode.CONTENT
        return True

    def _in_reasoning(self, final: bool) -> bool:
        if self._before is _Before.NOTHING:
            self._pending = self._pending.lstrip("\n")
        text = self._pending
        close = text.find(THINK_CLOSE)
        opened = text.find(CALL_OPEN) if self._tools else -1
        if opened >= 0 and not 0 <= close < opened:
            body = text[:opened].rstrip("\n")
            self._gap, self._pending, self._mode = text[len(body) : opened], text[opened:], _Mode.DRAFT_HEAD
            self._emit_reasoning(body)
            return True
        if close >= 0:
            self._emit_reasoning(text[:close].rstrip("\n"))
            self._open_content(text[close + len(THINK_CLOSE) :])
            return True
        certain = len(text) if final else _certain_length(text, THINK_CLOSE, CALL_OPEN)
        self._emit_reasoning(text[:certain])
        self._pending = text[certain:]
        return False

    def _at_head(self, final: bool, outside: _Mode, inside: _Mode) -> bool:
        verdict = look_at_head(self._pending)
        if verdict is Head.OPEN and not final:
            return False
        if verdict is Head.CALL:
            self._mode = inside
            return True
        self._mode = outside
        self._emit_plain(self._gap + CALL_OPEN)
        self._pending = self._pending[len(CALL_OPEN) :]
        return True

    def _in_draft(self, final: bool) -> bool:
        # The last characters of what is held are looked at again with the new text: the marker may be cut anywhere.
        tail = self._draft.pop() if self._draft else ""
        text = tail + self._pending
        close = text.find(THINK_CLOSE)
        if close >= 0:
            self._draft.append(text[:close])
            self._pending, self._mode = text[close + len(THINK_CLOSE) :], _Mode.DRAFT_CLOSED
            return True
        keep = max(0, len(text) - len(THINK_CLOSE) + 1)
        self._draft += [text[:keep], text[keep:]]
        self._pending = ""
        if final:
            self._settle_draft("".join(self._draft))
        return False

    def _behind_draft(self, final: bool) -> bool:
        text = "".join(self._draft)
        if self._pending.strip():
            self._emit_reasoning(self._gap + text.rstrip("\n"))
            self._open_content(self._pending)
            return True
        if final:
            self._pending = ""
            if self._truncated:
                self._emit_reasoning(self._gap + text.rstrip("\n"))
            else:
                self._settle_draft(text)
        return False

    def _settle_draft(self, draft: str) -> None:
        """The output ended: the call in the think block was meant, if it is one."""
        parser = ChannelParser(tuple(self._tools.values()), opens_thinking=False, new_call_id=self._new_call_id)
        parsed = [*parser.push(draft), *parser.finish(self._truncated)]
        if parsed and isinstance(parsed[0], ToolCall):
            self._events += parsed
        else:
            self._emit_reasoning(self._gap + draft)

    def _open_content(self, text: str) -> None:
        self._pending, self._mode, self._before = text, _Mode.CONTENT, _Before.THINKING

    def _in_content(self, final: bool) -> bool:
        if self._before is _Before.THINKING:
            self._pending = self._pending.lstrip("\n")
        text = self._pending
        if not text.strip() and self._before is not _Before.TEXT:
            if final:
                self._pending = ""
                if self._before is not _Before.CALL:
                    self._emit_content(text)
            return False
        opened = text.find(CALL_OPEN) if self._tools else -1
        if opened >= 0:
            body = text[:opened].rstrip("\n")
            if self._before is not _Before.TEXT and not body.strip():
                body = ""
            self._gap, self._pending, self._mode = text[len(body) : opened], text[opened:], _Mode.HEAD
            self._emit_content(body)
            return True
        certain = len(text) if final or not self._tools else _certain_length(text, CALL_OPEN)
        if self._before is not _Before.TEXT and not text[:certain].strip():
            certain = 0
        self._emit_content(text[:certain])
        self._pending = text[certain:]
        return False

    def _in_call(self, final: bool) -> bool:
        if self._region is None:
            head = HEAD.match(self._pending)
            assert head is not None
            self._region = CallRegion(head.group(), self._tools)
            self._pending = self._pending[head.end() :]
        verdict = self._region.feed(self._pending)
        self._pending = ""
        if verdict is None and final:
            verdict = self._region.finish(truncated=self._truncated)
        if verdict is None:
            return False
        self._region, self._mode, self._pending = None, _Mode.CONTENT, verdict.rest
        match verdict:
            case Accepted():
                self._emit_calls(verdict)
            case Refused():
                self._emit_content(self._gap + verdict.plain)
        return True

    def _emit_calls(self, accepted: Accepted) -> None:
        told = [(call.name, call_arguments(self._tools[call.name], call)) for call in accepted.calls]
        if any(arguments is None for _, arguments in told):
            self._emit_content(self._gap + accepted.text)
            return
        for name, arguments in told:
            assert arguments is not None
            self._events.append(ToolCall(self._calls, self._new_call_id(), name, arguments))
            self._calls += 1
        self._before = _Before.CALL

    def _emit_plain(self, text: str) -> None:
        if self._mode is _Mode.REASONING:
            self._emit_reasoning(text)
        else:
            self._emit_content(text)

    def _emit_reasoning(self, text: str) -> None:
        if not text:
            return
        self._before = _Before.TEXT
        last = self._events[-1] if self._events else None
        if isinstance(last, ReasoningDelta):
            self._events.pop()
            text = last.text + text
        self._events.append(ReasoningDelta(text))

    def _emit_content(self, text: str) -> None:
        if not text:
            return
        self._before = _Before.TEXT
        last = self._events[-1] if self._events else None
        if isinstance(last, ContentDelta):
            self._events.pop()
            text = last.text + text
        self._events.append(ContentDelta(text))


def _certain_length(text: str, *markers: str) -> int:
    """How much of `text` cannot belong to a marker still being written, nor to the blank lines before one."""
    cut = len(text)
    for marker in markers:
        longest = min(len(marker) - 1, len(text))
        cut = min(cut, next((len(text) - n for n in range(longest, 0, -1) if text.endswith(marker[:n])), len(text)))
    return len(text[:cut].rstrip("\n"))
