"""`ninfer chat` over a scripted engine: history, commands, Ctrl+C."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ninfer.base.errors import RequestFailed
from ninfer.cli.chat import Conversation, obey
from ninfer.ports.output import FinishReason
from ninfer.ports.sampling import SamplingParams

from .clients import wait_until
from .scripted import Script, ScriptedEngine, bytewise, whole


@pytest.fixture
def conversation(engine: ScriptedEngine) -> Conversation:
    facade: Any = engine
    return Conversation(facade, SamplingParams(), seed=None, max_tokens=None)


def prompt_of(engine: ScriptedEngine) -> str:
    request = engine.requests[-1]
    tokens = list(request.plan.tokens)[: request.publication.prompt_tokens]
    return b"".join(engine.frontend.token_bytes(token) for token in tokens).decode()


def test_the_history_grows_and_commands_change_it(
    conversation: Conversation, engine: ScriptedEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    obey(conversation, "/system Be kind.")
    engine.script = whole("First answer.")
    conversation.ask("First question?")
    engine.script = bytewise("Second answer.")
    conversation.ask("Second question?")
    prompt = prompt_of(engine)
    for text in ("Be kind.", "First question?", "First answer.", "Second question?"):
        assert text in prompt
    out, err = capsys.readouterr()
    assert out == "First answer.\nSecond answer.\n"
    assert err.count("prompt tokens reused (root)") == 2
    engine.script = whole("Another second answer.")
    obey(conversation, "/regen")
    assert "Second answer." not in prompt_of(engine)
    assert [turn.content for turn in conversation.turns][-1] == "Another second answer."
    obey(conversation, "/undo")
    assert [turn.content for turn in conversation.turns] == ["First question?", "First answer."]
    obey(conversation, "/undo")
    obey(conversation, "/undo")
    obey(conversation, "/regen")
    assert conversation.turns == ()
    obey(conversation, "/system")
    assert conversation.system is None
    assert obey(conversation, "/help")
    assert not obey(conversation, "/quit")


def test_thinking_is_shown_apart(
    conversation: Conversation, engine: ScriptedEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    obey(conversation, "/think on")
    engine.script = bytewise("Because.\n</think>\n\nYes.")
    conversation.ask("Why?")
    out, err = capsys.readouterr()
    assert out == "Yes.\n"
    plain = err.replace("\x1b[2m", "").replace("\x1b[0m", "")
    assert plain.splitlines()[-2] == "Because.", "reasoning ends its own line"
    assert engine.requests[-1].plan.opens_thinking
    assert conversation.turns[-1].reasoning_content == "Because."
    obey(conversation, "/think sideways")
    obey(conversation, "/think off")
    assert not conversation.think


def test_ctrl_c_stops_the_answer_and_keeps_what_was_said(
    conversation: Conversation, engine: ScriptedEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.script = Script(((b"word ",),), ends=False, step_s=0.01)
    watcher = threading.Thread(
        target=lambda: _interrupt_when(
            lambda: bool(engine.requests) and engine.requests[0].publication.decode_steps > 3
        )
    )
    watcher.start()
    conversation.ask("Talk for ever.")
    watcher.join()
    assert engine.requests[0].reason is FinishReason.CANCELLED
    assert conversation.turns[-1].content.startswith("word ")  # type: ignore[union-attr]
    assert ", stopped]" in capsys.readouterr().err
    engine.script = whole("Fine.")
    conversation.ask("Go on.")
    assert conversation.turns[-1].content == "Fine."


def _interrupt_when(holds: Callable[[], bool]) -> None:
    wait_until(holds)
    os.kill(os.getpid(), signal.SIGINT)


def test_a_failed_answer_is_said_and_not_kept(
    conversation: Conversation, engine: ScriptedEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.script = Script(((b"half",),), error=RequestFailed("it broke"))
    conversation.ask("Hello?")
    assert "the answer failed: it broke" in capsys.readouterr().err
    assert conversation.turns == ()
    assert conversation.turns == ()
    gate = threading.Event()
    engine.script = Script(gate=gate)
    watcher = threading.Thread(
        target=lambda: _interrupt_when(
            lambda: len(engine.requests) == 2 and engine.requests[1].publication.computed_tokens > 0
        )
    )
    watcher.start()
    conversation.ask("Stopped before a word?")
    watcher.join()
    err = capsys.readouterr().err
    assert "stopped before the first token" in err
    assert "tokens/s" not in err
    assert "the question was dropped" in err
    conversation.ask("word " * 3000)
    assert "fills the context" in capsys.readouterr().err
    assert conversation.turns == ()
