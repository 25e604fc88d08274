"""Connections that end, stall or crawl, over real sockets: work for nobody stops, others notice nothing."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import httpx2
import pytest

from ninfer.config.options import ServerOptions
from ninfer.ports.output import FinishReason
from ninfer.sim.device import SimFaults

from .clients import CHAT, LiveServer, read_all, read_until, wait_until
from .scripted import Script, ScriptedEngine, whole
from .simulated import SimulatedEngine

ENDLESS = Script(((b"word ",),), ends=False, step_s=0.01)


def close(connection: socket.socket) -> None:
    connection.close()


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.fixture
def quick(engine: ScriptedEngine) -> Iterator[LiveServer]:
    """A server whose limits are short."""
    options = ServerOptions(
        body_timeout_s=0.5,
        ping_interval_s=0.05,
        unread_limit_bytes=64 * 1024,
        stalled_reader_timeout_s=20.0,
        drain_timeout_s=1.0,
        body_limit_bytes=1 << 20,
    )
    with LiveServer(engine, options) as server:
        yield server


@pytest.mark.parametrize("leave", [close, reset])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_while_decoding_frees_its_lane(
    live: LiveServer, engine: ScriptedEngine, stream: bool, leave: Callable[[socket.socket], None]
) -> None:
    """LIFE-01: streaming or not, FIN or RST; the next request starts at once; the record says cancelled."""
    engine.script = ENDLESS
    with live.connect() as connection:
        live.send_chat(connection, stream=stream)
        wait_until(lambda: engine.requests and engine.requests[0].publication.decode_steps > 3)
        leave(connection)
        assert engine.requests[0].ended.wait(1.0)
    assert engine.requests[0].reason is FinishReason.CANCELLED
    engine.script = whole("hi")
    began = time.monotonic()
    assert httpx2.post(live.url + CHAT, json={"messages": [{"role": "user", "content": "hi"}]}).status_code == 200
    assert time.monotonic() - began < 1.5
    wait_until(lambda: len(live.journal.records) == 2)
    record = live.journal.records[0]
    assert (record.finish, record.error) == ("cancelled", "client_disconnected")
    assert record.computed_tokens == len(engine.requests[0].plan.tokens)
    assert record.output_tokens == engine.requests[0].publication.completion_tokens > 3


@pytest.mark.parametrize("leave", [close, reset])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_while_its_prompt_is_read_stops_it(
    live: LiveServer, engine: ScriptedEngine, stream: bool, leave: Callable[[socket.socket], None]
) -> None:
    """LIFE-02: noticed at the next chunk, though nothing is written meanwhile."""
    engine.script = Script(prefill_s=0.02, chunk_tokens=1)
    with live.connect() as connection:
        live.send_chat(connection, "word " * 600, stream=stream)
        wait_until(lambda: engine.requests and engine.requests[0].computed_tokens > 2)
        leave(connection)
        assert engine.requests[0].ended.wait(1.5)
    assert engine.requests[0].computed_tokens < len(engine.requests[0].plan.tokens) / 5


@pytest.mark.parametrize("stream", [False, True])
def test_clients_that_leave_the_queue_are_never_run(live: LiveServer, engine: ScriptedEngine, stream: bool) -> None:
    """LIFE-03: ten dead requests are dropped with nothing computed; the living one is next."""
    gate = threading.Event()
    engine.script = Script(gate=gate)
    with live.connect() as busy:
        live.send_chat(busy)
        wait_until(lambda: engine.requests and engine.requests[0].publication.has_started)
        engine.script = Script()
        queued = [socket.create_connection(("127.0.0.1", live.port)) for _ in range(10)]
        for connection in queued:
            live.send_chat(connection, stream=stream)
        wait_until(lambda: len(engine.requests) == 11)
        for connection in queued:
            connection.close()
        wait_until(lambda: all(request.cancelled.is_set() for request in engine.requests[1:11]))
        gate.set()
        read_until(busy, b'"finish_reason"')
    assert httpx2.post(live.url + CHAT, json={"messages": [{"role": "user", "content": "x"}]}).status_code == 200
    assert {request.reason for request in engine.requests[1:11]} == {FinishReason.CANCELLED}
    assert {request.computed_tokens for request in engine.requests[1:11]} == {0}
    wait_until(lambda: len(live.journal.records) == 12)
    cancelled = [record for record in live.journal.records if record.finish == "cancelled"]
    assert [(record.computed_tokens, record.output_tokens) for record in cancelled] == [(0, 0)] * 10


@pytest.mark.parametrize("stream", [False, True])
def test_half_a_close_is_no_goodbye(live: LiveServer, engine: ScriptedEngine, stream: bool) -> None:
    """LIFE-02: a client that ends its sending side still gets its whole answer."""
    engine.script = Script(((b"word ",),) * 30, step_s=0.01)
    with live.connect() as connection:
        live.send_chat(connection, stream=stream)
        connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)
    assert answer.count(b"word ") == 30
    assert b'"finish_reason":"stop"' in answer
    assert engine.requests[0].reason is FinishReason.STOP
    if not stream:
        interim, _, last = answer.rpartition(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert set(interim.replace(b"HTTP/1.1 100 Continue", b"").split()) == set()
        assert last.startswith(b"HTTP/1.1 200 OK")


def test_a_client_that_stops_reading_is_cut_off(quick: LiveServer, engine: ScriptedEngine) -> None:
    """LIFE-06: only its own bounded buffer fills; others go on at full speed; then it is cancelled."""
    engine.close()
    fresh = ScriptedEngine(lanes=2)
    quick.service.open(fresh)
    fresh.script = Script(((b"x" * 8192,),), ends=False, step_s=0.0005)
    with quick.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        quick.send_chat(connection, stream=True, max_tokens=100_000)
        read_until(connection, b"xxxx")
        assert fresh.requests[0].ended.wait(10.0), "it must be cancelled although it never closes"
        assert fresh.requests[0].reason is FinishReason.CANCELLED
        fresh.script = whole("fine")
        began = time.monotonic()
        body = {"messages": [{"role": "user", "content": "x"}]}
        assert httpx2.post(quick.url + CHAT, json=body).status_code == 200
        assert time.monotonic() - began < 1.0
    wait_until(lambda: len(quick.journal.records) == 2)
    assert {record.error for record in quick.journal.records} == {"client_not_reading", None}
    fresh.close()


def test_a_reader_that_pauses_gets_everything(live: LiveServer, engine: ScriptedEngine) -> None:
    """LIFE-06: below the limit a slow reader loses nothing."""
    engine.script = Script(((b"y" * 4096,),) * 200)
    with live.connect() as connection:
        live.send_chat(connection, stream=True, max_tokens=1000)
        time.sleep(0.3)
        answer = read_until(connection, b"data: [DONE]")
    assert answer.count(b"y" * 4096) == 200


def test_pings_fill_every_silence(quick: LiveServer, engine: ScriptedEngine) -> None:
    """ANTH-09, SCHED-12: in the queue, in prefill, and while a call is held back; comments that clients skip."""
    gate = threading.Event()
    engine.script = Script(gate=gate)
    with quick.connect() as busy, quick.connect() as waiting:
        quick.send_chat(busy, stream=True)
        wait_until(lambda: len(engine.requests) == 1)
        engine.script = whole("done")
        quick.send_chat(waiting, stream=True)
        arrivals = []
        waiting.settimeout(2.0)
        read_until(waiting, b"\r\n\r\n")
        for _ in range(6):
            read_until(waiting, b": ping\n\n")
            arrivals.append(time.monotonic())
        assert max(b - a for a, b in pairwise(arrivals)) < 0.5
        assert not engine.requests[1].publication.has_started
        read_until(busy, b": ping\n\n")
        gate.set()
        assert b"done" in read_until(waiting, b"data: [DONE]")


def test_a_body_over_the_limit_is_refused_before_it_is_read(quick: LiveServer, engine: ScriptedEngine) -> None:
    """LIMIT-04: with Content-Length, chunked, and with a length that lies; the client gets to read the answer."""
    limit = 1 << 20
    prefix, suffix = b'{"messages":[],"x":"', b'"}'
    fitting = prefix + b"a" * (limit - len(prefix) - len(suffix)) + suffix
    assert httpx2.post(quick.url + CHAT, content=fitting).status_code == 400
    for content in (fitting + b" ", fitting * 3, iter([fitting, b" " * 10]), iter([b"a" * 65536] * 40)):
        answer = httpx2.post(quick.url + CHAT, content=content)  # type: ignore[arg-type]
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "request_too_large"
        assert answer.headers["x-request-id"]
    with quick.connect() as connection:
        connection.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: t\r\ncontent-length: 999999999999\r\n\r\n".encode())
        assert b"413" in read_until(connection, b"\r\n")
    answer = httpx2.post(quick.url + CHAT, content=b"\x1f\x8b", headers={"content-encoding": "gzip"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_encoding")
    assert engine.requests == []


def test_slow_bodies_time_out_and_disturb_nobody(quick: LiveServer) -> None:
    """LIMIT-04: forty clients that send a byte now and then."""
    slow = [socket.create_connection(("127.0.0.1", quick.port), timeout=10) for _ in range(40)]
    head = f"POST {CHAT} HTTP/1.1\r\nhost: t\r\ncontent-length: 1000\r\n\r\n".encode()
    for connection in slow:
        connection.sendall(head)
    deadline = time.monotonic() + 0.8
    while time.monotonic() < deadline:
        for connection in slow:
            try:
                connection.sendall(b"a")
            except OSError:
                deadline = 0.0
        began = time.monotonic()
        assert httpx2.get(quick.url + "/health").status_code == 200
        assert time.monotonic() - began < 1.0
        time.sleep(0.1)
    for connection in slow[:5]:
        answer = read_until(connection, b"request_timeout")
        assert b" 408 " in answer
    for connection in slow:
        connection.close()


def test_a_client_that_leaves_before_its_body_is_complete(live: LiveServer, engine: ScriptedEngine) -> None:
    with live.connect() as connection:
        connection.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: t\r\ncontent-length: 1000\r\n\r\n{{".encode())
    wait_until(lambda: len(live.journal.records) == 1)
    assert live.journal.records[0].finish == "cancelled"
    assert engine.requests == []


def test_what_is_no_http_gets_an_error_body(live: LiveServer) -> None:
    with live.connect() as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error"]["code"] == "invalid_http"


def test_a_drain_lets_requests_end_and_refuses_new_ones(quick: LiveServer, engine: ScriptedEngine) -> None:
    """SIGTERM drains: health says so, new work is refused, what runs may end, then the server is gone."""
    gate = threading.Event()
    engine.script = Script(((b"last words",),), gate=gate)
    with quick.connect() as running, httpx2.Client(base_url=quick.url) as other:
        quick.send_chat(running, stream=True)
        wait_until(lambda: engine.requests and engine.requests[0].publication.has_started)
        assert other.get("/health").status_code == 200
        quick.drain()
        wait_until(lambda: other.get("/health").status_code == 503)
        assert other.get("/health").json()["status"] == "draining"
        refused = other.post(CHAT, json={"messages": [{"role": "user", "content": "x"}]})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        gate.set()
        answer = read_until(running, b"[DONE]")
        assert b"last words" in answer
    assert quick.join(5.0)
    assert quick.drains == [1], "the signal told how many requests were in flight"


def test_a_drain_ends_what_takes_too_long(quick: LiveServer, engine: ScriptedEngine) -> None:
    """After the drain timeout a stream gets an error event, not a silent end."""
    engine.script = ENDLESS
    with quick.connect() as running:
        quick.send_chat(running, stream=True)
        read_until(running, b"word ")
        quick.drain()
        answer = read_all(running)
    assert b'"error":{' in answer
    assert b"[DONE]" not in answer
    assert quick.join(5.0)
    assert engine.requests[0].reason is FinishReason.CANCELLED


def test_health_is_fast_while_the_engine_is_busy(live: LiveServer, engine: ScriptedEngine) -> None:
    """OPS-01: it asks no thread; SAMP-06: nor does a large refused body block it."""
    engine.script = ENDLESS
    with live.connect() as connection, httpx2.Client(base_url=live.url) as client:
        live.send_chat(connection, stream=True)
        wait_until(lambda: engine.requests)
        large = json.dumps({"messages": [], "logit_bias": {str(n): 1 for n in range(300_000)}}).encode()
        sender = threading.Thread(target=lambda: httpx2.post(live.url + CHAT, content=large))
        sender.start()
        times = []
        for _ in range(20):
            began = time.monotonic()
            assert client.get("/health").status_code == 200
            times.append(time.monotonic() - began)
        sender.join()
        assert sorted(times)[len(times) * 9 // 10] < 0.2
        assert sorted(times)[len(times) // 2] < 0.05


def test_many_streams_at_once(live: LiveServer, engine: ScriptedEngine) -> None:
    """Eight streams through one event bridge: none gets another's words."""
    engine.close()
    fresh = ScriptedEngine(lanes=8)
    live.service.open(fresh)

    def script_of(plan: object) -> Script:
        number = len(fresh.requests)
        return Script(tuple((f"<{number}:{step}>".encode(),) for step in range(50)))

    fresh.script = script_of
    answers: list[str] = []

    def ask() -> None:
        body = {"messages": [{"role": "user", "content": "x"}], "stream": True}
        answers.append(httpx2.post(live.url + CHAT, json=body, timeout=30).text)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = set()
    for answer in answers:
        events = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith("data: {")]
        texts.add("".join(c["choices"][0]["delta"].get("content", "") for c in events))
    assert texts == {"".join(f"<{number}:{step}>" for step in range(50)) for number in range(16)}
    fresh.close()


def test_a_failed_engine_is_told_and_ends_the_server() -> None:
    """OPS-01, SCHED-09: the request under way hears it, health says failed, then the server goes for a restart."""
    engine = SimulatedEngine(SimFaults(fail_submission=12))
    engine.script = Script(((b"word ",),) * 100)
    body = {"messages": [{"role": "user", "content": "x"}], "stream": True}
    with LiveServer(engine) as server:
        answer = httpx2.post(server.url + CHAT, json=body)
        assert '"code":"engine_failed"' in answer.text
        assert "[DONE]" not in answer.text
        health = httpx2.get(server.url + "/health")
        assert (health.status_code, health.json()["status"]) == (503, "failed")
        assert httpx2.post(server.url + CHAT, json=body).json()["error"]["code"] == "engine_failed"
        assert server.join(5.0)
    engine.close()


def test_a_connection_without_a_request_is_closed(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """LIMIT-04: a header that never ends holds nothing for long; a slow body is not cut by this."""
    monkeypatch.setattr("ninfer.server.protocol.HEADER_TIMEOUT_S", 0.2)
    with live.connect() as silent, live.connect() as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\nhost:")
        assert silent.recv(1) == b""
        assert slow.recv(1) == b""
    with live.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: t\r\n\r\n")
        read_until(connection, b'"status"')
        time.sleep(0.3)
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: t\r\n\r\n")
        read_until(connection, b'"status"')
