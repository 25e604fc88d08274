"""What the two OpenAI completion routes have in common: body, text work, submission, delivery."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from starlette.types import Receive, Scope, Send

from ninfer.server.body import read_body
from ninfer.server.gate import find_record
from ninfer.server.service import Ask, ServedEngine, Service
from ninfer.server.stream import Renderer, collect_answer, stream_answer
from ninfer.server.wire import find_header


@dataclass(frozen=True, slots=True)
class Job:
    """A request that passed every check: what to generate, and how to say it."""

    ask: Ask
    renderer: Renderer
    streams: bool
    model: str


@dataclass(frozen=True, slots=True)
class Context:
    """What a protocol needs besides the body. `session`: the caller's hint which conversation this is."""

    service: Service
    engine: ServedEngine
    session: str | None


Prepare = Callable[[bytes, Context], Job]
"""Body to job; runs on a text thread, raises ApiError or BadInput."""


class CompletionRoute:
    """One POST route, an ASGI application."""

    def __init__(self, service: Service, path: str, prepare: Prepare) -> None:
        self._service = service
        self._path = path
        self._prepare = prepare

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service, record = self._service, find_record(scope)
        options = service.options
        record.route = self._path
        body = await read_body(
            scope,
            receive,
            limit_bytes=options.body_limit_bytes,
            timeout_s=options.body_timeout_s,
            clock=service.clock,
        )
        record.body_bytes = len(body)
        context = Context(service, service.require_engine(), find_header(scope, b"x-session-id"))
        began = service.clock.now()
        job = await service.run_text_work(partial(self._prepare, body, context))
        record.plan_s = service.clock.now() - began
        record.model, record.stream = job.model, job.streams
        record.prompt_tokens = len(job.ask.plan.tokens)
        generation = service.submit(job.ask, record)
        if job.streams:
            await stream_answer(generation, job.renderer, options, scope, receive, send)
        else:
            reply = await collect_answer(generation, job.renderer, receive)
            await reply(scope, receive, send)
