"""The routes, joined with the gate into one ASGI application."""

from __future__ import annotations

from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from ninfer.server.auth import KeyRing
from ninfer.server.cors import CorsPolicy
from ninfer.server.errors import ApiError
from ninfer.server.gate import Gate, find_record
from ninfer.server.journal import Journal, ManyJournals
from ninfer.server.metrics import MetricsRoute, RequestTally
from ninfer.server.openai_chat import prepare_chat
from ninfer.server.openai_completions import prepare_completion
from ninfer.server.openai_wire import ModelList, ModelOut
from ninfer.server.route import CompletionRoute
from ninfer.server.service import Phase, Service
from ninfer.server.wire import JsonReply

CHAT_PATH = "/v1/chat/completions"
COMPLETIONS_PATH = "/v1/completions"
MODELS_PATH = "/v1/models"
HEALTH_PATH = "/health"
METRICS_PATH = "/metrics"
_PATHS = frozenset({CHAT_PATH, COMPLETIONS_PATH, MODELS_PATH, HEALTH_PATH, METRICS_PATH})
_SHOWN_CHARACTERS = 200


def build_app(service: Service, journal: Journal) -> ASGIApp:
    """The application. `service` may still be loading."""
    tally = RequestTally()
    router = Router(
        routes=[
            Route(HEALTH_PATH, HealthRoute(service), methods=["GET"]),
            Route(METRICS_PATH, MetricsRoute(service, tally), methods=["GET"]),
            Route(MODELS_PATH, ModelsRoute(service), methods=["GET"]),
            Route(MODELS_PATH + "/{model:path}", ModelsRoute(service), methods=["GET"]),
            Route(CHAT_PATH, CompletionRoute(service, CHAT_PATH, prepare_chat), methods=["POST"]),
            Route(COMPLETIONS_PATH, CompletionRoute(service, COMPLETIONS_PATH, prepare_completion), methods=["POST"]),
        ],
        redirect_slashes=False,
        default=_refuse_unknown_path,
    )
    options = service.options
    return Gate(
        router,
        keys=KeyRing(options.api_keys),
        cors=CorsPolicy(options.cors_origins),
        journal=ManyJournals(tally, journal),
        clock=service.clock,
    )


async def _refuse_unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
    del receive, send
    path: str = scope["path"]
    shown = path if len(path) <= _SHOWN_CHARACTERS else path[:_SHOWN_CHARACTERS] + "..."
    meant = _find_meant_path(path)
    hint = f" Did you mean {meant}?" if meant is not None else ""
    raise ApiError(404, f"There is no route {shown}.{hint}", code="not_found")


def _find_meant_path(path: str) -> str | None:
    """The route of a client whose base URL lacks `/v1`, has it twice, or that adds a slash."""
    bare = path.rstrip("/")
    for candidate in (bare, "/v1" + bare, bare.removeprefix("/v1")):
        if candidate in _PATHS:
            return candidate
    return None


class HealthRoute:
    """200 while requests are served; else 503 with the phase and the reason. Needs no key and asks no thread."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        find_record(scope).route = HEALTH_PATH
        phase, reason = self._service.find_phase()
        load = self._service.find_load()
        body: dict[str, str | int] = {"status": "ok" if phase is Phase.READY else phase.value, "phase": phase.value}
        if phase is not Phase.READY:
            body["reason"] = reason or phase.value
        if load is not None:
            body.update(lanes=load.lanes, running=load.residents, waiting=load.waiting, paused=load.paused)
        await JsonReply(200 if phase is Phase.READY else 503, body)(scope, receive, send)


class ModelsRoute:
    """The served names, with the context limit (LIMIT-01, OPS-07)."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        find_record(scope).route = MODELS_PATH
        service = self._service
        asked = scope.get("path_params", {}).get("model")
        max_context = service.require_engine().max_context
        if not asked:
            models = [ModelOut(name, service.created, max_context) for name in service.names]
            reply = JsonReply(200, ModelList(models))
        else:
            reply = JsonReply(200, ModelOut(service.find_model(asked), service.created, max_context))
        await reply(scope, receive, send)
