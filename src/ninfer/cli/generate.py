"""`ninfer generate`: one generation, for scripts and comparisons."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import click

from ninfer.cli.engine_options import NumberRange, engine_options, env_option, read_engine_options
from ninfer.cli.listening import listen
from ninfer.cli.main import EXIT_INTERRUPTED
from ninfer.cli.opening import opened_engine
from ninfer.engine.facade import Engine
from ninfer.frontend.channels import ChannelParser, ContentDelta, ReasoningDelta
from ninfer.frontend.messages import ChatInput, Message, Role
from ninfer.frontend.plan import InputPlan
from ninfer.ports.output import Failed, Finished, FinishReason, GenerationStart, OutputDelta, RestorePath
from ninfer.ports.sampling import SamplingParams


@click.command("generate")
@engine_options
@click.option("--ids", help="Prompt as a JSON list of token ids.")
@click.option("--prompt", help="Prompt as raw text.")
@click.option("--chat", help="A user's message, put through the chat template.")
@env_option("--max-tokens", type=click.IntRange(min=1), default=128, show_default=True, help="Output budget.")
@env_option("--temperature", type=NumberRange(0.0, 2.0), help="0 is greedy. [default: the model's]")
@env_option("--top-p", type=NumberRange(0.0, 1.0), help="0 is greedy. [default: the model's]")
@env_option("--top-k", type=click.IntRange(min=0), help="0 is off. [default: the model's]")
@env_option("--seed", type=int, help="Same seed, same draw.")
@click.option("--ignore-eos", is_flag=True, help="Go on to the budget, past stop tokens.")
@click.option("--stop", multiple=True, help="Stop string; several allowed.")
@env_option("--think/--no-think", default=None, help="Whether the template opens a think block (with --chat).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the text.")
def command(**given: Any) -> int:
    """Generate from one of --ids, --prompt and --chat.

    MODEL_DIR: or NINFER_MODEL_DIR; default: the bundled model. With --chat, reasoning goes to stderr and the answer
    to stdout.
    """
    options = read_engine_options(given)
    sources = [name for name in ("ids", "prompt", "chat") if given[name] is not None]
    if len(sources) != 1:
        raise click.UsageError("give one of --ids, --prompt and --chat")
    if given["prompt"] == "":
        raise click.UsageError("--prompt must not be empty")
    if "" in given["stop"]:
        raise click.UsageError("--stop must not be empty")
    ids = None if given["ids"] is None else _read_ids(given["ids"])
    with opened_engine(options) as engine:
        question = _read_question(engine, ids, given)
        report = generate(
            engine,
            question.plan,
            _read_params(engine, given),
            max_tokens=given["max_tokens"],
            stop=given["stop"],
            ignore_eos=given["ignore_eos"],
        )
    if question.parser is not None:
        report |= _split_channels(question.parser, report["text"], report["finish_reason"])
    _print(report, as_json=given["as_json"])
    if report["finish_reason"] != FinishReason.CANCELLED.value:
        return 0
    click.echo("ninfer: interrupted, the output is cut short", err=True)
    return EXIT_INTERRUPTED


def _print(report: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False))
        return
    if report.get("reasoning"):
        click.echo(click.style(report["reasoning"], dim=True), err=True)
    click.echo(report.get("content", report["text"]))


def _read_ids(text: str) -> list[int]:
    try:
        ids = json.loads(text)
    except (ValueError, RecursionError):
        ids = None
    if not isinstance(ids, list) or not ids or any(isinstance(i, bool) or not isinstance(i, int) for i in ids):
        raise click.UsageError("--ids must be a JSON list of token ids, for example '[1,2,3]'")
    return ids


@dataclass(frozen=True, slots=True)
class Question:
    """What to generate from; `parser` reads the channels of a chat's answer, raw input has none."""

    plan: InputPlan
    parser: ChannelParser | None = None


def _read_question(engine: Engine, ids: list[int] | None, given: dict[str, Any]) -> Question:
    if ids is not None:
        return Question(engine.frontend.plan_tokens(ids))
    if given["prompt"] is not None:
        return Question(engine.frontend.plan_text(given["prompt"]))
    kwargs: dict[str, object] = {} if given["think"] is None else {"enable_thinking": given["think"]}
    chat = ChatInput((Message(Role.USER, given["chat"]),), template_kwargs=kwargs)
    plan = engine.frontend.plan_chat(chat)
    return Question(plan, engine.frontend.channel_parser(plan, chat))


def _split_channels(parser: ChannelParser, text: str, finish_reason: str) -> dict[str, str | None]:
    """`reasoning` is None when there is none; `content` is a string always."""
    events = [*parser.push(text), *parser.finish(finish_reason != FinishReason.STOP.value)]
    reasoning = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    content = "".join(event.text for event in events if isinstance(event, ContentDelta))
    return {"reasoning": reasoning or None, "content": content}


def _read_params(engine: Engine, given: dict[str, Any]) -> SamplingParams:
    if given["top_p"] == 0.0:  # the smallest set that is not empty: the best token alone, as over HTTP
        given = {**given, "top_p": 1.0, "top_k": 1}
    chosen = {name: given[name] for name in ("temperature", "top_p", "top_k", "seed") if given[name] is not None}
    return replace(engine.default_sampling, **chosen)


def generate(
    engine: Engine,
    plan: InputPlan,
    params: SamplingParams,
    *,
    max_tokens: int,
    stop: tuple[str, ...] = (),
    ignore_eos: bool = False,
) -> dict[str, Any]:
    """Run one generation to its end. `output_ids` holds every token drawn whose text is in `text`, and the stop token.

    Raises what ended it, if it was an error.
    """
    from ninfer.server.openai_wire import render_timings

    text: list[str] = []
    output_ids: list[int] = []
    path: RestorePath | None = None
    for event in listen(engine, plan, params, max_tokens=max_tokens, stop=stop, ignore_eos=ignore_eos):
        match event:
            case GenerationStart():
                path = event.restore_path
            case OutputDelta():
                text.append(event.text)
                output_ids.extend(token.token_id for token in event.tokens)
            case Failed():
                raise event.error
            case Finished():
                if event.stop_token is not None:
                    output_ids.append(event.stop_token)
                timings = render_timings(event.timings, event.usage, path)
                return {
                    "prompt_tokens": event.usage.prompt_tokens,
                    "output_ids": output_ids,
                    "text": "".join(text),
                    "finish_reason": event.reason.value,
                    "cached_tokens": event.usage.cached_tokens,
                    "timings": {name: getattr(timings, name) for name in timings.__struct_fields__},
                }
            case _:
                continue
    raise AssertionError("a generation ends with its last event")
