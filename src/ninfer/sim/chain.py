"""Symbolic contents: a chain of fed tokens, and the rule that draws the next one from its digest.

A link stands for one fed token with its rotary position and everything before it. Two chains that were computed apart
are different objects even where their tokens are equal, so that a splice of both shows (D10).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain

from ninfer.base.pools import PAGE_TOKENS

_MASK = (1 << 64) - 1
_ROOT_DIGEST = 0x9E3779B97F4A7C15

Position = tuple[int, int, int]
Uniforms = Callable[[int], float]
"""Logical position -> the uniform number of its draw."""


def extend_digest(digest: int, token: int, position: Position) -> int:
    """Digest after one token more."""
    time, height, width = position
    mixed = digest * 6364136223846793005 + token * 2862933555777941757 + 1442695040888963407
    return (mixed + time * 3202034522624059733 + height * 3935559000370003845 + width * 4768777513237032717) & _MASK


def finish_digest(digest: int) -> int:
    """Spread a digest evenly over 64 bits."""
    digest = ((digest ^ (digest >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    digest = ((digest ^ (digest >> 27)) * 0x94D049BB133111EB) & _MASK
    return digest ^ (digest >> 31)


def draw_token(digest: int, vocab_tokens: int, uniform: float) -> int:
    """The rule of the next token: a function of all that was fed, and of the uniform number when not greedy (0)."""
    return finish_digest(digest ^ int(uniform * 2**53)) % vocab_tokens


class Link:
    """One fed token. `length`: tokens up to and with it. `before`: the link that closes the page before its own."""

    __slots__ = ("_head", "before", "digest", "length", "parent", "position", "token")

    def __init__(self, parent: Link | None, token: int, position: Position) -> None:
        self.parent = parent
        self.token = token
        self.position = position
        self.before: Link | None = None
        self._head: list[Link] | None = None
        if parent is None:
            self.length = 1
            self.digest = extend_digest(_ROOT_DIGEST, token, position)
            return
        self.length = parent.length + 1
        self.digest = extend_digest(parent.digest, token, position)
        self.before = parent.before if parent.length % PAGE_TOKENS else parent
        if self.length % PAGE_TOKENS == 0:
            self._head = parent.list_page()

    def list_page(self) -> list[Link]:
        """The links of its page up to this one; remembered where it closes the page."""
        if self._head is not None:
            return [*self._head, self]
        links = [self]
        link = self.parent
        while link is not None and link.length % PAGE_TOKENS:
            links.append(link)
            link = link.parent
        links.reverse()
        return links

    def list_links(self) -> list[Link]:
        """All links from position 0, this one last."""
        pages = []
        link: Link | None = self
        while link is not None:
            pages.append(link.list_page())
            link = link.before
        pages.reverse()
        return list(chain.from_iterable(pages))

    def history(self) -> list[int]:
        """All tokens from position 0."""
        return [link.token for link in self.list_links()]


def expected_tokens(
    prompt: Sequence[int],
    count: int,
    *,
    vocab_tokens: int,
    positions: Iterable[Position] | None = None,
    rope_delta: int = 0,
    uniforms: Uniforms | None = None,
    floor_tokens: int = 0,
    forbidden: Collection[int] = (),
    closing: Sequence[int] = (),
    closing_mark: int = -1,
    closing_after: int = 0,
) -> list[int]:
    """The `count` tokens that a request must give, in closed form: no batching, caching or chunks enter (V-15).

    `positions`: triples of the prompt, default (i, i, i). `uniforms`: None for greedy. `forbidden`:
    what is never drawn as one of the first `floor_tokens`; the next id that may be is drawn instead. `closing`: said
    after the first `closing_after` tokens, unless `closing_mark` was drawn among them.
    """
    triples = [(index, index, index) for index in range(len(prompt))] if positions is None else list(positions)
    digest = _ROOT_DIGEST
    for token, triple in zip(prompt, triples, strict=True):
        digest = extend_digest(digest, token, triple)
    drawn: list[int] = []
    for index in range(len(prompt), len(prompt) + count):
        token = draw_token(digest, vocab_tokens, 0.0 if uniforms is None else uniforms(index))
        while len(drawn) < floor_tokens and token in forbidden:
            token = (token + 1) % vocab_tokens
        if closing and 0 <= len(drawn) - closing_after < len(closing) and closing_mark not in drawn[:closing_after]:
            token = closing[len(drawn) - closing_after]
        drawn.append(token)
        axis = index + rope_delta
        digest = extend_digest(digest, token, (axis, axis, axis))
    return drawn
