"""What the demo plays: each scene asks through the client and notes what does not hold.

A warm turn may compute its new tokens and at most `GLUE_TOKENS` more: the last token of the answer before it, and the
template's own glue around the new message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from openai import OpenAI

from demo.client import Answer, arguments_of, ask
from demo.tools import draw_errand
from demo.words import Words

GLUE_TOKENS = 64
END, INPUT_POINT = "generation_endpoint", "recovery_point"


def says(text: str, words: str) -> bool:
    """Whether the words stand there as whole words: 12 is not said by 4123. No words are always said."""
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE) is not None


class Conversation:
    """One client-side history that grows by what was said."""

    def __init__(self, client: OpenAI, name: str, system: str | None = None) -> None:
        self.client = client
        self.name = name
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        self.last: Answer | None = None
        self.turns = 0

    def say(self, text: str, must_say: str = "") -> Answer:
        """A user turn. Every turn but the first must go on from the end of the one before."""
        return self._turn({"role": "user", "content": text}, must_say)

    def give_result(self, call: dict[str, str], result: dict[str, Any], must_say: str, **options: Any) -> Answer:
        """The result of a tool call, as a turn."""
        message = {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)}
        return self._turn(message, must_say, **options)

    def _turn(self, message: dict[str, Any], must_say: str, **options: Any) -> Answer:
        self.turns += 1
        self.messages.append(message)
        answer = ask(self.client, f"{self.name}, turn {self.turns}", self.messages, **options)
        answer.expect(says(answer.text, must_say), f"the answer does not say {must_say!r}")
        if self.last is not None:
            known = self.last.prompt_tokens + self.last.completion_tokens - 1
            answer.expect(answer.restore_path == END, f"went on from {answer.restore_path}, not from {END}")
            answer.expect(answer.reused_tokens >= known - 1, f"reused {answer.reused_tokens} of {known} known tokens")
            new = answer.prompt_tokens - known
            answer.expect(answer.computed_tokens <= new + GLUE_TOKENS, f"computed {answer.computed_tokens} tokens")
        self.messages.append(answer.message())
        self.last = answer
        return answer


def play_chat(client: OpenAI, words: Words) -> Iterator[Answer]:
    """Facts told in turn 1 are asked for turns later; then the last input is sent once more."""
    chat = Conversation(client, "chat")
    yield chat.say(f"Hello! My name is {words.user}. I live in {words.town}. My dog is called {words.pet}.")
    yield chat.say(f"By the way, my locker number is {words.locker}.")
    yield chat.say("Thank you very much!")
    yield chat.say("Where do I live?", words.town)
    yield chat.say("What is the name of my dog?", words.pet)
    yield chat.say("What is my locker number?", str(words.locker))
    last = chat.say("What is my name?", words.user)
    yield last
    again = ask(client, f"chat, turn {chat.turns} again", chat.messages[:-1])
    again.expect(again.text == last.text, f"the retry says {again.text!r}")
    again.expect(again.restore_path == INPUT_POINT, f"the retry began at {again.restore_path}")
    again.expect(again.computed_tokens <= GLUE_TOKENS, f"the retry computed {again.computed_tokens} tokens")
    yield again


def play_agent(client: OpenAI, seed: int) -> Iterator[Answer]:
    """Tool call, tool result, answer."""
    errand = draw_errand(seed)
    agent = Conversation(client, "agent")
    agent.messages.append({"role": "user", "content": errand.request})
    call = ask(client, "agent, call", agent.messages, tools=errand.tools)
    call.expect(len(call.calls) == 1, f"{len(call.calls)} calls instead of one")
    agent.messages.append(call.message())
    agent.last, agent.turns = call, 1
    if call.calls:
        made = call.calls[0]
        call.expect(made["name"] == errand.name, f"called {made['name']}, not {errand.name}")
        call.expect(arguments_of(made) == errand.arguments, f"arguments {made['arguments']}, not {errand.arguments}")
    yield call
    if call.calls:
        yield agent.give_result(call.calls[0], errand.result, errand.must_say, tools=errand.tools)


def play_interleaved(client: OpenAI, words: Words) -> Iterator[Answer]:
    """Two conversations take turns; each goes on from its own end and knows only its own facts."""
    left, right = Conversation(client, "left"), Conversation(client, "right", "Your name is Nova.")
    yield left.say(f"Hi, my name is {words.other_user}. My code is {words.code}.")
    yield right.say(f"Hi, I'm {words.friend}. My favourite food is {words.other_food}.")
    yield left.say("What is my code?", str(words.code))
    yield right.say("What is my favourite food?", words.other_food)
    for side, name, stranger in (
        (left, words.other_user, words.friend),
        (right, words.friend, words.other_user),
    ):
        answer = side.say("What is my name?", name)
        answer.expect(not says(answer.text, stranger), "named the person of the other conversation")
        yield answer
