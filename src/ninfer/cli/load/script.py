"""What the load asks: conversations drawn from a seed, turn by turn, with one retry each. Pure; the answers come in."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_SUBJECTS = (
    "the cook",
    "my sister",
    "a sailor",
    "the old teacher",
    "our neighbour",
    "the small dog",
    "a friend of mine",
)
_VERBS = ("sees", "likes", "carries", "paints", "forgets", "buys", "looks for", "talks about")
_OBJECTS = (
    "the red boat",
    "a warm coat",
    "two green apples",
    "the long letter",
    "a blue cup",
    "the garden",
    "old songs",
)
_PLACES = ("at the lake", "in the kitchen", "near the station", "on the hill", "after lunch", "every morning")
FIRST, NEXT, RETRY = "first", "next", "retry"


@dataclass(frozen=True, slots=True)
class LoadShape:
    """How much is asked. `first_words`, `next_words`: lengths of user messages."""

    conversations: int = 8
    turns: int = 4
    first_words: int = 400
    next_words: int = 40
    output_tokens: int = 48
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Question:
    """One request of a conversation. `kind`: FIRST and NEXT turns, and the RETRY of the last input."""

    conversation: int
    turn: int
    kind: str
    messages: tuple[dict[str, Any], ...]

    @property
    def name(self) -> str:
        """For tables and plots."""
        return f"conversation {self.conversation}, " + (self.kind if self.kind == RETRY else f"turn {self.turn}")


@dataclass(slots=True)
class Conversation:
    """One client-side history. Ask `next_question`, answer it with `note_answer`, until it is None."""

    number: int
    shape: LoadShape
    _source: random.Random = field(init=False)
    _messages: list[dict[str, Any]] = field(init=False)
    _turn: int = 0
    _last: Question | None = None

    def __post_init__(self) -> None:
        self._source = random.Random(f"{self.shape.seed} {self.number}")
        self._messages = [{"role": "system", "content": f"You are assistant {self.number}."}]

    def next_question(self) -> Question | None:
        """What is asked now; depends on the answers so far, as a client's history does."""
        if self._turn < self.shape.turns:
            self._turn += 1
            words = self.shape.first_words if self._turn == 1 else self.shape.next_words
            self._messages.append({"role": "user", "content": write_text(self._source, words)})
            kind = FIRST if self._turn == 1 else NEXT
        elif self._last is not None and self._last.kind != RETRY:
            del self._messages[-1]  # the same input once more, without its answer
            kind = RETRY
        else:
            return None
        self._last = Question(self.number, self._turn, kind, tuple(self._messages))
        return self._last

    def note_answer(self, message: dict[str, Any]) -> None:
        """The assistant's message, as a client keeps it."""
        self._messages.append(message)


def list_conversations(shape: LoadShape) -> list[Conversation]:
    """All conversations of the load, numbered from 1."""
    return [Conversation(number, shape) for number in range(1, shape.conversations + 1)]


def write_text(source: random.Random, words: int) -> str:
    """About so many words of plain sentences."""
    return " ".join(_write_sentences(source, words))


def _write_sentences(source: random.Random, words: int) -> Iterator[str]:
    written = 0
    while written < words:
        parts = [source.choice(choices) for choices in (_SUBJECTS, _VERBS, _OBJECTS, _PLACES)]
        sentence = " ".join(parts).capitalize() + "."
        written += len(sentence.split())
        yield sentence
