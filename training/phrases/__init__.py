"""Phrasings by intent. Every `Phrases` keeps a training list and a held-out list that training never draws from."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phrases:
    """The ways to say one thing, split between the two sides."""

    train: tuple[str, ...]
    held_out: tuple[str, ...] = ()

    def of(self, held_out: bool) -> tuple[str, ...]:
        """The list of one side."""
        return self.held_out if held_out else self.train


def phrases(train: str, held_out: str = "") -> Phrases:
    """Both lists from one phrasing a line."""
    return Phrases(
        tuple(line.strip() for line in train.strip().splitlines() if line.strip()),
        tuple(line.strip() for line in held_out.strip().splitlines() if line.strip()),
    )


def pattern_lines(text: str) -> tuple[str, ...]:
    """One pattern a line; a line that begins with | goes on with the one before it."""
    return tuple(line.strip() for line in re.sub(r"\n *\|", "|", text.strip("\n ")).splitlines())
