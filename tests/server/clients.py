"""Ways to talk to the server under test, and readers of what it says."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import uvloop

from ninfer.base.clock import SystemClock
from ninfer.config.options import ServerOptions
from ninfer.server.app import build_app
from ninfer.server.journal import RequestRecord
from ninfer.server.run import DrainingServer, bind_socket, find_url
from ninfer.server.service import Service

NAMES = ("tiny", "org/tiny-chat")
CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"


class MemoryJournal:
    """Keeps the records."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []

    def write(self, record: RequestRecord) -> None:
        self.records.append(record)


class Api:
    """The application in this process; every call runs the event loop until its answer is complete."""

    def __init__(
        self,
        engine: Any,
        options: ServerOptions | None = None,
        *,
        opened: bool = True,
        names: tuple[str, ...] = NAMES,
    ) -> None:
        self.service = Service(options or ServerOptions(), names, SystemClock())
        if opened:
            self.service.open(engine)
        self.journal = MemoryJournal()
        self.app = build_app(self.service, self.journal)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Api:
        transport = httpx2.ASGITransport(app=self.app, raise_app_exceptions=True)
        self._client = httpx2.AsyncClient(transport=transport, base_url="http://test")
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
        self.service.close()

    def request(self, method: str, path: str, **settings: Any) -> httpx2.Response:
        return self._runner.run(self._client.request(method, path, **settings))

    def get(self, path: str, **settings: Any) -> httpx2.Response:
        return self.request("GET", path, **settings)

    def post(self, path: str, body: Any = None, **settings: Any) -> httpx2.Response:
        if isinstance(body, bytes):
            return self.request("POST", path, content=body, **settings)
        return self.request("POST", path, json=body, **settings)

    def chat(self, text: str = "hello", **fields: Any) -> httpx2.Response:
        return self.post(CHAT, {"messages": [{"role": "user", "content": text}], **fields})

    def ask(self, text: str = "hello", **fields: Any) -> dict[str, Any]:
        """The body of a chat completion that must succeed."""
        answer = self.chat(text, **fields)
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    def stream(self, text: str = "hello", **fields: Any) -> list[dict[str, Any]]:
        """The chunks of a streamed chat completion that must succeed."""
        answer = self.chat(text, stream=True, **fields)
        assert answer.status_code == 200, answer.text
        return read_events(answer.text)


def read_events(text: str) -> list[dict[str, Any]]:
    """JSON payloads of a complete event stream; checks the framing, and that it ends with [DONE] or an error."""
    frames = text.split("\n\n")
    assert frames[-1] == "", "a stream ends with an empty line"
    payloads = []
    for frame in frames[:-1]:
        assert "\n" not in frame
        if frame.startswith(":"):
            continue
        assert frame.startswith("data: "), frame
        payloads.append(frame.removeprefix("data: "))
    chunks = [json.loads(payload, parse_constant=_refuse) for payload in payloads if payload != "[DONE]"]
    if "error" in chunks[-1]:
        assert "[DONE]" not in payloads
    else:
        assert payloads.index("[DONE]") == len(payloads) - 1
    return chunks


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def fold_chat(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """A client's own way to add up a stream: message, finish, logprobs, usage, timings."""
    message: dict[str, Any] = {"role": None, "content": ""}
    calls: list[dict[str, Any]] = []
    folded: dict[str, Any] = {"finish_reason": None, "logprobs": None, "usage": None, "timings": None}
    for position, chunk in enumerate(chunks):
        folded["usage"] = chunk.get("usage") or folded["usage"]
        folded["timings"] = chunk.get("timings") or folded["timings"]
        for choice in chunk["choices"]:
            assert choice["index"] == 0
            assert folded["finish_reason"] is None, "nothing follows the finish"
            delta = choice["delta"]
            assert ("role" in delta) == (position == 0), "the role comes first and once"
            message["role"] = delta.get("role", message["role"])
            message["content"] += delta.get("content", "")
            if "reasoning_content" in delta:
                message["reasoning_content"] = message.get("reasoning_content", "") + delta["reasoning_content"]
            for call in delta.get("tool_calls", []):
                _fold_call(calls, call)
            if choice["logprobs"] is not None:
                folded["logprobs"] = folded["logprobs"] or {"content": [], "refusal": None}
                folded["logprobs"]["content"] += choice["logprobs"]["content"]
            folded["finish_reason"] = choice["finish_reason"]
    if calls:
        message["tool_calls"] = calls
    return {"message": message, **folded}


def _fold_call(calls: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    if piece["index"] == len(calls):
        assert set(piece) == {"index", "id", "type", "function"}
        assert piece["function"] == {"name": piece["function"]["name"], "arguments": ""}
        calls.append({"id": piece["id"], "type": piece["type"], "function": dict(piece["function"])})
        return
    assert piece["index"] == len(calls) - 1, "calls come one after the other"
    assert set(piece) == {"index", "function"}
    calls[-1]["function"]["arguments"] += piece["function"]["arguments"]


class LiveServer:
    """The server on a free loopback port, on an event loop of its own."""

    def __init__(self, engine: Any, options: ServerOptions | None = None, *, opened: bool = True) -> None:
        self.service = Service(options or ServerOptions(), NAMES, SystemClock())
        if opened:
            self.service.open(engine)
        self.journal = MemoryJournal()
        self.drains: list[int] = []
        self._server = DrainingServer(
            build_app(self.service, self.journal), self.service, failed_linger_s=0.3, on_drain_signal=self.drains.append
        )
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> LiveServer:
        self._socket = bind_socket("127.0.0.1", 0)
        self.url = find_url(self._socket)
        self.port: int = self._socket.getsockname()[1]
        self._thread.start()
        assert self._listening.wait(10)
        return self

    def _run(self) -> None:
        uvloop.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve_on(self._socket, self._listening.set)

    def drain(self) -> None:
        """What SIGTERM does."""
        self._loop.call_soon_threadsafe(self._server.take_signal)

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)
        assert not self._thread.is_alive()

    def join(self, timeout_s: float) -> bool:
        """Whether the server has ended by itself."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @contextmanager
    def connect(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            yield connection

    def send_chat(self, connection: socket.socket, text: str = "hello", **fields: Any) -> None:
        """A raw chat request."""
        body = json.dumps({"messages": [{"role": "user", "content": text}], **fields}).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nhost: test\r\ncontent-length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)


def wait_until(holds: Any, timeout_s: float = 5.0) -> None:
    """Poll; fails when it does not become true in time."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def read_until(connection: socket.socket, mark: bytes) -> bytes:
    """Everything up to and including the first occurrence of `mark`."""
    data = b""
    while mark not in data:
        part = connection.recv(65536)
        assert part, f"the connection ended before {mark!r}: {data[-200:]!r}"
        data += part
    return data


def read_all(connection: socket.socket) -> bytes:
    """Everything until the peer closes."""
    data = b""
    while part := connection.recv(65536):
        data += part
    return data
