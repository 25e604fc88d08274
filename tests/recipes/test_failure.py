"""Faults thrown into one request of a live engine: that request fails, the next ten do not, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ninfer.base.errors import RequestFailed
from ninfer.engine import failure
from ninfer.engine.publish import Publication
from ninfer.server.app import CHAT_PATH

from .conftest import OpenLive
from .live import FREE, NO_HOST, Live
from .words import filler, user


class Broken(Exception):
    """What no one expects. Its text never reaches a client."""


def break_once(monkeypatch: pytest.MonkeyPatch, target: object, name: str) -> None:
    """The next call of `target.name` raises; later ones work."""
    original: Callable[..., Any] = getattr(target, name)
    calls: list[None] = []

    def raising(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        if len(calls) == 1:
            raise Broken("SECRET-123")
        return original(*args, **kwargs)

    monkeypatch.setattr(target, name, raising)


PLACES: dict[str, Callable[[Live], tuple[object, str]]] = {
    "planning the input": lambda live: (live.frontend, "plan_chat"),
    "choosing the source": lambda live: (live.state.resources, "list_sources"),
    "binding the restored state": lambda live: (live.state.program, "bind"),
    "adopting the source": lambda live: (live.state.resources, "adopt"),
    "preparing a capture": lambda live: (live.state.program, "reserve_capture"),
    "publishing a capture": lambda live: (live.state.resources, "publish_captured"),
    "committing a token": lambda live: (live.state.program, "commit_run"),
    "freezing the end": lambda live: (live.state.program, "freeze_end"),
    "publishing the end": lambda live: (live.state.resources, "publish_end"),
    "telling the sink": lambda live: (Publication, "delta"),
}


@pytest.mark.parametrize("place", PLACES)
def test_an_internal_error_ends_one_request(append: Live, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """SCHED-09: source selection, restore binding, capture and more; 500 with the request's id."""
    history = [user(filler(150, 1))]
    history += [append.ask(history, max_tokens=6).message, user(filler(40, 2))]
    expected = append.ask([user(filler(60, 3))], max_tokens=6).tokens
    with monkeypatch.context() as patch:
        break_once(patch, *PLACES[place](append))
        answer = append.post(CHAT_PATH, {"messages": history, "max_tokens": 6, **FREE})
    assert answer.status_code == 500
    assert answer.headers["x-request-id"] == append.journal.records[-1].id
    assert answer.json()["error"]["code"] == "internal_error"
    assert "SECRET" not in answer.text
    for number in range(10):
        append.ask([*history, user(f"AGAIN {number}")], max_tokens=3)
    assert append.ask([user(filler(60, 3))], max_tokens=6).tokens == expected
    append.drop_points()


def test_an_error_in_a_pause_ends_the_paused_request(
    open_live: OpenLive, append_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SCHED-09: pause. The older request, for which room was made, goes on."""
    live = open_live(append_dir, dtype="float32", max_context=512, kv_capacity=512, context_cache=NO_HOST)
    with monkeypatch.context() as patch:
        break_once(patch, failure, "pause")
        with live.at_once():
            older, kept = live.start([user(filler(100, 1))], max_tokens=300)
            younger, _ = live.start([user(filler(130, 2))], max_tokens=200)
        older.result()
        with pytest.raises(RequestFailed):
            younger.result()
    assert len(kept.tokens) == 300
    for number in range(10):
        live.ask([user(f"AGAIN {number}")], max_tokens=3)
    live.drop_points()
