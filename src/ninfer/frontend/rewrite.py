"""Which part of a rendered prompt a later request may rewrite, and where input state is worth keeping (D2-D5).

Decided by a next-user probe: the conversation is rendered once more with an answer and another user turn behind it.
What the two renders share is what the next turn leaves alone. All positions here are characters of the rendered
(protected) text; tokens.py turns them into exact frontiers. Works with any template; no wording is built in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ninfer.base.errors import BadInput
from ninfer.frontend.conversation import TemplateMessage, with_content_end_marked
from ninfer.frontend.escape import choose_mark
from ninfer.frontend.plan import RewriteKind
from ninfer.frontend.template import ChatTemplate

_PROBE_ANSWER = "\x03probe answer\x03"
PROBE_QUESTION = "\x03probe question\x03"
_SAID_ROLES = ("user", "system")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A typed R in characters.

    `point`: R. `content_end`: C, when it is proven that R directly follows a user, system or developer message and
    that C to R is template closing and nothing else. `shared_end`: up to here a rewritten history is sure to agree;
    not before R, possibly behind the assistant header.
    """

    kind: RewriteKind
    point: int
    content_end: int | None
    shared_end: int


@dataclass(frozen=True, slots=True)
class Frame:
    """How the template ends a user message, and how it opens the answer (the generation header)."""

    closing: str
    header: str

    @property
    def opening(self) -> str:
        """The first line of the header: what every assistant message begins with."""
        return self.header[: self.header.find("\n") + 1] or self.header


def find_rewrite(
    template: ChatTemplate,
    rendered: str,
    messages: Sequence[TemplateMessage],
    tools: Sequence[Mapping[str, object]],
    kwargs: Mapping[str, object],
) -> Rewrite | None:
    """The typed R of a rendered prompt; None when the template gives no hold."""
    frame = find_frame(template, kwargs)
    if frame is None or not rendered.endswith(frame.header):
        return _replay_without_probe(template, rendered, messages, tools, kwargs)
    mark = choose_mark(rendered)
    marked = _mark_last_words(messages, mark)
    probe = _render_probe(template, marked or messages, tools, kwargs)
    if marked is not None and (probe is None or not _mark_was_ignored(probe, mark, rendered, frame.closing)):
        probe = _render_probe(template, messages, tools, kwargs)
    if probe is None:
        return _replay_without_probe(template, rendered, messages, tools, kwargs)
    content_end = probe.find(mark) if marked is not None and mark in probe else None
    text = probe if marked is None else probe.replace(mark, "")
    header_start = len(rendered) - len(frame.header)
    if text.startswith(rendered[:header_start]):
        kind, point = RewriteKind.RESPONSE_REPLAY, header_start
        shared_end = point + common_prefix(frame.header, text[point : point + len(frame.header)])
    else:
        shared_end = common_prefix(rendered, text)
        kind, point = RewriteKind.TURN_CLOSURE, rendered.rfind(frame.opening, 0, shared_end)
        if point < 0:
            return None
    if content_end is not None and (content_end > point or rendered[content_end:point] != frame.closing):
        content_end = None
    return Rewrite(kind, point, content_end, shared_end)


def common_prefix(left: str, right: str) -> int:
    """Length of the longest common prefix, by halving: slices compare at memory speed."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def find_frame(template: ChatTemplate, kwargs: Mapping[str, object]) -> Frame | None:
    messages: list[TemplateMessage] = [{"role": "user", "content": PROBE_QUESTION}]
    try:
        bare = template.render(messages, (), kwargs, generation_prompt=False)
        headed = template.render(messages, (), kwargs, generation_prompt=True)
    except BadInput:
        return None
    found = bare.rfind(PROBE_QUESTION)
    if found < 0 or not headed.startswith(bare) or len(headed) == len(bare):
        return None
    return Frame(closing=bare[found + len(PROBE_QUESTION) :], header=headed[len(bare) :])


def _mark_last_words(messages: Sequence[TemplateMessage], mark: str) -> list[TemplateMessage] | None:
    """The messages with the end of the last user or system message's content marked; None when it has no content."""
    said = max((place for place, message in enumerate(messages) if message["role"] in _SAID_ROLES), default=None)
    marked = None if said is None else with_content_end_marked(messages[said], mark)
    return None if said is None or marked is None else [*messages[:said], marked, *messages[said + 1 :]]


def _mark_was_ignored(probe: str, mark: str, rendered: str, closing: str) -> bool:
    """Whether the template printed the marked words as it prints them unmarked, and closed them as usual."""
    end = probe.find(mark)
    return end >= 0 and rendered.startswith(probe[:end]) and rendered.startswith(closing, end)


def _render_probe(
    template: ChatTemplate,
    messages: Sequence[TemplateMessage],
    tools: Sequence[Mapping[str, object]],
    kwargs: Mapping[str, object],
) -> str | None:
    """The conversation with an answer and another user turn behind it; None when the template refuses that."""
    probed = [*messages]
    probed.append({"role": "assistant", "content": _PROBE_ANSWER})
    probed.append({"role": "user", "content": PROBE_QUESTION})
    try:
        return template.render(probed, tools, kwargs, generation_prompt=True)
    except BadInput:
        return None


def _replay_without_probe(
    template: ChatTemplate,
    rendered: str,
    messages: Sequence[TemplateMessage],
    tools: Sequence[Mapping[str, object]],
    kwargs: Mapping[str, object],
) -> Rewrite | None:
    """R at the generation header, when that can be told apart at all."""
    try:
        bare = template.render(messages, tools, kwargs, generation_prompt=False)
    except BadInput:
        return None
    if not bare or not rendered.startswith(bare):
        return None
    return Rewrite(RewriteKind.RESPONSE_REPLAY, len(bare), None, len(bare))
