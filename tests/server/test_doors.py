"""Who may come in and what every answer carries: keys, origins, request ids, health, models, the log line."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from ninfer.base.clock import ManualClock
from ninfer.base.errors import (
    BadInput,
    CapacityContractError,
    DeviceFailure,
    NInferError,
    Overloaded,
    QueueFull,
    QueueTimeout,
    RequestFailed,
    RequestTimeout,
)
from ninfer.config.options import ServerOptions
from ninfer.server.auth import KeyRing
from ninfer.server.journal import JsonJournal, LineJournal, ManyJournals, RequestRecord
from ninfer.server.service import Pace

from .clients import CHAT, NAMES, TEXT, Api
from .scripted import Script, ScriptedEngine, whole

KEYS = ("sk-first-key-123", "sk-second-key-456")
ROUTES = [
    ("GET", "/v1/models", None),
    ("GET", "/v1/models/org/tiny-chat", None),
    ("POST", CHAT, {"messages": [{"role": "user", "content": "x"}]}),
    ("POST", CHAT, {"messages": [{"role": "user", "content": "x"}], "stream": True}),
    ("POST", TEXT, {"prompt": "x"}),
    ("GET", "/v1/nothing", None),
    ("GET", CHAT, None),
    ("GET", "/metrics", None),
]


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
def test_every_route_but_health_needs_a_key(engine: ScriptedEngine, method: str, path: str, body: Any) -> None:
    """OPS-04: both headers, any case of the scheme, several keys; unknown routes too."""
    with Api(engine, ServerOptions(api_keys=KEYS)) as api:
        wrong: list[dict[str, str]] = [
            {},
            {"authorization": "Bearer nope"},
            {"x-api-key": "nope"},
            {"authorization": f"Basic {KEYS[0]}"},
            {"authorization": KEYS[0]},
            {"authorization": "Bearer"},
            {"authorization": f"Bearer {KEYS[0]}x"},
            {"authorization": "Bearer ", "x-api-key": ""},
        ]
        for headers in wrong:
            answer = api.request(method, path, json=body, headers=headers)
            assert answer.status_code == 401, headers
            assert answer.json()["error"]["code"] == "invalid_api_key"
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.headers["x-request-id"]
        right = [
            {"authorization": f"Bearer {KEYS[0]}"},
            {"authorization": f"bearer {KEYS[1]}"},
            {"authorization": f"BEARER   {KEYS[1]} "},
            {"x-api-key": KEYS[1]},
        ]
        for headers in right:
            assert api.request(method, path, json=body, headers=headers).status_code != 401
        assert api.get("/health").status_code == 200
        assert api.request("OPTIONS", path).status_code == 204


def test_keys_are_shown_nowhere(engine: ScriptedEngine) -> None:
    """OPS-04: neither in the log, nor in the representation of what holds them."""
    out = io.StringIO()
    with Api(engine, ServerOptions(api_keys=KEYS)) as api:
        api.chat(headers={"authorization": "Bearer sk-wrong-key"})
        api.post(CHAT, {"messages": [{"role": "user", "content": "x"}]}, headers={"x-api-key": KEYS[0]})
        for record in api.journal.records:
            LineJournal(out).write(record)
            JsonJournal(out).write(record)
        assert "sk-" not in out.getvalue()
    assert "sk-" not in repr(KeyRing(KEYS))


def test_cors_is_off_by_default(api: Api) -> None:
    """OPS-03."""
    asked = {"origin": "http://page.test", "access-control-request-method": "POST"}
    for answer in (api.request("OPTIONS", CHAT, headers=asked), api.get("/v1/models", headers=asked)):
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("origins", [("http://page.test",), ("*",)])
def test_cors_headers_are_on_every_answer(engine: ScriptedEngine, origins: tuple[str, ...]) -> None:
    """OPS-03: preflight without a key, streams, errors, refusals; the headers a client asks for are allowed."""
    wanted = "authorization, content-type, x-api-key, anthropic-version, x-stainless-retry-count"
    origin = {"origin": "http://page.test"}
    with Api(engine, ServerOptions(api_keys=KEYS, cors_origins=origins)) as api:
        preflight = api.request(
            "OPTIONS",
            CHAT,
            headers={**origin, "access-control-request-method": "POST", "access-control-request-headers": wanted},
        )
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-headers"] == wanted
        assert "POST" in preflight.headers["access-control-allow-methods"]
        keyed = {**origin, "x-api-key": KEYS[0]}
        chat = {"messages": [{"role": "user", "content": "x"}]}
        answers = [
            preflight,
            api.get("/v1/models", headers=keyed),
            api.post(CHAT, {**chat, "stream": True}, headers=keyed),
            api.post(CHAT, chat, headers=keyed),
            api.post(CHAT, {"messages": []}, headers=keyed),
            api.post(CHAT, chat, headers=origin),
            api.get("/nothing", headers=keyed),
            api.get("/health", headers=origin),
        ]
        expected = "*" if origins == ("*",) else "http://page.test"
        assert {answer.headers["access-control-allow-origin"] for answer in answers} == {expected}


def test_other_origins_get_nothing(engine: ScriptedEngine) -> None:
    with Api(engine, ServerOptions(cors_origins=("http://page.test",))) as api:
        asked = {"origin": "http://evil.test", "access-control-request-method": "POST"}
        for answer in (api.request("OPTIONS", CHAT, headers=asked), api.get("/v1/models", headers=asked)):
            assert not [name for name in answer.headers if name.startswith("access-control")]


def test_request_ids_are_echoed_or_made(api: Api) -> None:
    assert api.get("/v1/models", headers={"x-request-id": "my-id:1"}).headers["x-request-id"] == "my-id:1"
    made = {api.get("/health").headers["x-request-id"] for _ in range(10)}
    assert len(made) == 10
    for strange in ("with space", "a" * 129, 'quote"', "<b>"):
        assert api.get("/health", headers={"x-request-id": strange}).headers["x-request-id"].startswith("req_")
    assert api.chat(temperature=9).headers["x-request-id"]
    assert api.chat(stream=True).headers["x-request-id"]


def test_health_tells_the_phase(engine: ScriptedEngine) -> None:
    """OPS-01: 503 with a reason while loading, failed, stalled or draining; generation says the same."""
    with Api(engine, opened=False) as api:
        for route in (api.get("/health"), api.chat(), api.get("/v1/models")):
            assert route.status_code == 503
            assert "loading" in route.text
        assert api.chat().headers["retry-after"]
        api.service.open(engine)
        assert api.get("/health").json() == {
            "status": "ok",
            "phase": "ready",
            "lanes": 1,
            "running": 0,
            "waiting": 0,
            "paused": 0,
        }
        assert api.chat().status_code == 200
        engine.idle_s = 1000.0
        assert (api.get("/health").status_code, api.get("/health").json()["status"]) == (503, "stalled")
        engine.idle_s = 0.0
        assert api.get("/health").status_code == 200
        engine.failure = "the device is gone"
        health = api.get("/health")
        assert (health.status_code, health.json()["status"]) == (503, "failed")
        assert health.json()["reason"] == "the device is gone"
        assert api.chat().json()["error"]["code"] == "engine_failed"


def test_models_are_listed_with_their_limit(api: Api, engine: ScriptedEngine) -> None:
    """OPS-07, LIMIT-01: every name, also with a slash, plain or escaped; unknown ones are 404."""
    listed = api.get("/v1/models").json()
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == list(NAMES)
    for model in listed["data"]:
        assert (model["object"], model["max_model_len"]) == ("model", engine.max_context)
    for path in ("org/tiny-chat", "org%2Ftiny-chat"):
        assert api.get(f"/v1/models/{path}").json()["id"] == "org/tiny-chat"
    missing = api.get("/v1/models/org/other")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")


def test_the_log_line_explains_a_request_without_its_text(engine: ScriptedEngine) -> None:
    """OPS-06: id, sizes, cached, path, times, finish; no text, no session name."""
    engine.script = whole("SECRET-456")
    with Api(engine) as api:
        headers = {"x-request-id": "r1", "x-session-id": "SECRET-789"}
        api.post(CHAT, {"messages": [{"role": "user", "content": "SECRET-123"}]}, headers=headers)
        engine.script = Script(cached_tokens=4)
        api.chat(stream=True)
        api.chat(temperature=9, model="SECRET-1")
        api.get("/SECRET-2%0A")
        api.get("/health")
        lines, objects = io.StringIO(), io.StringIO()
        for record in api.journal.records:
            ManyJournals(LineJournal(lines), JsonJournal(objects)).write(record)
    text = lines.getvalue()
    assert len(text.splitlines()) == len(api.journal.records) == 4, "one line each, none for health"
    assert "SECRET" not in text + objects.getvalue()
    first = text.splitlines()[0]
    assert first.startswith(f"r1 POST {CHAT} 200 ")
    for name in (
        "prompt_tokens=",
        "cached_tokens=0",
        "output_tokens=2",
        "path=root",
        "finish=stop",
        "ttft_s=",
        "queued_s=",
    ):
        assert name in first
    parsed = [json.loads(line) for line in objects.getvalue().splitlines()]
    assert parsed[1]["cached_tokens"] == 4
    assert parsed[1]["cached_tokens"] + parsed[1]["computed_tokens"] == parsed[1]["prompt_tokens"]
    assert (parsed[2]["status"], parsed[2]["error"], parsed[2]["param"]) == (404, "model_not_found", "model")
    assert parsed[3]["route"] == "-"


def test_a_log_that_cannot_be_written_is_no_error() -> None:
    """Settled decision 12: optional work never fails required work."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    record = RequestRecord("r", "GET", "/v1/models", 200)
    LineJournal(Full()).write(record)
    closed = io.StringIO()
    closed.close()
    JsonJournal(closed).write(record)


def test_a_full_disk_is_told_once_and_does_not_spoil_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    """Settled decision 12: closing a file whose last lines do not fit may not turn a clean drain into exit code 1."""

    class Disk(io.StringIO):
        is_full = True

        def flush(self) -> None:
            if self.is_full:
                raise OSError(28, "No space left on device")

        def close(self) -> None:
            self.flush()

    disk = Disk()
    journal = JsonJournal(disk)
    for is_full in (True, True, False, True):
        disk.is_full = is_full
        journal.write(RequestRecord("r", "GET", "/v1/models", 200))
    journal.close()
    assert (
        capsys.readouterr().err.splitlines()
        == ["ninfer: the request log loses lines: [Errno 28] No space left on device"] * 2
    )


def test_the_session_hint_reaches_the_plan(api: Api, engine: ScriptedEngine) -> None:
    """The header wins over prompt_cache_key."""
    chat = {"messages": [{"role": "user", "content": "x"}], "prompt_cache_key": "k"}
    api.post(CHAT, chat)
    api.post(CHAT, chat, headers={"x-session-id": "s"})
    api.post(TEXT, {"prompt": "x", "prompt_cache_key": "k"})
    assert [request.plan.session for request in engine.requests] == ["k", "s", "k"]


def test_a_full_queue_asks_for_patience(engine: ScriptedEngine) -> None:
    with Api(engine) as api:
        engine.crash = QueueFull("the waiting queue is full")
        answer = api.chat()
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "queue_full")
        assert answer.headers["retry-after"] == "1"


def test_retry_after_follows_the_pace_at_which_requests_end() -> None:
    """A full queue has room again when the next request ends: every ten seconds here, later every half a second."""
    clock = ManualClock()
    pace = Pace(clock)
    for between_s, retry_s in ((10.0, 10), (0.5, 1), (1000.0, 60)):
        for _ in range(60):
            clock.advance(between_s)
            pace.note_end()
        assert pace.retry_after_s() == retry_s


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Overloaded("shutting down"), 503, "overloaded"),
        (QueueFull("full"), 429, "queue_full"),
        (QueueTimeout("too long in the queue"), 503, "queue_timeout"),
        (RequestTimeout("too long in all"), 504, "request_timeout"),
        (CapacityContractError("need 9 pages, capacity 8"), 503, "capacity_exceeded"),
        (DeviceFailure("SECRET"), 503, "engine_failed"),
        (RequestFailed("SECRET"), 500, "internal_error"),
        (BadInput("wrong", param="x", code="invalid_value"), 400, "invalid_value"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_each_way_a_request_fails_has_its_status(
    engine: ScriptedEngine, error: NInferError, status: int, code: str, stream: bool
) -> None:
    """SCHED-09: one request's error is that request's answer, with a status a client can act on."""
    with Api(engine) as api:
        engine.script = Script(steps=(), error=error)
        if stream:
            assert api.stream()[-1]["error"]["code"] == code
        else:
            answer = api.chat()
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
            assert "SECRET" not in answer.text
            assert ("retry-after" in answer.headers) == (status in (429, 503) and code != "capacity_exceeded")
        assert api.journal.records[-1].error == code
        engine.script = Script()
        assert api.chat().status_code == 200
