"""Where a prompt is worth keeping besides its recovery position: callers' markers and a few of our own (D11-D13).

A marker on a text part keeps the end of its text, one on a message the end of the whole message, one on a tool the
place behind it. Unasked, the end of the last text part is kept (after tool results the end of the message, where a
private point often lies as well), and the place where the leading instructions and tools end; explicit markers go
first. Positions are characters of the rendered (protected) text. They are proven by rendering once more with marks in
the marked texts: what the template prints must be the same but for the marks. tokens.py then gives exact frontiers;
that a later prompt really has the same tokens is checked when it comes (D13).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ninfer.base.errors import BadInput
from ninfer.frontend.conversation import TemplateMessage, with_part_end_marked
from ninfer.frontend.escape import CONTENT_END, ControlText, choose_mark
from ninfer.frontend.messages import MarkerUse, Message, Role, ToolSpec
from ninfer.frontend.plan import MOST_MARKERS
from ninfer.frontend.rewrite import PROBE_QUESTION, common_prefix, find_frame
from ninfer.frontend.template import ChatTemplate

_PROBE_TOOL = {"type": "function", "function": {"name": "\x03probe tool\x03", "description": ""}}
_CACHED_ROLES = (Role.USER, Role.SYSTEM, Role.DEVELOPER, Role.TOOL)


@dataclass(frozen=True, slots=True)
class Mark:
    """A position to keep, in characters of the rendered text."""

    position: int
    use: MarkerUse
    is_explicit: bool
    is_moving: bool = False
    """At the end of the input: with the next turn it moves on."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """One conversation as rendered, with everything that went in."""

    template: ChatTemplate
    control: ControlText
    text: str
    shaped: Sequence[Message]
    messages: Sequence[TemplateMessage]
    specs: Sequence[ToolSpec]
    tools: Sequence[Mapping[str, object]]
    kwargs: Mapping[str, object]


def find_marks(rendered: Rendered) -> list[Mark]:
    """All positions that may be kept, explicit ones first, then the automatic ones in order of preference.

    Raises BadInput for more than four explicit markers of one use, and for one whose place the template hides.
    """
    _check_counts(rendered)
    ends = _find_text_ends(rendered)
    marks = [_mark_tool(rendered, place) for place, tool in enumerate(rendered.specs) if tool.marker is not None]
    for place, message in enumerate(rendered.shaped):
        if isinstance(message.content, tuple):
            for part, said in enumerate(message.content):
                if said.marker is not None:
                    end = _existing(ends.get((place, part)), "a text part without a text of its own")
                    marks.append(Mark(end, said.marker, is_explicit=True))
        if message.marker is not None:
            end = _existing(_find_message_end(rendered, place, ends), "a message whose end the template does not show")
            marks.append(Mark(end, message.marker, is_explicit=True))
    last, instructions = _find_input_end(rendered, ends), _find_instructions_end(rendered)
    if last is not None:
        marks.append(Mark(last, MarkerUse.SHARED, is_explicit=False, is_moving=True))
    if instructions is not None:
        marks.append(Mark(instructions, MarkerUse.SHARED, is_explicit=False))
    return marks


def choose_frontiers(placed: Iterable[tuple[Mark, int]], use: MarkerUse, prompt: int) -> tuple[int, ...]:
    """Frontiers of one use, ascending: explicit ones, merged where equal, then automatic ones while there is room."""
    chosen: dict[int, None] = {}
    for mark, frontier in placed:
        if mark.use is use and 0 < frontier <= prompt and len(chosen) < MOST_MARKERS:
            chosen[frontier] = None
    return tuple(sorted(chosen))


def find_moving(placed: Iterable[tuple[Mark, int]], shared: Sequence[int]) -> int | None:
    """The frontier of the marker at the end of the input, if it was chosen and nobody asked for it."""
    asked = {frontier for mark, frontier in placed if mark.is_explicit}
    found = (frontier for mark, frontier in placed if mark.is_moving and frontier in shared and frontier not in asked)
    return next(found, None)


def _check_counts(rendered: Rendered) -> None:
    uses = [tool.marker for tool in rendered.specs]
    for message in rendered.shaped:
        uses.append(message.marker)
        if isinstance(message.content, tuple):
            uses += [part.marker for part in message.content]
    for use in MarkerUse:
        if uses.count(use) > MOST_MARKERS:
            raise BadInput(f"at most {MOST_MARKERS} {use.value} cache markers can be set", param="messages")


def _existing(position: int | None, what: str) -> int:
    if position is None:
        raise BadInput(f"a cache marker stands on {what}", param="messages")
    return position


def _find_text_ends(rendered: Rendered) -> dict[tuple[int, int], int]:
    """Where the texts end that are needed, by message and part; what the template hides is left out."""
    wanted, mark = sorted(_list_wanted(rendered)), choose_mark(rendered.text)
    messages = list(rendered.messages)
    marked: list[tuple[int, int]] = []
    for place, part in wanted:
        changed = with_part_end_marked(messages[place], part, mark)
        if changed is not None:
            messages[place] = changed
            marked.append((place, part))
    if not marked:
        return {}
    try:
        text = rendered.template.render(messages, rendered.tools, rendered.kwargs, generation_prompt=True)
    except BadInput:
        return {}
    pieces = text.split(mark)
    if len(pieces) != len(marked) + 1 or "".join(pieces) != rendered.text:
        return {}
    ends: dict[tuple[int, int], int] = {}
    position = 0
    for key, piece in zip(marked, pieces, strict=False):
        position += len(piece)
        ends[key] = position
    return ends


def _list_wanted(rendered: Rendered) -> set[tuple[int, int]]:
    wanted: set[tuple[int, int]] = set()
    for place, message in enumerate(rendered.shaped):
        if isinstance(message.content, tuple):
            wanted |= {(place, part) for part, said in enumerate(message.content) if said.marker is not None}
        if message.marker is not None:
            wanted |= {(near, _last_part(rendered, near)) for near in (place, place + 1) if near < len(rendered.shaped)}
    last = _find_last_text(rendered)
    return wanted if last is None else wanted | {last}


def _last_part(rendered: Rendered, place: int) -> int:
    content = rendered.messages[place]["content"]
    return len(content) - 1 if isinstance(content, list) else 0


def _find_last_text(rendered: Rendered) -> tuple[int, int] | None:
    """The last text part of what was said to the model; behind a call of the assistant's there is none yet (D12)."""
    for place in range(len(rendered.shaped) - 1, -1, -1):
        if rendered.shaped[place].role not in _CACHED_ROLES:
            return None
        part = _last_part(rendered, place)
        if with_part_end_marked(rendered.messages[place], part, CONTENT_END) is not None:
            return place, part
    return None


def _find_input_end(rendered: Rendered, ends: Mapping[tuple[int, int], int]) -> int | None:
    """The end of the last text part; of the whole message where tool results or a tool call stand last (D12)."""
    last = _find_last_text(rendered)
    if last is not None:
        is_result = rendered.shaped[last[0]].role is Role.TOOL
        return _find_message_end(rendered, last[0], ends) if is_result else ends.get(last)
    return _find_message_end(rendered, len(rendered.shaped) - 1, ends) if rendered.shaped[-1].tool_calls else None


def _find_instructions_end(rendered: Rendered) -> int | None:
    """How far the prompt is the same whatever a user says first; None without instructions and tools."""
    lead = 0
    while lead < len(rendered.shaped) and rendered.shaped[lead].role in (Role.SYSTEM, Role.DEVELOPER):
        lead += 1
    if lead == len(rendered.shaped) or not (lead or rendered.tools):
        return None
    probe: list[TemplateMessage] = [*rendered.messages[:lead], {"role": "user", "content": PROBE_QUESTION}]
    text = _render(rendered, probe, rendered.tools)
    return None if text is None else common_prefix(rendered.text, text)


def _find_message_end(rendered: Rendered, place: int, ends: Mapping[tuple[int, int], int]) -> int | None:
    """Where a message with its closing ends: where the prompt would end without what follows, or the next one opens."""
    frame = find_frame(rendered.template, rendered.kwargs)
    if place + 1 == len(rendered.shaped) and frame is not None and rendered.text.endswith(frame.header):
        return len(rendered.text) - len(frame.header)
    text = _render(rendered, rendered.messages[: place + 1], rendered.tools)
    if text is not None and rendered.text.startswith(text):
        return len(text)
    opener = None if frame is None else rendered.control.control_at(frame.header, 0)
    if opener is None:
        return None
    own = ends.get((place, _last_part(rendered, place)))
    if own is not None and not rendered.shaped[place].tool_calls:
        found = rendered.text.find(opener, own)
        return found if found >= 0 else None
    following = ends.get((place + 1, _last_part(rendered, place + 1))) if place + 1 < len(rendered.shaped) else None
    found = -1 if following is None else rendered.text.rfind(opener, 0, following)
    return found if found > 0 else None


def _mark_tool(rendered: Rendered, place: int) -> Mark:
    """Behind a tool: as far as the prompt is the same whether the list ends there or another tool follows."""
    use, param = rendered.specs[place].marker, f"tools[{place}].cache_control"
    assert use is not None
    upto = rendered.tools[: place + 1]
    ended, followed = (_render(rendered, rendered.messages, tools) for tools in (upto, [*upto, _PROBE_TOOL]))
    if ended is None or followed is None:
        raise BadInput("a cache marker stands on a tool whose end the template does not show", param=param)
    end = min(common_prefix(rendered.text, followed), common_prefix(ended, followed))
    if end == 0:
        raise BadInput("a cache marker stands on a tool that this model's template does not print", param=param)
    return Mark(end, use, is_explicit=True)


def _render(
    rendered: Rendered, messages: Sequence[TemplateMessage], tools: Sequence[Mapping[str, object]]
) -> str | None:
    try:
        return rendered.template.render(messages, tools, rendered.kwargs, generation_prompt=False)
    except BadInput:
        return None
