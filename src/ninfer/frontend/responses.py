"""A Responses conversation as one chat: stored history, then the new input, then the policy for markers (D12).

A pure function of what was stored and what is new; the endpoint that would call it does not exist. Items come one by
one, as that protocol has them: an answer's thinking, text and each call are items of their own, and so are results.
What is stored is exactly what the caller said and what was answered: no instructions, which are of one request only,
and no marker that anybody added. Automatic places are chosen when the whole is planned (`markers.py`), so that they
follow the end of the new input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ninfer.base.errors import BadInput
from ninfer.frontend.messages import ChatInput, MarkerUse, Message, Role, TextPart, ToolSpec
from ninfer.frontend.plan import MOST_MARKERS


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """One response as it is kept. `previous`: the response it follows. `given`: its new input alone, as it came."""

    id: str
    previous: str | None
    given: tuple[Message, ...]
    answer: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Expanded:
    """`chat`: what is planned. `given`: what is stored as this response's own input."""

    chat: ChatInput
    given: tuple[Message, ...]


def expand_responses(
    stored: Mapping[str, StoredResponse],
    previous: str | None,
    new_input: str | Sequence[Message],
    *,
    instructions: str | None = None,
    tools: tuple[ToolSpec, ...] = (),
    session: str | None = None,
) -> Expanded:
    """The whole conversation of a request that follows `previous`.

    Raises BadInput with the field's name: an unknown response, an input of nothing, too many new markers.
    """
    given = (Message(Role.USER, new_input),) if isinstance(new_input, str) else tuple(new_input)
    if not given or new_input == "":
        raise BadInput("input must not be empty", param="input")
    _check_new_markers(given, tools)
    history = [message for turn in _list_turns(stored, previous) for message in (*turn.given, *turn.answer)]
    lead = [] if instructions is None else [Message(Role.DEVELOPER, instructions)]
    messages = _with_newest_markers(_join_answers([*lead, *history, *given]), tools)
    return Expanded(ChatInput(messages=tuple(messages), tools=tools, session=session), given)


def _list_turns(stored: Mapping[str, StoredResponse], last: str | None) -> list[StoredResponse]:
    """The stored turns up to `last`, oldest first."""
    turns: list[StoredResponse] = []
    seen: set[str] = set()
    while last is not None:
        turn = stored.get(last)
        if turn is None or last in seen:
            raise BadInput(f"no response {last!r} is stored", param="previous_response_id")
        seen.add(last)
        turns.append(turn)
        last = turn.previous
    return turns[::-1]


def _join_answers(items: Sequence[Message]) -> list[Message]:
    """Thinking, text and calls of one answer become one message of the assistant, as a template has it."""
    messages: list[Message] = []
    for item in items:
        last = messages[-1] if messages else None
        if last is None or not _continues(last, item):
            messages.append(item)
            continue
        messages[-1] = replace(
            last,
            content=last.content if item.content is None else item.content,
            reasoning_content=last.reasoning_content if item.reasoning_content is None else item.reasoning_content,
            tool_calls=(*last.tool_calls, *item.tool_calls),
            marker=item.marker or last.marker,
        )
    return messages


def _continues(last: Message, item: Message) -> bool:
    """Items of one answer come in this order: thinking, text, calls. Anything else begins the next answer."""
    if last.role is not Role.ASSISTANT or item.role is not Role.ASSISTANT:
        return False
    if item.reasoning_content is not None:
        return False
    return item.content is None or (last.content is None and not last.tool_calls)


def _check_new_markers(given: Sequence[Message], tools: Sequence[ToolSpec]) -> None:
    """What a request sets itself is never left out silently."""
    uses = [tool.marker for tool in tools]
    for message in given:
        parts = message.content if isinstance(message.content, tuple) else ()
        uses += [message.marker, *(part.marker for part in parts)]
    for use in MarkerUse:
        if uses.count(use) > MOST_MARKERS:
            raise BadInput(f"at most {MOST_MARKERS} {use.value} cache markers can be set", param="input")


def _with_newest_markers(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[Message]:
    """At most four markers of each use, tools' included: in a long history the oldest give way (D11)."""
    room = {use: MOST_MARKERS - sum(tool.marker is use for tool in tools) for use in MarkerUse}
    newest: list[Message] = []
    for message in reversed(messages):
        marker = _take(room, message.marker)
        content = message.content
        if isinstance(content, tuple):
            parts = [TextPart(part.text, _take(room, part.marker)) for part in reversed(content)]
            content = tuple(reversed(parts))
        newest.append(replace(message, content=content, marker=marker))
    return newest[::-1]


def _take(room: dict[MarkerUse, int], marker: MarkerUse | None) -> MarkerUse | None:
    if marker is None or room[marker] <= 0:
        return None
    room[marker] -= 1
    return marker
