"""What a caller says about caching: `cache_control` and `"anchor"` on tools, messages and text parts, and the session.

Checks spelling and count, with the path of what is wrong. Which positions they mean is the frontend's knowledge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ninfer.frontend.messages import MarkerUse
from ninfer.server.errors import invalid

MAX_MARKERS = 4
MAX_SESSION_CHARACTERS = 1024


def read_marker(cache_control: object, anchor: bool | None, path: str) -> MarkerUse | None:
    """The use that an object with these two fields asks for. Raises ApiError."""
    if cache_control is None:
        if anchor:
            raise invalid(f'{path}.anchor needs "cache_control" beside it.', param=f"{path}.anchor")
        return None
    if not isinstance(cache_control, Mapping) or cache_control.get("type") != "ephemeral":
        raise invalid(f"{path}.cache_control.type must be 'ephemeral'.", param=f"{path}.cache_control")
    if "anchor" in cache_control:  # read as a shared marker it would mean the opposite
        raise invalid(f"{path}.anchor stands beside cache_control, not in it.", param=f"{path}.cache_control.anchor")
    return MarkerUse.ANCHOR if anchor else MarkerUse.SHARED


def split_tool(tool: dict[str, Any], path: str) -> tuple[dict[str, Any], MarkerUse | None]:
    """The tool as the template prints it, and its marker, which some clients set on its function."""
    rest, marker = _split_marker(tool, path)
    function = rest.get("function")
    if isinstance(function, dict):
        rest["function"], inner = _split_marker(function, f"{path}.function")
        if inner and marker and inner is not marker:
            what = f"{path} and {path}.function have different cache markers."
            raise invalid(what, param=f"{path}.function.cache_control")
        marker = marker or inner
    return rest, marker


def name_marked(tool: Mapping[str, Any], path: str) -> str:
    """Where the marker of a tool that has one stands: on the tool, or on its function."""
    return path if tool.get("cache_control") is not None else f"{path}.function"


def check_shown(marker: MarkerUse | None, path: str, *, is_shown: bool) -> None:
    """A marker on a tool that the model is not shown has no place. Raises ApiError."""
    if marker is not None and not is_shown:
        what = f"{path} has a cache marker, but tool_choice 'none' keeps it out of the prompt."
        raise invalid(what, param=f"{path}.cache_control")


class MarkerCount:
    """Counts explicit markers while a body is read, so that the fifth is named by its path."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts = dict.fromkeys(MarkerUse, 0)

    def note(self, marker: MarkerUse | None, path: str) -> MarkerUse | None:
        """The marker, counted. Raises ApiError for one too many."""
        if marker is None:
            return None
        self._counts[marker] += 1
        if self._counts[marker] > MAX_MARKERS:
            what = "cache markers" if marker is MarkerUse.SHARED else "anchors"
            raise invalid(f"a request may set at most {MAX_MARKERS} {what}.", param=f"{path}.cache_control")
        return marker


def read_session(header: str | None, cache_key: str | None) -> str | None:
    """Which conversation a request belongs to: the first of `x-session-id` and `prompt_cache_key` that says anything.

    Any characters will do; they are compared and never printed.
    """
    for name, value in (("x-session-id", header), ("prompt_cache_key", cache_key)):
        if value and len(value) > MAX_SESSION_CHARACTERS:
            raise invalid(f"{name} may have at most {MAX_SESSION_CHARACTERS} characters.", param=name)
    return header or cache_key or None


def _split_marker(fields: dict[str, Any], path: str) -> tuple[dict[str, Any], MarkerUse | None]:
    anchor = fields.get("anchor")
    if anchor is not None and not isinstance(anchor, bool):
        raise invalid(f"{path}.anchor must be true or false.", param=f"{path}.anchor", code="invalid_type")
    marker = read_marker(fields.get("cache_control"), anchor, path)
    return {name: value for name, value in fields.items() if name not in ("cache_control", "anchor")}, marker
