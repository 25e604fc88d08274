"""`ninfer chat`: a conversation in the terminal, or over pipes. Answers on stdout, everything else on stderr."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import click

from ninfer.base.errors import NInferError
from ninfer.cli.engine_options import NumberRange, engine_options, env_option, find_model_name, read_engine_options
from ninfer.cli.listening import listen
from ninfer.cli.opening import opened_engine
from ninfer.engine.facade import Engine
from ninfer.frontend.channels import ChannelEvent, ContentDelta, ReasoningDelta, ToolCall
from ninfer.frontend.messages import ChatInput, Message, Role
from ninfer.ports.output import Failed, Finished, FinishReason, GenerationStart, OutputDelta
from ninfer.ports.sampling import SamplingParams

_HELP = """\
/undo            forget the last question and its answer
/regen           answer the last question again
/system [TEXT]   set the system prompt; without TEXT remove it
/think [on|off]  let the model think before it answers
/help            this list
/quit            leave (so does the end of input)
Ctrl+C stops the answer."""


@click.command("chat")
@engine_options
@env_option("--system", default=None, help="System prompt.")
@env_option("--max-tokens", type=click.IntRange(min=1), help="Budget of one answer. [default: what the context leaves]")
@env_option("--temperature", type=NumberRange(0.0, 2.0), help="0 is greedy. [default: the model's]")
@env_option("--seed", type=int, help="Same seed and same conversation, same answers.")
@env_option("--think/--no-think", default=False, show_default=True, help="Let the model think before it answers.")
def command(**given: Any) -> int:
    """Talk to MODEL_DIR (or NINFER_MODEL_DIR; default: the bundled model).

    Shows after each answer what was reused. Type /help inside.
    """
    options = read_engine_options(given)
    with opened_engine(options) as engine:
        params = engine.default_sampling
        if given["temperature"] is not None:
            params = replace(params, temperature=given["temperature"])
        conversation = Conversation(engine, params, given["seed"], given["max_tokens"])
        conversation.system, conversation.think = given["system"], given["think"]
        if sys.stdin.isatty():
            click.echo(
                f"Talking to {find_model_name(options.model_dir)}. /help lists commands, /quit leaves.", err=True
            )
        _converse(conversation)
    return 0


def _converse(conversation: Conversation) -> None:
    """Read lines until the end of input or /quit."""
    with suppress(ImportError):
        import readline  # noqa: F401  (gives `input` a history and line editing, where the platform has it)
    while True:
        line = _read_line()
        if line is None:
            return
        text = line.strip()
        if text.startswith("/"):
            if not obey(conversation, text):
                return
        elif text:
            conversation.ask(text)


def _read_line() -> str | None:
    """The next line; None at the end of input. Ctrl+C at the prompt drops the line."""
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        return line or None
    try:
        return input("> ")
    except KeyboardInterrupt:
        click.echo(err=True)
        return ""
    except EOFError:
        click.echo(err=True)
        return None


def obey(conversation: Conversation, text: str) -> bool:
    """Carry out one /command; False: leave."""
    name, _, argument = text.partition(" ")
    argument = argument.strip()
    commands: dict[str, Callable[[], None]] = {
        "/undo": conversation.undo,
        "/regen": conversation.regenerate,
        "/system": lambda: conversation.set_system(argument),
        "/think": lambda: conversation.set_think(argument),
        "/help": lambda: _say(_HELP),
    }
    if name in ("/quit", "/exit"):
        return False
    if name in commands:
        commands[name]()
    else:
        _say(f"{name} is not a command; /help lists them")
    return True


@dataclass(slots=True)
class Answer:
    """What came of one question."""

    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not self.content and not self.reasoning

    def as_message(self) -> Message:
        """As it stands in the history, so that the next turn finds the same tokens again."""
        reasoning = "".join(self.reasoning) if self.reasoning else None
        return Message(Role.ASSISTANT, "".join(self.content), reasoning_content=reasoning)


class Conversation:
    """The history, and one question at a time."""

    def __init__(self, engine: Engine, params: SamplingParams, seed: int | None, max_tokens: int | None) -> None:
        self._engine = engine
        self._params = params
        self._seed = seed
        self._max_tokens = max_tokens
        self._turns: list[Message] = []
        self.system: str | None = None
        self.think = False

    @property
    def turns(self) -> tuple[Message, ...]:
        """Questions and answers so far, without the system prompt."""
        return tuple(self._turns)

    def ask(self, text: str) -> None:
        """Answer a new question; when that fails, the question is not kept."""
        self._turns.append(Message(Role.USER, text))
        if not self._answer():
            self._turns.pop()
            _say("the question was dropped")

    def undo(self) -> None:
        """Forget the last question and its answer."""
        if not self._turns:
            _say("there is nothing to undo")
            return
        del self._turns[-2:]
        left = len(self._turns) // 2
        _say("1 exchange is left" if left == 1 else f"{left or 'no'} exchanges are left")

    def regenerate(self) -> None:
        """Answer the last question again; the old answer stays when that fails."""
        if not self._turns:
            _say("there is nothing to answer")
            return
        old = self._turns.pop()
        if not self._answer():
            self._turns.append(old)
            _say("the old answer stays")

    def set_system(self, text: str) -> None:
        """Replace or remove the system prompt."""
        self.system = text or None
        _say("the system prompt is set" if text else "there is no system prompt")

    def set_think(self, word: str) -> None:
        """Switch thinking on or off; without a word, over."""
        if word not in ("", "on", "off"):
            _say("say /think on or /think off")
            return
        self.think = not self.think if not word else word == "on"
        _say(f"thinking is {'on' if self.think else 'off'}")

    def _answer(self) -> bool:
        """Stream the answer to the last question. False: it failed, or was stopped before its first word."""
        try:
            return self._stream_answer()
        except NInferError as error:
            _say(f"the answer failed: {error}")
            return False

    def _stream_answer(self) -> bool:
        engine = self._engine
        lead = () if self.system is None else (Message(Role.SYSTEM, self.system),)
        chat = ChatInput((*lead, *self._turns), template_kwargs={"enable_thinking": self.think})
        plan = engine.frontend.plan_chat(chat)
        room = engine.max_context - len(plan.tokens)
        if room < 1:
            _say(f"the conversation fills the context of {engine.max_context} tokens; /undo makes room")
            return False
        parser = engine.frontend.channel_parser(plan, chat)
        params = replace(self._params, seed=secrets.randbits(63) if self._seed is None else self._seed)
        answer, budget, path = Answer(), min(room, self._max_tokens or room), "root"
        for event in listen(engine, plan, params, max_tokens=budget):
            match event:
                case GenerationStart():
                    path = event.restore_path.value.replace("_", " ")
                case OutputDelta():
                    _show(parser.push(event.text), answer)
                case Failed():
                    raise event.error
                case Finished():
                    _show(parser.finish(event.reason is not FinishReason.STOP), answer)
                    _end_text(answer)
                    _say(f"[{_sum_up(event, path)}]")
                case _:
                    continue
        if answer.is_empty:
            return False
        self._turns.append(answer.as_message())
        return True


def _show(events: list[ChannelEvent], answer: Answer) -> None:
    for event in events:
        match event:
            case ReasoningDelta():
                answer.reasoning.append(event.text)
                click.echo(click.style(event.text, dim=True), nl=False, err=True)
            case ContentDelta():
                if answer.reasoning and not answer.content:
                    click.echo(err=True)  # ends the line of the reasoning
                answer.content.append(event.text)
                click.echo(event.text, nl=False)
            case ToolCall():  # no tool is declared here
                continue


def _end_text(answer: Answer) -> None:
    """End the line that is open: on stderr after reasoning alone, else on stdout."""
    if not answer.is_empty:
        click.echo(err=not answer.content)


def _sum_up(event: Finished, path: str) -> str:
    """The figures of the answer, as far as there are any."""
    usage, timings = event.usage, event.timings
    reused = f"{usage.cached_tokens} of {usage.prompt_tokens} prompt tokens reused ({path})"
    if not usage.completion_tokens:
        return f"{reused}; stopped before the first token, {timings.computed_prompt_tokens} prompt tokens computed"
    count = "1 token" if usage.completion_tokens == 1 else f"{usage.completion_tokens} tokens"
    parts = [f"first token {timings.ttft_s * 1000:.0f} ms", count]
    if usage.completion_tokens > 1 and timings.decode_s > 0:
        parts.append(f"{(usage.completion_tokens - 1) / timings.decode_s:.0f} tokens/s")
    match event.reason:
        case FinishReason.STOP:
            pass
        case FinishReason.LENGTH:
            parts.append("cut by its budget")
        case FinishReason.CANCELLED:
            parts.append("stopped")
    return f"{reused}; {', '.join(parts)}"


def _say(text: str) -> None:
    click.echo(text, err=True)
