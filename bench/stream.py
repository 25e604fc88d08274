"""A lean streaming client over the standard library, so that the client takes little of the two cores."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Seen:
    """What one streamed request showed: moments of output in seconds since the request was sent, usage, timings."""

    moments: tuple[float, ...]
    usage: dict[str, Any]
    timings: dict[str, Any]

    @property
    def ttft_s(self) -> float:
        """Seconds to the first piece of output."""
        return self.moments[0]

    @property
    def decode_tokens_per_s(self) -> float:
        """Tokens after the first over the time after the first."""
        return (int(self.usage["completion_tokens"]) - 1) / (self.moments[-1] - self.moments[0])

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that were not computed."""
        return int(self.usage["prompt_tokens_details"]["cached_tokens"])


def stream(url: str, path: str, body: dict[str, Any]) -> Seen:
    """POST a streaming request and read it to its end. Raises RuntimeError on any other status than 200."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
    payload = json.dumps({**body, "stream": True, "stream_options": {"include_usage": True}})
    begin = perf_counter()
    connection.request("POST", path, payload, {"content-type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(f"{response.status}: {response.read()[:500]!r}")
    moments: list[float] = []
    usage: dict[str, Any] = {}
    timings: dict[str, Any] = {}
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        now = perf_counter() - begin
        event = json.loads(line[6:])
        if "error" in event:
            raise RuntimeError(str(event["error"]))
        if event.get("choices"):
            moments.append(now)
        if event.get("usage"):
            usage = event["usage"]
        timings = event.get("timings") or timings
    connection.close()
    return Seen(tuple(moments), usage, timings)
