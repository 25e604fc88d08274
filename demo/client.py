"""One streamed chat request through the official `openai` client, and what was seen of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from openai import OpenAI


@dataclass(slots=True)
class Answer:
    """Text, calls and figures of one request. Times are the client's own, `restore_path` is the server's word."""

    name: str
    prompt_tokens: int = 0
    reused_tokens: int = 0
    restore_path: str = ""
    ttft_s: float = 0.0
    longest_gap_s: float = 0.0
    tokens_per_s: float = 0.0
    completion_tokens: int = 0
    text: str = ""
    reasoning: str = ""
    calls: list[dict[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    """When each piece of output came, by the monotonic clock."""
    timings: dict[str, Any] = field(default_factory=dict)
    """The server's own figures."""

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that were really computed."""
        return self.prompt_tokens - self.reused_tokens

    def message(self) -> dict[str, Any]:
        """The assistant message as a client sends it back."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [
                {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
                for c in self.calls
            ]
        return message

    def expect(self, holds: bool, what: str) -> None:
        """Note a problem unless it holds."""
        if not holds:
            self.problems.append(what)


def ask(client: OpenAI, name: str, messages: list[dict[str, Any]], **options: Any) -> Answer:
    """Stream one chat completion, greedily, and collect what came."""
    answer = Answer(name)
    begin = last = monotonic()
    options.setdefault("max_tokens", 120)
    stream = client.chat.completions.create(
        model="ninfer",
        messages=messages,  # type: ignore[arg-type]
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
        **options,
    )
    for chunk in stream:
        now = monotonic()
        if chunk.choices and _take_delta(answer, chunk.choices[0].delta):
            if answer.ttft_s == 0.0:
                answer.ttft_s = now - begin
            else:
                answer.longest_gap_s = max(answer.longest_gap_s, now - last)
            last = now
            answer.moments.append(now)
        if chunk.usage is not None:
            _take_usage(answer, chunk)
    return answer


def complete(client: OpenAI, answer: Answer, prompt: list[int], max_tokens: int) -> Answer:
    """Stream one raw completion of token ids, greedily and to its full length, into `answer`."""
    stream = client.completions.create(
        model="ninfer",
        prompt=prompt,
        max_tokens=max_tokens,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )
    for chunk in stream:
        if chunk.choices and chunk.choices[0].text:
            answer.text += chunk.choices[0].text
            answer.moments.append(monotonic())
        if chunk.usage is not None:
            _take_usage(answer, chunk)
    return answer


def _take_delta(answer: Answer, delta: Any) -> bool:
    """Append what the delta carries; whether it carried output."""
    extra = delta.model_extra or {}
    answer.text += delta.content or ""
    answer.reasoning += extra.get("reasoning_content") or ""
    for part in delta.tool_calls or []:
        if part.index == len(answer.calls):
            answer.calls.append({"id": part.id, "name": part.function.name, "arguments": ""})
        answer.calls[part.index]["arguments"] += part.function.arguments or ""
    return bool(delta.content or extra.get("reasoning_content") or delta.tool_calls)


def _take_usage(answer: Answer, chunk: Any) -> None:
    usage, timings = chunk.usage, (chunk.model_extra or {}).get("timings") or {}
    answer.timings = timings
    answer.prompt_tokens = usage.prompt_tokens
    answer.completion_tokens = usage.completion_tokens
    answer.reused_tokens = usage.prompt_tokens_details.cached_tokens
    answer.restore_path = timings.get("restore_path", "?")
    answer.tokens_per_s = timings.get("tokens_per_second") or 0.0


def arguments_of(call: dict[str, str]) -> dict[str, Any]:
    """The call's arguments, parsed; an unparsable text gives an empty dictionary."""
    try:
        parsed = json.loads(call["arguments"])
    except json.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
