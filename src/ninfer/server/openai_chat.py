"""/v1/chat/completions: from the body's bytes to a job. No JSON goes further."""

from __future__ import annotations

import secrets

from ninfer.base.clock import unix_seconds
from ninfer.server.body import decode_fields, decode_struct
from ninfer.server.cache_input import read_session
from ninfer.server.chat_input import read_chat
from ninfer.server.fields import check_chat_fields
from ninfer.server.openai_chat_render import ChatRenderer
from ninfer.server.route import Context, Job
from ninfer.server.sampling import (
    check_budget,
    check_context,
    check_floor,
    check_stop_tokens,
    clamp_budget,
    read_logprobs,
    read_sampling,
    read_stops,
    read_thinking_budget,
    wants_usage,
)
from ninfer.server.schema import ChatFields
from ninfer.server.service import Ask


def prepare_chat(body: bytes, context: Context) -> Job:
    """Check, render, tokenise. Raises ApiError or BadInput; nothing has reached the engine then."""
    raw = decode_fields(body)
    check_chat_fields(raw)
    fields = decode_struct(raw, ChatFields)
    service, frontend = context.service, context.engine.frontend
    model = service.find_model(fields.model)
    params = read_sampling(fields, context.engine.default_sampling, frontend.vocab_size)
    stops = read_stops(fields.stop)
    logprobs = read_logprobs(fields.logprobs, fields.top_logprobs)
    budget_name, budget = "max_completion_tokens", fields.max_completion_tokens
    if budget is None:
        budget_name, budget = "max_tokens", fields.max_tokens
    check_budget(budget, budget_name)
    check_floor(fields.min_tokens, budget)
    check_stop_tokens(fields.stop_token_ids, frontend.vocab_size)
    thought = read_thinking_budget(fields.thinking_token_budget, fields.thinking_budget)
    chat = read_chat(fields, read_session(context.session, fields.prompt_cache_key))
    plan = frontend.plan_chat(chat)
    max_context = context.engine.max_context
    check_context(len(plan.tokens), max_context, "messages")
    renderer = ChatRenderer(
        answer_id=f"chatcmpl-{secrets.token_hex(12)}",
        created=unix_seconds(),
        model=model,
        wants_usage=wants_usage(fields) or not fields.stream,
        wants_progress=fields.return_progress and fields.stream,
        wants_logprobs=logprobs is not None,
    )
    ask = Ask(
        plan=plan,
        params=params,
        max_tokens=clamp_budget(budget, len(plan.tokens), max_context),
        min_tokens=fields.min_tokens,
        stops=stops,
        stop_token_ids=tuple(fields.stop_token_ids),
        logprobs=logprobs,
        ignore_eos=fields.ignore_eos,
        thinking_budget=thought,
        parser=frontend.channel_parser(plan, chat),
        single_call=not fields.parallel_tool_calls,
    )
    return Job(ask, renderer, fields.stream, model)
