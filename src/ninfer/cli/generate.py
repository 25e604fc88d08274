"""`ninfer generate`: one generation, for scripts and comparisons."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from ninfer.cli.engine_options import engine_options, env_option, read_engine_options
from ninfer.cli.listening import listen
from ninfer.cli.opening import opened_engine
from ninfer.engine.facade import Engine
from ninfer.frontend.messages import ChatInput, Message, Role
from ninfer.frontend.plan import InputPlan
from ninfer.ports.output import Failed, Finished, GenerationStart, OutputDelta, RestorePath
from ninfer.ports.sampling import SamplingParams


@click.command("generate")
@engine_options
@click.option("--ids", help="Prompt as a JSON list of token ids.")
@click.option("--prompt", help="Prompt as raw text.")
@click.option("--chat", help="A user's message, put through the chat template.")
@env_option("--max-tokens", type=click.IntRange(min=1), default=128, show_default=True, help="Output budget.")
@env_option("--temperature", type=click.FloatRange(0.0, 2.0), help="0 is greedy. [default: the model's]")
@env_option("--top-p", type=click.FloatRange(0.0, 1.0, min_open=True), help="[default: the model's]")
@env_option("--top-k", type=click.IntRange(min=0), help="0 is off. [default: the model's]")
@env_option("--seed", type=int, help="Same seed, same draw.")
@click.option("--ignore-eos", is_flag=True, help="Go on to the budget, past stop tokens.")
@click.option("--stop", multiple=True, help="Stop string; several allowed.")
@env_option("--think/--no-think", default=None, help="Whether the template opens a think block (with --chat).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the text.")
def command(**given: Any) -> int:
    """Generate from one of --ids, --prompt and --chat.

    MODEL_DIR: or NINFER_MODEL_DIR; default: the bundled model.
    """
    options = read_engine_options(given)
    sources = [name for name in ("ids", "prompt", "chat") if given[name] is not None]
    if len(sources) != 1:
        raise click.UsageError("give one of --ids, --prompt and --chat")
    ids = None if given["ids"] is None else _read_ids(given["ids"])
    with opened_engine(options) as engine:
        plan = _plan(engine, ids, given)
        report = generate(
            engine,
            plan,
            _read_params(engine, given),
            max_tokens=given["max_tokens"],
            stop=given["stop"],
            ignore_eos=given["ignore_eos"],
        )
    if given["as_json"]:
        click.echo(json.dumps(report, ensure_ascii=False))
    else:
        click.echo(report["text"])
    return 0


def _read_ids(text: str) -> list[int]:
    try:
        ids = json.loads(text)
    except (ValueError, RecursionError):
        ids = None
    if not isinstance(ids, list) or not ids or any(isinstance(i, bool) or not isinstance(i, int) for i in ids):
        raise click.UsageError("--ids must be a JSON list of token ids, for example '[1,2,3]'")
    return ids


def _plan(engine: Engine, ids: list[int] | None, given: dict[str, Any]) -> InputPlan:
    if ids is not None:
        return engine.frontend.plan_tokens(ids)
    if given["prompt"] is not None:
        if not given["prompt"]:
            raise click.UsageError("--prompt must not be empty")
        return engine.frontend.plan_text(given["prompt"])
    kwargs: dict[str, object] = {} if given["think"] is None else {"enable_thinking": given["think"]}
    return engine.frontend.plan_chat(ChatInput((Message(Role.USER, given["chat"]),), template_kwargs=kwargs))


def _read_params(engine: Engine, given: dict[str, Any]) -> SamplingParams:
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
