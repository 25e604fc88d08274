"""One streamed chat request over the standard library, and what a user of it would have seen.

Times are the client's own; usage and timings are the server's word. Errors are values: a load goes on.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

CHAT_PATH = "/v1/chat/completions"
_LIMIT_S = 3600.0


@dataclass(slots=True)
class Seen:
    """One request. `moments`: seconds from `begin_s` at which output came; `error`: its code, None: all went well."""

    begin_s: float
    moments: list[float] = field(default_factory=list)
    end_s: float = 0.0
    text: str = ""
    reasoning: str = ""
    finish: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    @property
    def total_s(self) -> float:
        """From sending to the last byte."""
        return self.end_s - self.begin_s

    @property
    def ttft_s(self) -> float | None:
        """To the first piece of output."""
        return self.moments[0] if self.moments else None

    @property
    def longest_gap_s(self) -> float:
        """Between two pieces of output."""
        pairs = zip(self.moments, self.moments[1:], strict=False)
        return max((later - earlier for earlier, later in pairs), default=0.0)

    def message(self) -> dict[str, Any]:
        """As a client keeps it in its history."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        return message


class ChatClient:
    """Asks one server. Safe to use from several threads: each request has a connection of its own."""

    def __init__(self, url: str, key: str | None = None) -> None:
        parts = urlsplit(url if "//" in url else f"//{url}", scheme="http")
        self._is_tls = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port
        self._prefix = parts.path.rstrip("/").removesuffix("/v1")
        self._headers = {"content-type": "application/json"}
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"

    def ask(self, body: dict[str, Any]) -> Seen:
        """Stream one chat completion to its end. Never raises for what the server or the network does."""
        payload = {**body, "stream": True, "stream_options": {"include_usage": True}}
        seen = Seen(perf_counter())
        connection = self._connect()
        try:
            connection.request("POST", self._prefix + CHAT_PATH, json.dumps(payload), self._headers)
            response = connection.getresponse()
            if response.status == 200:
                self._read(response, seen)
            else:
                seen.error = _find_code(response.read(), response.status)
        except (OSError, http.client.HTTPException) as error:
            seen.error = type(error).__name__
        finally:
            connection.close()
        seen.end_s = perf_counter()
        return seen

    def fetch(self, path: str) -> str | None:
        """A GET's text; None when there is none to be had."""
        connection = self._connect()
        try:
            connection.request("GET", self._prefix + path, headers=self._headers)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
            return text if response.status == 200 else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._is_tls else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=_LIMIT_S)

    @staticmethod
    def _read(response: http.client.HTTPResponse, seen: Seen) -> None:
        for event in _list_events(response):
            if "error" in event:
                seen.error = str(event["error"].get("code") or "error")
                return
            seen.usage = event.get("usage") or seen.usage
            seen.timings = event.get("timings") or seen.timings
            for choice in event.get("choices", ()):
                delta = choice.get("delta", {})
                text, reasoning = delta.get("content") or "", delta.get("reasoning_content") or ""
                if text or reasoning or delta.get("tool_calls"):
                    seen.moments.append(perf_counter() - seen.begin_s)
                seen.text += text
                seen.reasoning += reasoning
                seen.finish = choice.get("finish_reason") or seen.finish
        if seen.finish is None:
            seen.error = "stream_cut"


def _list_events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """Up to the end of the stream, however it came: closed or reset is the same to who reads."""
    with suppress(ConnectionError, http.client.IncompleteRead):
        for line in response:
            if line.startswith(b"data: {"):
                yield json.loads(line[len(b"data: ") :])


def _find_code(body: bytes, status: int) -> str:
    try:
        return str(json.loads(body)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return f"http_{status}"
