"""Drives a load: so many conversations at a time, each one turn after the other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any

from .client import ChatClient, Seen
from .script import Conversation, LoadShape, Question, list_conversations


@dataclass(frozen=True, slots=True)
class Sample:
    """One request and what was seen of it."""

    question: Question
    seen: Seen


def drive(client: ChatClient, shape: LoadShape, concurrency: int, fields: dict[str, Any]) -> list[Sample]:
    """All requests, in the order in which they were sent. `fields`: of every body, such as the model's name.

    A conversation whose request fails ends there: what comes later has no history to stand on.
    """
    samples: list[Sample] = []
    lock = Lock()

    def hold(conversation: Conversation) -> None:
        while (question := conversation.next_question()) is not None:
            body = {**fields, "messages": question.messages, "max_tokens": shape.output_tokens}
            seen = client.ask(body)
            with lock:
                samples.append(Sample(question, seen))
            if seen.error is not None:
                return
            conversation.note_answer(seen.message())

    with ThreadPoolExecutor(concurrency) as pool:
        list(pool.map(hold, list_conversations(shape)))
    return sorted(samples, key=lambda sample: sample.seen.begin_s)
