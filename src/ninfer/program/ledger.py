"""The model ledger of one sequence: which tokens are committed, and how many of them the model has been fed.

Knows tokens and two frontiers (D8). Does not know pages or states.
"""

from __future__ import annotations

from collections.abc import Sequence

from ninfer.base.buffers import IntBuffer


class Ledger:
    """`tokens`: int32, the prompt and the committed output. `execution_frontier`: length of computed KV and state."""

    __slots__ = ("execution_frontier", "prompt_tokens", "tokens")

    def __init__(self, tokens: IntBuffer, prompt_tokens: int, execution_frontier: int) -> None:
        assert 0 <= execution_frontier <= prompt_tokens <= len(tokens)
        self.tokens = tokens
        self.prompt_tokens = prompt_tokens
        self.execution_frontier = execution_frontier

    @property
    def ledger_frontier(self) -> int:
        """Committed tokens."""
        return len(self.tokens)

    @property
    def prompt_is_done(self) -> bool:
        """Whether the next unit feeds output."""
        return self.execution_frontier >= self.prompt_tokens

    @property
    def pending_tokens(self) -> int:
        """Committed tokens that are still to be fed."""
        return len(self.tokens) - self.execution_frontier

    def advance(self, frontier: int) -> None:
        """KV and state now reach `frontier`; only committed tokens are ever fed."""
        assert self.execution_frontier < frontier <= len(self.tokens), "V-08: the model was fed what is not committed"
        self.execution_frontier = frontier

    def commit(self, token_ids: Sequence[int]) -> None:
        """Append a drawn run. It follows directly on what was fed: ledger = execution + run (V-08)."""
        assert self.prompt_is_done, "V-08: output before the prompt is done"
        assert self.pending_tokens == 0, "V-08: output is committed while older output waits to be fed"
        self.tokens.extend(token_ids)
