"""A conversation as text, written exactly as `chat_template.jinja` writes it (a test compares the two)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Message:
    """One turn. `weight` is how much an assistant turn counts in the loss."""

    role: str
    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    weight: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The message in the shape that chat interfaces use."""
        out: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.reasoning:
            out["reasoning_content"] = self.reasoning
        if self.calls:
            out["tool_calls"] = [{"type": "function", "function": {"name": n, "arguments": a}} for n, a in self.calls]
        return out


def _call_text(name: str, arguments: dict[str, Any]) -> str:
    lines = [f"<tool_call>\n<function={name}>\n"]
    for key, value in arguments.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"<parameter={key}>\n{shown}\n</parameter>\n")
    return "".join(lines) + "</function>\n</tool_call>"


def assistant_body(message: Message) -> str:
    """What the model writes after the closed thinking block, end mark excluded."""
    calls = "\n".join(_call_text(name, arguments) for name, arguments in message.calls)
    return message.content + ("\n\n" if message.content and calls else "") + calls


def render(messages: Sequence[Message], tools: Sequence[dict[str, Any]] = ()) -> str:
    """The whole conversation, without a generation prompt."""
    out: list[str] = []
    system = messages[0].content if messages and messages[0].role == "system" else None
    if tools:
        listed = "".join("\n" + json.dumps(tool, ensure_ascii=False) for tool in tools)
        tail = "\n\n" + system if system else ""
        out.append(f"<|im_start|>system\n# Tools\n\n<tools>{listed}\n</tools>{tail}<|im_end|>\n")
    elif system is not None:
        out.append(f"<|im_start|>system\n{system}<|im_end|>\n")
    previous = ""
    for i, m in enumerate(messages):
        if m.role == "user":
            out.append(f"<|im_start|>user\n{m.content}<|im_end|>\n")
        elif m.role == "assistant":
            out.append(f"<|im_start|>assistant\n<think>\n{m.reasoning}\n</think>\n\n{assistant_body(m)}<|im_end|>\n")
        elif m.role == "tool":
            opening = "" if previous == "tool" else "<|im_start|>user"
            last = i + 1 == len(messages) or messages[i + 1].role != "tool"
            out.append(f"{opening}\n<tool_response>\n{m.content}\n</tool_response>" + ("<|im_end|>\n" if last else ""))
        previous = m.role
    return "".join(out)
