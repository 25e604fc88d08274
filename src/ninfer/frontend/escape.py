"""Control-token text inside somebody's words stays text (LIMIT-07).

Before rendering, a private character is put inside every stretch of caller text that spells a control token (an added
token of the tokenizer), so that in the rendered prompt only the template's own control tokens are found. After the
prompt has been split at those, the private characters are taken out of each text segment again. Text that spells no
control token is passed on unchanged, so the render equals the plain one.

Knows strings and the list of control tokens. Knows neither templates nor token ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

BREAK = "\ufdd0"
"""Unicode noncharacter. In protected text a lone one was put there by us; one of the caller's own comes doubled."""

CONTENT_END = "\x02"
"""Marks where a message's content ends in a probe render. ASCII, so that the probe's text stays as narrow. Terminals
write this character too: `choose_mark` says what to take then."""

_UNESCAPE = re.compile(f"{BREAK}({BREAK}?)")


def replace_surrogates(text: str) -> str:
    """Lone surrogates become U+FFFD, surrogate pairs the character they mean (LIMIT-03)."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def choose_mark(text: str) -> str:
    """CONTENT_END, or where the text has that character a longer mark that stands nowhere in it.

    A mark begins and ends with a character that it has only there, so that none comes about where one is put in.
    """
    mark, count = CONTENT_END, 0
    while mark in text:
        mark, count = f"{CONTENT_END}{count}\x03", count + 1
    return mark


def unescape(text: str) -> str:
    """Take the private characters out again; exact inverse of `ControlText.escape`."""
    return _UNESCAPE.sub(r"\1", text) if BREAK in text else text


class ControlText:
    """The control tokens' spellings; protects caller text, splits rendered text."""

    __slots__ = ("_break", "_first", "_longest", "_split", "tokens")

    def __init__(self, tokens: Sequence[str]) -> None:
        assert all(len(token) >= 2 for token in tokens), "a control token of one character cannot be told from text"
        self.tokens = tuple(sorted(set(tokens), key=lambda token: (-len(token), token)))
        self._first = tuple(sorted({token[0] for token in self.tokens}))
        self._longest = max((len(token) for token in self.tokens), default=0)
        # Only the first character is consumed, so spellings that overlap are all broken.
        heads = (f"{re.escape(token[0])}(?={re.escape(token[1:])})" for token in self.tokens)
        self._break = re.compile("|".join(heads) or r"(?!)")
        # A shared first character outside the group lets the search run at memchr speed.
        if len(self._first) == 1:
            rest = "|".join(re.escape(token[1:]) for token in self.tokens)
            self._split = re.compile(f"({re.escape(self._first[0])}(?:{rest}))")
        else:
            self._split = re.compile("(" + ("|".join(map(re.escape, self.tokens)) or r"(?!)") + ")")

    def escape(self, text: str) -> str:
        """Caller text in which nothing can be taken for a control token, not even joined to the text behind it."""
        text = replace_surrogates(text)
        if BREAK in text:
            text = text.replace(BREAK, BREAK + BREAK)
        for first in self._first:
            if first in text:
                return self._break_tail(self._break.sub(lambda found: found.group() + BREAK, text))
        return text

    def escape_value(self, value: object) -> object:
        """The same for every string, keys included, of a JSON-like value."""
        if isinstance(value, str):
            return self.escape(value)
        if isinstance(value, Mapping):
            return {self.escape(str(key)): self.escape_value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.escape_value(item) for item in value]
        return value

    def split(self, rendered: str) -> list[str]:
        """Text, control token, text, ..., text: even places are (still protected) text, odd ones control tokens."""
        return self._split.split(rendered)

    def control_at(self, rendered: str, position: int) -> str | None:
        """The control token that starts exactly at `position`, if one does."""
        found = self._split.match(rendered, position)
        return None if found is None else found.group(1)

    def _break_tail(self, text: str) -> str:
        """Break a beginning of a control token at the end: a template may join the next part to it."""
        body = text.rstrip()
        for start in reversed(range(max(0, len(body) - self._longest), len(body))):
            if text[start] in self._first and any(token.startswith(body[start:]) for token in self.tokens):
                text = text[: start + 1] + BREAK + text[start + 1 :]
        return text
