"""Text work of a warm turn on a long conversation: render, probe, protection, tokens, digests; and of a cold one.

Words are drawn from a seed, so the tokenizer has no cheap repetitions. Beside wall time the thread's own CPU time is
given: on a busy machine it is the steadier figure. The last rows say how long another thread had to wait for the
interpreter meanwhile.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, sleep, thread_time

from bench.table import Row
from ninfer.frontend.frontend import Frontend
from ninfer.frontend.messages import ChatInput, Message, PastToolCall, Role, ToolSpec

ROOT = Path(__file__).resolve().parents[1]
BUNDLED = ROOT / "src" / "ninfer" / "bundled_model"
FIXTURE = ROOT / "tests" / "data" / "fixtures" / "dense_text"
MESSAGES = 600
TOKENS = 100_000
TURNS = 21
GOAL_MS = 20.0


class Words:
    """Filler text from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        letters = "etaoinshrdlucmfwypvbgk"
        self._known = ["".join(self._random.choices(letters, k=self._random.randint(2, 8))) for _ in range(4000)]

    def text(self, words: int) -> str:
        """That many words, no two texts equal."""
        return " ".join(self._random.choices(self._known, k=words))


def conversation(words: Words, scale: float) -> list[Message]:
    """An agent's history of MESSAGES messages, ending with a user's. `scale` stretches every text."""

    def text(count: int) -> str:
        return words.text(max(1, int(count * scale)))

    messages = [Message(Role.SYSTEM, text(1500))]
    while len(messages) < MESSAGES - 1:
        call = PastToolCall("read_file", json.dumps({"path": text(3), "pattern": text(6)}), f"call_{len(messages)}")
        messages.append(Message(Role.USER, text(40)))
        messages.append(Message(Role.ASSISTANT, text(20), (call,), text(30)))
        messages.append(Message(Role.TOOL, text(100), tool_call_id=call.id))
        messages.append(Message(Role.ASSISTANT, text(50), (), text(30)))
    return [*messages, Message(Role.USER, text(20))]


def declared_tools(words: Words) -> tuple[ToolSpec, ...]:
    """A dozen tools with described parameters."""
    tools = []
    for name in ("read_file", *(f"tool_{number}" for number in range(11))):
        properties = {key: {"type": "string", "description": words.text(8)} for key in ("path", "pattern")}
        function = {"name": name, "description": words.text(30), "parameters": {"properties": properties}}
        tools.append(ToolSpec(name, {"type": "function", "function": function}))
    return tuple(tools)


def fresh_copy(messages: list[Message]) -> tuple[Message, ...]:
    """Equal messages of new strings, as a new request brings them: no cached hash, no shared object."""
    return tuple(
        Message(
            message.role,
            f"{message.content} "[:-1],
            tuple(PastToolCall(call.name, f"{call.arguments} "[:-1], call.id) for call in message.tool_calls),
            None if message.reasoning_content is None else f"{message.reasoning_content} "[:-1],
            message.tool_call_id,
        )
        for message in messages
    )


def long_history(frontend: Frontend, words: Words, tools: tuple[ToolSpec, ...]) -> list[Message]:
    """A conversation of about TOKENS tokens with this tokenizer."""
    small = len(frontend.plan_chat(ChatInput(tuple(conversation(words, 0.1)), tools)).tokens)
    large = len(frontend.plan_chat(ChatInput(tuple(conversation(words, 1.0)), tools)).tokens)
    return conversation(words, max(0.05, 0.1 + 0.9 * (TOKENS - small) / max(1, large - small)))


def warm_turns(frontend: Frontend, messages: list[Message], tools: tuple[ToolSpec, ...], words: Words) -> list[Row]:
    """Each turn appends an answer and a question and plans the whole conversation again."""
    wall, cpu, tokens = [], [], 0
    for _ in range(TURNS):
        messages += [Message(Role.ASSISTANT, words.text(40)), Message(Role.USER, words.text(20))]
        request = ChatInput(fresh_copy(messages), tools)
        started, spent = perf_counter(), thread_time()
        plan = frontend.plan_chat(request)
        wall.append((perf_counter() - started) * 1000)
        cpu.append((thread_time() - spent) * 1000)
        tokens = len(plan.tokens)
    return [
        Row("prompt of the last turn", tokens, "tokens"),
        Row("warm turn, wall", median(wall), "ms", f"<= {GOAL_MS:g}", median(wall) <= GOAL_MS),
        Row("warm turn, CPU", median(cpu), "ms"),
    ]


def longest_wait_ms(work: Callable[[], object]) -> float:
    """The longest time another thread was kept from running while `work` ran; it asks every millisecond."""
    over = threading.Event()
    longest = 0.0

    def watch() -> None:
        nonlocal longest
        last = perf_counter()
        while not over.is_set():
            sleep(0.001)
            now = perf_counter()
            longest, last = max(longest, (now - last) * 1000), now

    watcher = threading.Thread(target=watch)
    watcher.start()
    work()
    over.set()
    watcher.join()
    return longest


def measure() -> list[Row]:
    """All rows, for the bundled tokenizer and template (the fixture's where there is no bundled model)."""
    model_dir = BUNDLED if (BUNDLED / "tokenizer.json").is_file() else FIXTURE
    words = Words(7)
    tools = declared_tools(words)
    started = perf_counter()
    frontend = Frontend.from_dir(model_dir, b"bench", 2 * TOKENS)
    rows = [Row("load tokenizer and template", (perf_counter() - started) * 1000, "ms")]
    messages = long_history(frontend, words, tools)
    started = perf_counter()
    frontend.plan_chat(ChatInput(tuple(messages), tools))
    rows.append(Row("cold turn, wall", (perf_counter() - started) * 1000, "ms"))
    rows += warm_turns(frontend, messages, tools, words)
    request = ChatInput(fresh_copy(messages), tools)
    rows.append(
        Row("longest wait of another thread, warm turn", longest_wait_ms(lambda: frontend.plan_chat(request)), "ms")
    )
    novel = words.text(300_000)
    rows.append(
        Row("longest wait of another thread, 300k new words", longest_wait_ms(lambda: frontend.plan_text(novel)), "ms")
    )
    return rows


if __name__ == "__main__":
    table = measure()
    for row in table:
        print(row.line())
    sys.exit(any(row.met is False for row in table))
